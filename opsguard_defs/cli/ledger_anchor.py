"""`opsguard ledger anchor`: the head of the chain, to be kept elsewhere; and whether the chain still extends one that was kept.

A copy that was cut back, or an older one that was restored, verifies well by itself. Only a head kept outside shows it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.output import say
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from resources.ledger.interface import Ledger

AnchorText: Final = "FILE|JSON"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Published:
    """What `anchor` printed once. `store` as the store named itself."""

    store: str
    sequence: int
    digest: str

    @property
    def kind(self) -> str:
        """`file` or `postgres`, "" when it says neither."""
        first = self.store.partition(" ")[0]
        return first if first in ("file", "postgres") else ""


def read_anchors(text: str) -> tuple[Published, ...]:
    """JSON itself, or the name of a file that holds lines of it: each once, since nothing may be sent for days, the newest at the end."""
    if text.lstrip().startswith("{"):
        lines = [text]
    else:
        try:
            lines = Path(text).read_text(encoding="utf-8").strip().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else "") or error
            raise ConfigurationError(f"the anchor {text[:200]!a} cannot be read ({why})") from None
    said = [_parsed(line) for line in lines]
    if not said or said[-1] is None:
        raise ConfigurationError("an anchor is what `opsguard ledger anchor` printed: {store, sequence, digest, at}")
    newest_first = dict.fromkeys(one for one in reversed(said) if one is not None)
    return tuple(reversed(newest_first))


def _parsed(text: str) -> Published | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match said:
        case {"store": str(store), "sequence": int(sequence), "digest": str(digest)} if (
            _DIGEST.fullmatch(digest) and sequence >= 0
        ):
            return Published(store, sequence, digest)
        case _:
            return None


def kind_of(published: Sequence[Published]) -> str:
    """Which ledgers they are of, as `--store` names them; "" for more than one kind."""
    kinds = {one.kind for one in published}
    return kinds.pop() if len(kinds) == 1 else ""


def anchors_of(published: Sequence[Published], store: str) -> tuple[Published, ...]:
    """The store's own; else those of the newest of its kind; else of the newest: then it is said, and the chain itself decides. By rows."""
    kind = Published(store, 0, "").kind
    newest = next((one for one in reversed(published) if one.kind == kind), published[-1] if published else None)
    own = [one for one in published if one.store == store] or [one for one in published if newest and one.store == newest.store]
    return tuple(sorted(own, key=lambda one: one.sequence))


def check(ledger: "Ledger", published: Sequence[Published]) -> Exit:
    """Every one of them: the newest alone may have been printed after the rows were lost. Says on stderr what is wrong."""
    from guards.delivery.row import Head

    store = ledger.health().store
    if published[-1].store != store:
        say(f"the anchor is of {published[-1].store}, this is {store}: the chain itself decides")
    missing = [one for one in published if not ledger.extends(Head(one.sequence, one.digest))]
    if not missing:
        return Exit.DONE
    head, last = ledger.head(), missing[-1]
    cut = f", and it ends with row {head.sequence}" if head.sequence < last.sequence else ""
    others = f" (nor {len(missing) - 1} others that were)" if len(missing) > 1 else ""
    say(
        f"{store} does not hold row {last.sequence} ({last.digest[:12]}) as it was published{others}{cut}: rows were lost or "
        "replaced, for example by an older copy. Send nothing from it; find the newest copy. Where a person has accepted the loss: begin a "
        "new file of anchors"
    )
    return Exit.UNPROVEN

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
_LARGEST: Final = 64 * 1024


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
    """JSON itself, or the name of a file that holds lines of it: the last of each store, the newest line's at the end."""
    if text.lstrip().startswith("{"):
        lines = [text]
    else:
        try:
            lines = _last_lines(Path(text))
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else "") or error
            raise ConfigurationError(f"the anchor {text[:200]!a} cannot be read ({why})") from None
    said = [_parsed(line) for line in lines]
    if not said or said[-1] is None:
        raise ConfigurationError("an anchor is what `opsguard ledger anchor` printed: {store, sequence, digest, at}")
    last: dict[str, Published] = {}
    for one in said:
        if one is not None:
            last.pop(one.store, None)
            last[one.store] = one
    return tuple(last.values())


def _last_lines(path: Path) -> list[str]:
    """Of a file that grows for years, the end."""
    kept, size = b"", 0
    with path.open("rb") as file:
        while block := file.read(_LARGEST):
            kept, size = (kept + block)[-_LARGEST:], size + len(block)
    if size > _LARGEST:
        kept = kept.partition(b"\n")[2]
    return kept.decode("utf-8").strip().splitlines()


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


def anchor_of(published: Sequence[Published], store: str) -> Published | None:
    """The store's own; else the newest of its kind; else the newest: then it is said, and the chain itself decides."""
    kind = Published(store, 0, "").kind
    own = [one for one in published if one.store == store] or [one for one in published if one.kind == kind] or published
    return own[-1] if own else None


def check(ledger: "Ledger", published: Published) -> Exit:
    """Says on stderr what is wrong."""
    from guards.delivery.row import Head

    store = ledger.health().store
    if published.store != store:
        say(f"the anchor is of {published.store}, this is {store}: the chain itself decides")
    if ledger.extends(Head(published.sequence, published.digest)):
        return Exit.DONE
    head = ledger.head()
    cut = f", and it ends with row {head.sequence}" if head.sequence < published.sequence else ""
    say(
        f"{store} does not hold row {published.sequence} ({published.digest[:12]}) as it was published{cut}: rows were lost or "
        "replaced, for example by an older copy. Send nothing from it; find the newest copy"
    )
    return Exit.UNPROVEN

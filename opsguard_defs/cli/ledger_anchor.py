"""`opsguard ledger anchor`: the head of the chain, to be kept elsewhere; and whether the chain still extends one that was kept.

A copy that was cut back, or an older one that was restored, verifies well by itself. Only a head kept outside shows it.
"""

import json
import re
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


def read_anchor(text: str) -> Published:
    """JSON itself, or the name of a file that holds it; of several lines the last."""
    if not text.lstrip().startswith("{"):
        try:
            with Path(text).open("rb") as file:
                lines = file.read(_LARGEST).decode("utf-8").strip().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the anchor {text[:200]!a} cannot be read ({error})") from None
        text = lines[-1] if lines else ""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    match said:
        case {"store": str(store), "sequence": int(sequence), "digest": str(digest)} if (
            _DIGEST.fullmatch(digest) and sequence >= 0
        ):
            return Published(store, sequence, digest)
        case _:
            raise ConfigurationError("an anchor is what `opsguard ledger anchor` printed: {store, sequence, digest, at}")


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

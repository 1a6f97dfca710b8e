"""Which directories hold a file store, told without opening, locking or making anything."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from guards.delivery.refusal import LedgerRefused
from guards.delivery.replay import Replay
from guards.text import one_line
from resources.errors import ConfigurationError
from resources.ledger.interface import StoredRow, not_taken

_FENCE: Final = "fence.json"
_PARTS: Final = ("segments", "claims")
_MOST_FENCE_BYTES: Final = 16 * 1024


def is_store(root: Path) -> bool:
    """It holds a fence, or what is left of a store that lost its fence."""
    return (root / _FENCE).is_file() or all((root / part).is_dir() for part in _PARTS)


def is_retired(root: Path) -> bool:
    """Given up for good: nothing is ever sent from there again, so its rows may be used elsewhere as they are."""
    from resources.ledger.file.fence import FenceState, parse_fence

    try:
        with (root / _FENCE).open("rb") as file:
            fence = parse_fence(file.read(_MOST_FENCE_BYTES))
    except OSError:
        return False
    return fence is not None and fence.state is FenceState.RETIRED


def require_outside(path: Path, what: str) -> None:
    """Nothing of ours is ever written between the files of a ledger."""
    absolute = path.resolve()
    for directory in (absolute, *absolute.parents):
        if is_store(directory) and (directory != absolute or path.is_dir()):
            raise ConfigurationError(
                f"{one_line(str(path))} is inside the ledger {one_line(str(directory))}: name another place for {what}"
            )


def are_a_ledger(rows: Iterable[StoredRow]) -> LedgerRefused | None:
    """What a store would say to adopting them, asked before a store is made for them: one that is refused leaves nothing behind."""
    replay = Replay(is_lean=True)
    for row in rows:
        replay.take(*row)
        if replay.faults:
            return not_taken(replay.faults[0])
    return None

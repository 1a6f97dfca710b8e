"""A glance at a store from outside: has anything been written since? Takes no lock, reads no row, proves nothing.

For whoever would otherwise verify everything once a minute to learn that nothing happened. A writer that is killed between its row and
the anchor changes the active segment's size, and one that begins a segment the list of them: both are part of the mark.
"""

import hashlib
from pathlib import Path
from typing import Final

from resources.ledger.file.anchor import NAME as ANCHOR
from resources.ledger.file.anchor import SLOT_BYTES, SLOTS
from resources.ledger.file.fence import NAME as FENCE
from resources.ledger.file.segments import NAME as SEGMENTS
from resources.ledger.file.segments import signature_of
from resources.ledger.file.standing import LOCK

NO_MARK: Final = ""


def mark_of(root: Path) -> str:
    """Equal marks: nobody has appended, repaired, replaced or accepted anything in between. `NO_MARK` when it cannot be told."""
    try:
        with (root / ANCHOR).open("rb") as file:
            anchor = file.read(SLOTS * SLOT_BYTES + 1)
        paths = [root / LOCK, root / FENCE, root / SEGMENTS, *sorted((root / SEGMENTS).iterdir())]
        seen = [(path.name, signature_of(path.lstat())) for path in paths]
    except OSError:
        return NO_MARK
    return hashlib.sha256(repr((anchor, seen)).encode()).hexdigest()

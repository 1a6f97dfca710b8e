"""The few things that opening sets right by itself, because nothing that anyone was told depends on them."""

import hashlib
from collections.abc import Mapping

from resources.ledger.file.anchor import AnchorFile
from resources.ledger.file.claims import Claims, parse_claim
from resources.ledger.file.disk import Disk
from resources.ledger.file.index import slot_of
from resources.ledger.file.scan import Scan
from resources.ledger.file.segments import NAME, Segments, path_of
from resources.ledger.file.writing import create_anew, sync, sync_directory, write_all, write_temporary

QUARANTINE = "quarantine"
ADOPTED = "adopted"
"""What was taken over counts. The head that it ended with stands in the file."""


def cut_torn_end(scan: Scan, *, disk: Disk, segments: Segments, anchor: AnchorFile) -> None:
    """A last line without its newline that no anchor covers: its writer did not come so far as to answer anyone. Kept, then cut."""
    newest = anchor.newest
    if newest is None:
        return
    scan.take_hole_as_torn(newest.head)
    torn = scan.torn
    if torn is None or newest.head.sequence > scan.index.head.sequence or torn.segment != scan.segment:
        return
    set_aside(disk, f"torn-{torn.segment:06d}-{torn.offset}", torn.text)
    file = segments.file(torn.segment)
    disk.truncate(file, torn.offset)
    sync(disk, file)
    scan.torn = None


def set_aside(disk: Disk, name: str, data: bytes) -> str:
    """Durable under `quarantine/`; the same again is the same file. Returns its path."""
    path = f"{QUARANTINE}/{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    write_temporary(disk, "temp/quarantine", data)
    disk.rename("temp/quarantine", path)
    sync_directory(disk, QUARANTINE)
    return path


def copy_afresh(number: int, *, disk: Disk, segments: Segments) -> None:
    """A segment's content in another file under its name: pages of the old one that failed to be written may be marked clean."""
    file = create_anew(disk, "temp/segment")
    try:
        for data in segments.chunks(number):
            write_all(disk, file, data)
        sync(disk, file)
    finally:
        disk.done(file)
    disk.rename("temp/segment", path_of(number))
    sync_directory(disk, NAME)
    segments.reopen()


def claim_again(orphans: Mapping[str, int], claims: Claims) -> None:
    """Claims whose rows were never written, afresh, for the same reason."""
    for key, attempt in orphans.items():
        stored = claims.read(slot_of(key), attempt)
        claim = parse_claim(stored) if stored is not None else None
        if claim is not None:
            claims.replace(claim)

"""Whether a scanned store may go on as a whole: fence, anchor, what was known before, and a torn end."""

from dataclasses import dataclass
from typing import Final

from guards.delivery.replay import FaultKind
from guards.delivery.row import Head
from resources.ledger.file.anchor import AnchorFile
from resources.ledger.file.disk import Disk
from resources.ledger.file.fence import Fence, FenceReason, FenceState
from resources.ledger.file.line import split_line
from resources.ledger.file.place import identity
from resources.ledger.file.scan import Scan
from resources.ledger.file.segments import LONGEST_LINE, Segments, path_of

LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class Standing:
    """`trouble` is "" or one sentence that says what keeps the whole store from sending. `is_cut`: rows that were known are gone."""

    trouble: str = ""
    is_cut: bool = False


def fence_trouble(disk: Disk, fence: Fence | None) -> str:
    if fence is None:
        return (
            "the fence document is gone or was altered, so nobody can say whether this store may send: `opsguard ledger repair`"
        )
    match fence.state:
        case FenceState.RETIRED:
            return f"this store was retired{f' ({fence.note})' if fence.note else ''}: use the one that took over its rows"
        case FenceState.PREPARING:
            return "this store was never finished: open it again"
        case FenceState.RECOVERY_REQUIRED:
            return _recovery(fence)
        case FenceState.READY:
            if dict(fence.place) != identity(disk, LOCK):
                return _COPIED
    return ""


_COPIED: Final = (
    "this directory is a copy of the one that was made, or a restored backup: what was sent since is not in it. Make sure that no other "
    "copy is used, then `opsguard ledger repair --accept-copy`"
)


def _recovery(fence: Fence) -> str:
    match fence.reason:
        case FenceReason.SYNC_FAILED:
            return f"the disk did not take what was written ({fence.note}): open it again, which verifies everything"
        case FenceReason.COPIED:
            return _COPIED
        case FenceReason.ACCEPTING:
            return "what was open when a copy or a loss was accepted is still being turned into doubt: `opsguard ledger repair`"
        case _:
            return f"rows that were there are gone ({fence.note}): `opsguard ledger verify`; put back the newest copy, or accept the loss with `opsguard ledger repair --accept-loss`"


def judge(scan: Scan, *, disk: Disk, segments: Segments, anchor: AnchorFile, fence: Fence | None, known: Head | None) -> Standing:
    """Finishes the scan, and adds what is wrong outside the rows to its faults. `known`: a head that was seen here before."""
    newest = anchor.newest
    trouble = fence_trouble(disk, fence)
    if trouble:
        scan.fault(FaultKind.FENCE, 0, trouble)
    cut = ""
    if newest is None or not anchor.is_whole or (fence is not None and newest.store != fence.store):
        cut = "the head's anchor is gone, was altered, or is another store's: whether the last rows are there cannot be proven"
        scan.fault(FaultKind.ANCHOR, 0, cut)
    else:
        for number in anchor.damaged:
            scan.fault(FaultKind.ANCHOR, 0, f"slot {number} of the head's anchor was altered; the other one holds")
    if newest is not None:
        scan.take_hole_as_torn(newest.head)
    if scan.torn is not None:
        where = f"byte {scan.torn.offset} of {path_of(scan.torn.segment)}"
        scan.fault(FaultKind.TORN, scan.index.head.sequence + 1, f"the line at {where} does not end")
    scan.finish(newest.head if newest else None)
    for wanted, what in ((newest.head if newest else None, "the anchor"), (known, "this process")):
        if wanted is not None and not cut and not holds(scan, segments, wanted):
            cut = (
                f"the chain ends at row {scan.index.head.sequence}, and {what} knew row {wanted.sequence} ({wanted.digest[:12]})"
            )
            scan.fault(FaultKind.HEAD, wanted.sequence, cut)
    if scan.unknown_end and not cut:
        cut = "the last row was altered, and what it was is not anchored: nothing can follow it"
    active = segments.signature(scan.segment)
    if not cut and active is None:
        cut = f"{path_of(scan.segment)} is gone"
    if not cut and active is not None and active.size != scan.offset:
        cut = f"{path_of(scan.segment)} goes on behind its last line, at byte {scan.offset}"
    if cut and not trouble:
        trouble = _recovery(Fence(state=FenceState.RECOVERY_REQUIRED, store="", reason=FenceReason.CUT_BACK, note=cut))
    return Standing(trouble, bool(cut))


def holds(scan: Scan, segments: Segments, published: Head) -> bool:
    """The chain holds exactly this row."""
    if published.sequence == 0 or published == scan.index.head:
        return published in (Head(), scan.index.head)
    return digest_at(scan, segments, published.sequence) == published.digest


def digest_at(scan: Scan, segments: Segments, sequence: int) -> str | None:
    place = scan.index.where(sequence)
    if place is None:
        return None
    line = segments.read(*place, LONGEST_LINE)
    parts = split_line(line.partition(b"\n")[0])
    return parts[0] if parts else None


def never_acknowledged(scan: Scan, anchor: AnchorFile) -> bool:
    """A torn end that no anchor covers: its writer did not come so far as to answer anyone."""
    newest = anchor.newest
    return scan.torn is not None and newest is not None and newest.head.sequence <= scan.index.head.sequence

"""Whether a scanned store may go on as a whole: fence, anchor, what was known before, and a torn end."""

from dataclasses import dataclass, replace
from typing import Final

from guards.delivery.replay import FaultKind
from guards.delivery.row import Head
from resources.ledger.file.anchor import Anchor, AnchorFile
from resources.ledger.file.disk import Disk
from resources.ledger.file.fence import Fence, FenceReason, FenceState
from resources.ledger.file.place import identity
from resources.ledger.file.scan import ORPHAN, Scan
from resources.ledger.file.segments import Segments, path_of

LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class Standing:
    """`trouble` is "" or one sentence that says what keeps the whole store from sending. `is_cut`: rows that were known are gone."""

    trouble: str = ""
    is_cut: bool = False


def fence_trouble(disk: Disk, segments: Segments, fence: Fence | None, newest: Anchor | None) -> str:
    if newest is not None and newest.is_retired and (fence is None or fence.state is not FenceState.RETIRED):
        return "this store was retired, and an older fence document was put back: use the store that took over its rows"
    if fence is None:
        return (
            "the fence document is gone or was altered, so nobody can say whether this store may send: make sure that no other copy "
            "is used, then `opsguard ledger repair --accept-copy --yes`"
        )
    match fence.state:
        case FenceState.RETIRED:
            return f"this store was retired{f' ({fence.note})' if fence.note else ''}: use the one that took over its rows"
        case FenceState.PREPARING:
            if fence.reason is FenceReason.ADOPTING:
                return (
                    "this directory was copied, or its fence document put back, in the middle of an import: make a new directory, and "
                    "import into that"
                )
            return _COPIED
        case FenceState.RECOVERY_REQUIRED:
            return _recovery(fence, is_here=dict(fence.place) == identity(disk, LOCK))
        case FenceState.READY:
            if newest is not None and fence.generation < newest.generation:
                return _OLDER_FENCE
            if dict(fence.place) != identity(disk, LOCK) or is_replaced(segments, newest):
                return _COPIED
    return ""


def is_replaced(segments: Segments, newest: Anchor | None) -> bool:
    """The file of the anchored rows is another than the one that was anchored: `rsync` and `tar` put a new one under the name."""
    if newest is None:
        return False
    now = segments.signature(newest.segment)
    return now is not None and now.inode != newest.signature.inode


def is_put_back(scan: Scan, segments: Segments, newest: Anchor) -> bool:
    """Rows written by this program change both times of their file; a file whose older content was put back with its times (`cp -p`) has
    the time of its content, and not that of its change. So has one whose mode or owner was changed."""
    if newest.head != scan.index.head:  # rows behind the anchor: whoever wrote them came no further, and left both times alike
        last = segments.signature(scan.segment)
        return last is not None and scan.index.head.sequence > newest.head.sequence and last.modified_ns != last.changed_ns
    now, was = segments.signature(newest.segment), newest.signature
    if now is None:
        return False
    return (now.size, now.modified_ns) == (was.size, was.modified_ns) and now.changed_ns != was.changed_ns


_COPIED: Final = (
    "this directory is a copy of the one that was made, or a restored backup: what was sent since is not in it. Make sure that no other "
    "copy is used, then `opsguard ledger repair --accept-copy --yes`"
)


_OLDER_FENCE: Final = (
    "the fence document is older than the anchor: it was put back from a copy. Make sure that no other copy is used, then "
    "`opsguard ledger repair --accept-copy --yes`"
)


def _recovery(fence: Fence, *, is_here: bool = True) -> str:
    match fence.reason:
        case FenceReason.ACCEPTING | FenceReason.COPIED if not is_here:
            return _COPIED
        case FenceReason.SYNC_FAILED:
            return f"the disk did not take what was written ({fence.note}): open it again, which verifies everything"
        case FenceReason.COPIED:
            return _COPIED
        case FenceReason.ACCEPTING:
            return "what was open when a copy or a loss was accepted is still being turned into doubt: `opsguard ledger repair --yes`"
        case _:
            return f"rows that were there are gone ({fence.note}): `opsguard ledger verify`; put back the newest copy, or accept the loss with `opsguard ledger repair --accept-loss --yes`"


def judge(scan: Scan, *, disk: Disk, segments: Segments, anchor: AnchorFile, fence: Fence | None, known: Head | None) -> Standing:
    """Finishes the scan, and adds what is wrong outside the rows to its faults. `known`: a head that was seen here before."""
    newest = anchor.newest
    trouble = fence_trouble(disk, segments, fence, newest)
    if trouble:
        scan.fault(FaultKind.FENCE, 0, trouble)
    cut = ""
    if newest is None or not anchor.is_whole or (fence is not None and newest.store != fence.store):
        cut = _NO_ANCHOR
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
    if not trouble and newest is not None and is_put_back(scan, segments, newest):
        trouble = _COPIED
        scan.fault(FaultKind.FENCE, 0, trouble)
    noted = fence.head if fence is not None and fence.head.sequence else None
    for wanted, what in ((newest.head if newest else None, "the anchor"), (noted, "the fence document"), (known, "this process")):
        if wanted is not None and not cut and not holds(scan, wanted):
            cut = (
                f"the chain ends at row {scan.index.head.sequence}, and {what} knew row {wanted.sequence} ({wanted.digest[:12]})"
            )
            scan.fault(FaultKind.HEAD, wanted.sequence, cut)
    if scan.unknown_end and not cut:
        cut = "the last row was altered, and what it was is not anchored: nothing can follow it"
    if scan.unfounded and not cut:
        slot, made_on = scan.unfounded[0]
        cut = f"the claim on {slot.key} was made on row {made_on.sequence} ({made_on.digest[:12]}), which the chain does not hold"
        scan.fault(FaultKind.HEAD, made_on.sequence, cut, slot)
    _name_missing_segments(scan, segments, newest)
    cut = cut or _end(scan, segments)
    trouble = (trouble if not _is_accepted_gone(scan, fence) else "") or _trouble_of(cut)
    scan.faults = [replace(each, why=_ORPHAN_OF_A_CUT) if trouble and each.why == ORPHAN else each for each in scan.faults]
    return Standing(trouble, bool(cut))


def _is_accepted_gone(scan: Scan, fence: Fence | None) -> bool:
    """While an acceptance was being carried out: it does not go on by itself."""
    return fence is not None and fence.reason is FenceReason.ACCEPTING and not holds(scan, fence.head)


_ORPHAN_OF_A_CUT: Final = (
    "a claim without a row: what became of it is not known, and the repair that accepts the rest makes it unknown"
)


_NO_ANCHOR: Final = (
    "the head's anchor is gone, was altered, or is another store's: whether the last rows are there cannot be proven"
)


def _trouble_of(cut: str) -> str:
    if cut == _NO_ANCHOR:
        return (
            f"{cut}. Compare with a head that was kept elsewhere (`opsguard ledger verify --against`), put back the newest copy, or accept "
            "what is there with `opsguard ledger repair --accept-loss --yes`"
        )
    return _recovery(Fence(state=FenceState.RECOVERY_REQUIRED, store="", reason=FenceReason.CUT_BACK, note=cut)) if cut else ""


def _name_missing_segments(scan: Scan, segments: Segments, newest: Anchor | None) -> None:
    """Those before the last that is there were named while it was read."""
    for number in range(scan.segment, newest.segment + 1 if newest is not None else scan.segment + 1):
        if segments.signature(number) is None:
            scan.fault(FaultKind.MISSING_SEGMENT, scan.index.head.sequence + 1, f"{path_of(number)} is gone")


def _end(scan: Scan, segments: Segments) -> str:
    active = segments.signature(scan.segment)
    if active is None:
        return f"{path_of(scan.segment)} is gone"
    if active.size != scan.offset:
        return f"{path_of(scan.segment)} goes on behind its last line, at byte {scan.offset}"
    return ""


def holds(scan: Scan, published: Head) -> bool:
    """The chain holds exactly this row."""
    if published.sequence == 0 or published == scan.index.head:
        return published in (Head(), scan.index.head)
    return scan.digest_at(published.sequence) == published.digest

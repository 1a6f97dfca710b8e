"""A backup that is consistent while the store is in use: where everything ended at one moment, then copies of what no longer changes."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from guards.delivery.row import Head
from guards.delivery.slot import Slot
from guards.text import one_line
from resources.errors import ConfigurationError, OutcomeUnknown, Unreachable
from resources.ledger.file.anchor import NAME as ANCHOR
from resources.ledger.file.anchor import both_slots
from resources.ledger.file.claims import NAME as CLAIMS
from resources.ledger.file.claims import Claims
from resources.ledger.file.core import Core
from resources.ledger.file.disk import PRIVATE_DIRECTORY, Disk
from resources.ledger.file.fence import Fence, FenceReason, FenceState, write_fence
from resources.ledger.file.index import slot_of
from resources.ledger.file.segments import NAME as SEGMENTS
from resources.ledger.file.segments import path_of, signature_of
from resources.ledger.file.standing import LOCK
from resources.ledger.file.tidying import QUARANTINE
from resources.ledger.file.writing import SyncFailed, sync, sync_directory, write_all


def back_up(core: Core, target: Path) -> Head:
    """The fence document comes last: a directory without one is a backup that did not come to its end."""
    with core.alone():
        with core.locked():
            head, end = core.index.head, (core.scan.segment, core.scan.offset)
            numbers = core.segments.numbers()
            keys, orphans, claimed = list(core.index.rows), dict(core.index.orphans), set(core.index.slots)
            sealed = _fence(core)
        _make(target)
        into = Disk(target)
        try:
            for name in (SEGMENTS, CLAIMS, QUARANTINE, "temp"):
                into.make_directory(name)
            into.done(into.create(LOCK))
            for number in numbers:
                if number <= end[0]:
                    _copy_segment(core, into, number, end[1] if number == end[0] else None)
            sync_directory(into, SEGMENTS)
            _copy_claims(core, into, keys, orphans, claimed)
            _seal(into, sealed, head=head, segment=end[0])
        except SyncFailed as failed:
            raise OutcomeUnknown(
                f"the disk of {one_line(str(target))} did not take the backup ({failed}): remove it, and make another"
            ) from failed
        except OSError as error:
            raise Unreachable(
                f"the backup in {one_line(str(target))} did not come to its end ({error.strerror or error!r}): is there space, and can its "
                "disk be written? Remove it, then make another. The ledger itself goes on"
            ) from error
        finally:
            into.close()
    return head


def _require_outside_of_ledgers(target: Path) -> None:
    """A backup in a ledger's own directory goes when that goes, and its files are foreign there."""
    at = target.resolve()
    for each in (at, *at.parents):
        if (each / LOCK).exists() and (each / SEGMENTS).is_dir():
            raise ConfigurationError(
                f"{one_line(str(target))} is in the directory of a ledger ({one_line(str(each))}): name one outside of it"
            )


def _make(target: Path) -> None:
    _require_outside_of_ledgers(target)
    try:
        target.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        if any(target.iterdir()):
            raise ConfigurationError(f"{one_line(str(target))} is not empty: name a new directory for the backup")
        os.chmod(target, PRIVATE_DIRECTORY)  # noqa: PTH101
    except OSError as error:
        raise ConfigurationError(f"{one_line(str(target))} cannot be made ({error.strerror}): name another place") from error


def _copy_segment(core: Core, into: Disk, number: int, size: int | None) -> None:
    file = into.create(path_of(number))
    try:
        for data in core.segments.chunks(number, size):
            write_all(into, file, data)
        sync(into, file)
    finally:
        into.done(file)


def _copy_claims(core: Core, into: Disk, keys: list[str], orphans: dict[str, int], claimed: set[bytes]) -> None:
    """Of the slots that have rows every attempt's up to that moment; of the others the claim that has none."""

    def copies() -> Iterator[tuple[Slot, int, bytes]]:
        for key in keys:
            slot, attempt = slot_of(key), 1
            while bytes.fromhex(slot.reservation_id(attempt)) in claimed:
                stored = core.claims.read(slot, attempt)
                if stored is not None:
                    yield slot, attempt, stored
                attempt += 1
        for key in orphans.keys() - set(keys):
            stored = core.claims.read(slot_of(key), orphans[key])
            if stored is not None:
                yield slot_of(key), orphans[key], stored

    Claims(into).write_copies(copies())


def _fence(core: Core) -> Fence:
    """A copy. That rows were gone, that the store was given up, or when a copy was last accepted, goes along."""
    fence, newest = core.fence, core.anchor.newest
    accepted_at = fence.accepted_at if fence is not None else ""
    if (fence is not None and fence.state is FenceState.RETIRED) or (newest is not None and newest.is_retired):
        note = fence.note if fence is not None else ""
        return Fence(
            state=FenceState.RETIRED,
            store=core.store,
            reason=FenceReason.RETIRED,
            note=note,
            accepted_at=accepted_at,
            generation=1,
        )
    copied = Fence(
        state=FenceState.RECOVERY_REQUIRED,
        store=core.store,
        reason=FenceReason.COPIED,
        accepted_at=accepted_at,
        generation=1,
    )
    if not core.standing.is_cut and (fence is None or fence.reason is not FenceReason.CUT_BACK):
        return copied
    lost = fence.head if fence is not None else Head()
    return replace(
        copied, reason=FenceReason.CUT_BACK, note=f"in what was copied: {one_line(core.standing.trouble, limit=400)}", head=lost
    )


def _seal(into: Disk, fence: Fence, *, head: Head, segment: int) -> None:
    data = both_slots(
        store=fence.store,
        head=head,
        segment=segment,
        signature=signature_of(into.status_of(path_of(segment))),
        generation=fence.generation,
        is_retired=fence.state is FenceState.RETIRED,
    )
    file = into.create(ANCHOR)
    try:
        write_all(into, file, data)
        sync(into, file)
    finally:
        into.done(file)
    sync_directory(into)
    write_fence(into, fence)

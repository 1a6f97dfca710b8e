"""Older state under a store that was used since: nothing that may have been sent is sent from it before a person says so."""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from guards.delivery.entry import Reservation
from guards.delivery.outcome import delivered
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.refusal import LedgerRefused
from guards.delivery.replay import FaultKind
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Slot
from resources.errors import ConfigurationError, OpsGuardError, OutcomeUnknown, Unreachable
from resources.ledger.file.adopting import Adopter
from resources.ledger.file.claims import parse_claim
from resources.ledger.file.disk import Disk
from resources.ledger.file.fence import FenceReason, FenceState, parse_fence
from resources.ledger.file.locks import try_lock
from resources.ledger.file.store import FileLedger
from tests.integration.ledger_file.faulty import Fault, FullDisk, UnsyncedDisk, failing
from tests.ledgers.builders import PINS, RECEIPT, code, feed, granted, reserved, told


def used_after_a_backup(root: Path) -> Path:
    """`open` is prepared in the backup and delivered since; of `later` the backup knows nothing."""
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("first")), delivered(RECEIPT)))
        reserved(ledger, feed("open"))
    backup = root.parent / "older"
    shutil.copytree(root, backup, copy_function=shutil.copy2)
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("open")), delivered(RECEIPT)))
        told(ledger.settle(granted(ledger, feed("later")), delivered(RECEIPT)))
    return backup


def over_segments_and_anchor(backup: Path, root: Path) -> None:
    for name in ("segments/000001.jsonl", "anchor"):
        shutil.copy2(backup / name, root / name)


def by_new_files(backup: Path, root: Path) -> None:
    """As `rsync -a` does: what differs comes under its name as another file, what is the same stays."""
    for path in backup.rglob("*"):
        target = root / path.relative_to(backup)
        if path.is_dir() or (target.exists() and target.read_bytes() == path.read_bytes()):
            continue
        shutil.copy2(path, root.parent / "new")
        (root.parent / "new").rename(target)


def by_new_files_and_no_others(backup: Path, root: Path) -> None:
    by_new_files(backup, root)
    shutil.rmtree(root / "claims")
    shutil.copytree(backup / "claims", root / "claims", copy_function=shutil.copy2)


@pytest.mark.parametrize("put_back", [over_segments_and_anchor, by_new_files, by_new_files_and_no_others])
def test_a_backup_put_back_in_place_sends_nothing_a_second_time(root, put_back: Callable[[Path, Path], None]):
    """The lock file stayed, so the store took itself for the one that it was, and called twice for what was delivered since."""
    backup = used_after_a_backup(root)
    put_back(backup, root)
    with FileLedger.open(root) as ledger:
        assert ledger.health().recovery
        assert {fault.kind for fault in ledger.verify().faults} & {"fence", "head"}
        for slot in (feed("open"), feed("later")):
            assert code(ledger.reserve(slot, PINS, key="run-9")) is C.RECOVERY_REQUIRED
            assert code(ledger.grant(slot.reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED
        assert ledger.repair().made == ()
        assert ledger.repair(accept_copy=True, accept_loss=True).left == ()
        assert ledger.health().recovery == ""
        assert told(ledger.of(feed("open"))[0]).state is S.UNKNOWN
        due = datetime.now(UTC) - timedelta(minutes=5)
        assert told(ledger.reserve(feed("later"), PINS, key="run-9", not_before=due)).state is S.UNKNOWN
    with FileLedger.open(root) as ledger:
        assert ledger.verify().faults == ()


def test_a_copy_that_was_made_between_a_row_and_its_anchor_is_noticed_where_it_is_put_back_in_place(root):
    """Its anchor named the row before, so the file's times were not looked at, and `open` was granted twice."""
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("first")), delivered(RECEIPT)))
        before = (root / "anchor").read_bytes()
        reserved(ledger, feed("open"))
    backup = root.parent / "older"
    shutil.copytree(root, backup, copy_function=shutil.copy2)
    (backup / "anchor").write_bytes(before)
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("open")), delivered(RECEIPT)))
    over_segments_and_anchor(backup, root)
    with FileLedger.open(root) as ledger:
        assert "this directory is a copy" in ledger.health().recovery
        assert code(ledger.grant(feed("open").reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED
        assert ledger.repair(accept_copy=True).left == ()
        assert told(ledger.of(feed("open"))[0]).state is S.UNKNOWN


def test_a_claim_says_on_which_row_it_was_made_and_the_chain_must_hold_it(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("one"))
        head = ledger.head()
        reserved(ledger, feed("two"))
    path = root / "claims" / feed("two").customer / feed("two").period / feed("two").kind
    claim = parse_claim(path.read_bytes())
    assert claim is not None
    assert claim.after == head
    path.write_bytes(replace(claim, after=replace(head, digest="f" * 64)).bytes)
    with FileLedger.open(root) as ledger:
        assert [fault.slot for fault in ledger.verify().faults] == [feed("two")]
        assert code(ledger.grant(feed("two").reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED
        granted(ledger, feed("one"))
        assert ledger.repair().left == ()


def test_what_was_due_before_a_copy_was_accepted_opens_in_doubt(root):
    """The backup did not know of the slot, so it was free there, and the message went out a second time."""
    with FileLedger.open(root) as ledger:
        ledger.backup(root.parent / "older")
    with FileLedger.open(root.parent / "older") as ledger:
        ledger.repair(accept_copy=True)
        now = ledger.now()
        assert reserved_at(ledger, feed("due"), now - timedelta(hours=1)) is S.UNKNOWN
    with FileLedger.open(root.parent / "older") as ledger:
        assert reserved_at(ledger, feed("due-too"), now - timedelta(seconds=1)) is S.UNKNOWN
        assert reserved_at(ledger, feed("since"), ledger.now()) is S.PREPARED


def reserved_at(ledger: FileLedger, slot: Slot, due: datetime) -> S:
    return told(ledger.reserve(slot, PINS, key="run-9", not_before=due)).state


def test_a_store_that_is_whole_can_be_accepted_as_older_too(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("open"))
        assert ledger.repair(accept_copy=True).left == ()
        assert told(ledger.of(feed("open"))[0]).state is S.UNKNOWN
        assert reserved_at(ledger, feed("due"), ledger.now() - timedelta(hours=1)) is S.UNKNOWN
        assert ledger.health().recovery == ""


# The fence document


def test_an_older_fence_document_does_not_undo_a_retirement(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("open"))
        older = (root / "fence.json").read_bytes()
        assert ledger.retire(note="moved") is None
    (root / "fence.json").write_bytes(older)
    with FileLedger.open(root) as ledger:
        assert "retired" in ledger.health().recovery
        assert code(ledger.grant(feed("open").reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED
        assert ledger.repair(accept_copy=True, accept_loss=True).made == ()
    (root / "fence.json").unlink()
    with FileLedger.open(root) as ledger:
        assert ledger.repair(accept_copy=True, accept_loss=True).made == ()


def test_an_older_fence_document_and_anchor_do_not_undo_a_retirement_where_no_row_followed(root):
    """`rsync -a` from a backup brought back just these two, since nothing else had changed, and the store sent again."""
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("open"))
    backup = root.parent / "older"
    shutil.copytree(root, backup, copy_function=shutil.copy2)
    with FileLedger.open(root) as ledger:
        assert ledger.retire(note="moved") is None
    for name in ("fence.json", "anchor"):
        shutil.copy2(backup / name, root / name)
    with FileLedger.open(root) as ledger:
        assert "this directory is a copy" in ledger.health().recovery
        assert code(ledger.grant(feed("open").reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED


def test_an_older_fence_document_and_anchor_do_not_undo_an_acceptance_where_no_row_followed(root):
    """What was due before it was free again."""
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("first")), delivered(RECEIPT)))
    backup = root.parent / "older"
    shutil.copytree(root, backup, copy_function=shutil.copy2)
    with FileLedger.open(root) as ledger:
        due = ledger.now() - timedelta(minutes=5)
        assert ledger.repair(accept_copy=True).is_accepted
    by_new_files(backup, root)
    with FileLedger.open(root) as ledger:
        assert "this directory is a copy" in ledger.health().recovery
        assert code(ledger.reserve(feed("due"), PINS, key="run-9", not_before=due)) is C.RECOVERY_REQUIRED
        assert ledger.repair(accept_copy=True).left == ()
        assert reserved_at(ledger, feed("due"), due) is S.UNKNOWN


def test_an_older_fence_document_and_anchor_of_a_segment_that_is_full_do_not_undo_an_acceptance_either(root):
    with FileLedger.open(root, seal_rows=5) as ledger:
        told(ledger.settle(granted(ledger, feed("first")), delivered(RECEIPT)))
    backup = root.parent / "older"
    shutil.copytree(root, backup, copy_function=shutil.copy2)
    with FileLedger.open(root, seal_rows=5) as ledger:
        for number in range(3):
            told(ledger.settle(granted(ledger, feed(number)), delivered(RECEIPT)))
        due = ledger.now() - timedelta(minutes=5)
        assert ledger.repair(accept_copy=True).is_accepted
        told(ledger.settle(granted(ledger, feed("after")), delivered(RECEIPT)))
    for name in ("fence.json", "anchor"):
        shutil.copy2(backup / name, root / name)
    with FileLedger.open(root, seal_rows=5) as ledger:
        assert "this directory is a copy" in ledger.health().recovery
        assert code(ledger.reserve(feed("due"), PINS, key="run-9", not_before=due)) is C.RECOVERY_REQUIRED


def test_a_backup_of_a_retired_store_is_retired(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("open"))
        assert ledger.retire(note="moved") is None
        ledger.backup(root.parent / "backup")
    with FileLedger.open(root.parent / "backup") as ledger:
        assert "retired" in ledger.health().recovery
        assert ledger.repair(accept_copy=True, accept_loss=True).made == ()


def test_a_backup_of_a_store_whose_rows_are_gone_says_so_too(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("open"))
        names = ("segments/000001.jsonl", "anchor")
        older = {name: (root / name).read_bytes() for name in names}
        granted(ledger, feed("open"))
        for name, content in older.items():
            (root / name).write_bytes(content)
        assert "gone" in ledger.health().recovery
        ledger.backup(root.parent / "backup")
    for where in (root, root.parent / "backup"):
        with FileLedger.open(where) as ledger:
            assert "gone" in ledger.health().recovery
            assert ledger.repair().made == ()
            assert ledger.repair(accept_copy=True).made == ()
            assert ledger.repair(accept_copy=True, accept_loss=True).left == ()
            assert told(ledger.of(feed("open"))[0]).state is S.UNKNOWN


def left_half_accepted(root: Path) -> Path:
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("sent")), delivered(RECEIPT)))
        reserved(ledger, feed("open"))
        ledger.backup(root.parent / "backup")
    for number in range(1, 30):
        half, fault = root.parent / f"half-{number}", Fault()
        shutil.copytree(root.parent / "backup", half)
        with FileLedger.open(half, disk=failing(UnsyncedDisk, fault)) as ledger:
            fault.left = number
            with pytest.raises((OpsGuardError, OSError)):
                ledger.repair(accept_copy=True)
        fence = parse_fence((half / "fence.json").read_bytes())
        if fence is not None and fence.reason is FenceReason.ACCEPTING:
            return half
    raise AssertionError("it was never half accepted")


def test_a_copy_of_a_store_that_is_half_accepted_has_to_be_accepted_itself(root):
    """A plain repair of each made two stores of one, both ready."""
    half = left_half_accepted(root)
    shutil.copytree(half, root.parent / "copy", copy_function=shutil.copy2)
    with FileLedger.open(root.parent / "copy") as copy:
        assert copy.repair().made == ()
        assert "copy" in copy.health().recovery
    with FileLedger.open(half) as ledger:
        assert ledger.repair().left == ()
        assert ledger.health().recovery == ""


def test_rows_that_go_while_an_acceptance_is_half_done_are_not_accepted_with_it(root):
    half = left_half_accepted(root)
    segment = half / "segments" / "000001.jsonl"
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:2]))
    with FileLedger.open(half) as ledger:
        assert ledger.repair().made == ()
        assert "--accept-loss" in ledger.health().recovery
        assert ledger.repair(accept_loss=True).left == ()
        assert ledger.health().recovery == ""


@pytest.mark.parametrize("reason", [FenceReason.NONE, FenceReason.ADOPTING])
def test_a_fence_document_of_the_first_moment_over_a_full_store_empties_nothing(root, reason):
    """A backup had caught it while the store was being made; put back, every row was deleted and every slot free."""
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("sent")), delivered(RECEIPT)))
        rows = list(ledger.rows())
    shutil.copytree(root, root.parent / "copy", copy_function=shutil.copy2)
    for where, generation in ((root.parent / "copy", 2), (root, 1)):
        held = parse_fence((where / "fence.json").read_bytes())
        assert held is not None
        first = replace(held, state=FenceState.PREPARING, reason=reason, generation=generation - 1)
        (where / "fence.json").write_bytes(first.bytes)
        with FileLedger.open(where) as ledger:
            assert list(ledger.rows()) == rows
            assert ledger.health().recovery
            assert code(ledger.reserve(feed("sent"), PINS, key="run-9")) is C.RECOVERY_REQUIRED


# The directory


@pytest.mark.parametrize("is_used_since", [False, True])
def test_fence_document_and_anchor_of_the_middle_of_an_import_empty_nothing(root, monkeypatch, is_used_since):
    """The two were of one moment, so the import seemed to be half done: its rows went, and all of it was free again."""
    with FileLedger.open(root.parent / "before") as ledger:
        told(ledger.settle(granted(ledger, feed("first")), delivered(RECEIPT)))
        rows = list(ledger.rows())
    backup = root.parent / "older"
    move = Adopter._move

    def copied_behind(adopter: Adopter) -> None:
        move(adopter)
        shutil.copytree(root, backup, copy_function=shutil.copy2)

    monkeypatch.setattr(Adopter, "_move", copied_behind)
    with FileLedger.open(root) as ledger:
        assert not isinstance(ledger.adopt(rows), LedgerRefused)
        if is_used_since:
            told(ledger.settle(granted(ledger, feed("later")), delivered(RECEIPT)))
        head = ledger.head()
    for name in ("fence.json", "anchor"):
        shutil.copy2(backup / name, root / name)
    with FileLedger.open(root) as ledger:
        assert "in the middle of an import" in ledger.health().recovery
        assert ledger.head() == head
        assert code(ledger.reserve(feed("first"), PINS, key="run-9")) is C.RECOVERY_REQUIRED
        assert ledger.repair(accept_copy=True, accept_loss=True).made == ()


@pytest.mark.parametrize("left", [None, (), ("lock",), ("lock", "segments", "claims")])
def test_a_store_that_is_not_there_is_not_made_where_something_is_to_be_sent(root, left):
    """Its disk was not mounted: a new and empty ledger stood in its place, and all of yesterday's messages were free again."""
    if left is not None:
        root.mkdir(mode=0o700)
        for name in left:
            (root / name).mkdir(mode=0o700) if name != "lock" else (root / name).touch(mode=0o600)
    before = sorted(root.parent.rglob("*"))
    with pytest.raises(ConfigurationError, match="not mounted"):
        FileLedger.open(root, create=False)
    assert sorted(root.parent.rglob("*")) == before
    FileLedger.open(root).close()
    FileLedger.open(root, create=False).close()


def test_a_directory_that_was_exchanged_under_an_open_store_is_noticed(root):
    with FileLedger.open(root) as ledger:
        held = reserved(ledger)
        root.rename(root.parent / "moved")
        with pytest.raises(Unreachable):
            ledger.grant(held.reservation_id, holder="run-9")
    with FileLedger.open(root.parent / "moved") as ledger:
        FileLedger.open(root).close()
        (root.parent / "moved").rename(root.parent / "third")
        root.rename(root.parent / "moved")
        with pytest.raises(Unreachable, match="mounted over it"):
            ledger.grant(held.reservation_id, holder="run-9")


def test_who_cannot_find_the_directory_any_more_does_not_keep_its_lock(root):
    """It was moved while a daemon had it open: whoever opened it in its new place waited for as long as the daemon lived."""
    with FileLedger.open(root) as ledger:
        moved = root.rename(root.parent / "moved")
        with pytest.raises(Unreachable):
            ledger.head()
        descriptor = os.open(moved / "lock", os.O_RDWR)
        try:
            assert try_lock(descriptor, 0)
        finally:
            os.close(descriptor)


def test_a_lease_does_not_end_with_a_file_that_somebody_removes(root):
    """`leases` was a file of its own: removed, a second process ended the lease of one that lived."""
    with FileLedger.open(root) as holder:
        grant = granted(holder, feed("sending"))
        assert not (root / "leases").exists()
        with FileLedger.open(root) as other:
            assert code(other.expire(grant.reservation_id)) is C.LIVE
        (root / "lock").unlink()
        (root / "lock").touch(mode=0o600)
        with FileLedger.open(root) as other:
            assert code(other.expire(grant.reservation_id)) is C.RECOVERY_REQUIRED


def test_a_child_forked_while_the_store_is_being_opened_holds_no_lock(root):
    """The fork came between the lock and the registration: the child held the ledger's lock for as long as it lived."""
    FileLedger.open(root).close()
    read, write = os.pipe()
    children: list[int] = []

    class Forking(Disk):
        def entries(self, path: str = "."):
            if not children:
                child = os.fork()
                if child == 0:
                    os.close(write)
                    os.read(read, 1)  # until the parent is done
                    os._exit(0)
                children.append(child)
            return super().entries(path)

    FileLedger.open(root, disk=Forking).close()
    try:
        with FileLedger.open(root) as other:
            reserved(other)
    finally:
        os.close(write)
        os.waitpid(children[0], 0)
        os.close(read)


@pytest.mark.parametrize("below", ["", "segments", "claims/deep"])
def test_a_backup_is_not_made_within_a_ledger(root, below):
    with FileLedger.open(root) as ledger, FileLedger.open(root.parent / "other") as other:
        for where in (root, other_root := root.parent / "other"):
            with pytest.raises(ConfigurationError, match="directory of a ledger"):
                ledger.backup(where / below / "backup")
        assert not (other_root / below / "backup").exists()
        assert other.verify().faults == ()


def over_the_same_files(root: Path, held: dict[str, bytes]) -> None:
    for name, content in held.items():
        (root / name).write_bytes(content)


def segment_and_anchor(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in ("segments/000001.jsonl", "anchor")}


def known_and_gone(root: Path, known_to: FileLedger) -> Reservation:
    """What was sent is known to this handle, and then the older content stands in the same files."""
    with FileLedger.open(root) as one:
        held = reserved(one, feed("open"))
        older = segment_and_anchor(root)
        told(one.settle(granted(one, feed("open")), delivered(RECEIPT)))
    assert known_to.head().sequence == 3
    over_the_same_files(root, older)
    return held


@pytest.mark.parametrize("number", range(1, 5))
def test_who_knew_the_rows_that_are_gone_knows_it_although_there_was_no_space_to_say_so(root, number):
    fault = Fault()
    with FileLedger.open(root, disk=failing(FullDisk, fault)) as other:
        held = known_and_gone(root, other)
        fault.left = number
        with pytest.raises(Unreachable):
            other.head()
        assert fault.has_failed
        assert code(other.grant(held.reservation_id, holder="run-2")) is C.RECOVERY_REQUIRED
    with FileLedger.open(root) as again:
        assert code(again.grant(held.reservation_id, holder="run-2")) is C.RECOVERY_REQUIRED


@pytest.mark.parametrize("number", [1, 2])
def test_rows_that_were_known_and_are_gone_are_said_by_a_disk_that_does_not_sync_it_as_well(root, number):
    """The next to open it was told of the disk, and not of the rows: it went on without them."""
    fault = Fault(code=errno.EIO)
    with FileLedger.open(root, disk=failing(UnsyncedDisk, fault)) as other:
        held = known_and_gone(root, other)
        fault.left = number
        with pytest.raises(OutcomeUnknown):
            other.head()
    with FileLedger.open(root) as again:
        assert again.health().recovery
        assert code(again.grant(held.reservation_id, holder="run-2")) is C.RECOVERY_REQUIRED
        assert again.repair(accept_loss=True).left == ()
        assert told(again.of(feed("open"))[0]).state is S.UNKNOWN
    with FileLedger.open(root) as again:
        assert again.health().recovery == ""


def test_who_knew_the_rows_that_are_gone_knows_it_although_the_fence_document_was_gone_for_a_moment(root):
    with FileLedger.open(root) as other:
        with FileLedger.open(root) as one:
            held = reserved(one, feed("open"))
            older = segment_and_anchor(root)
            told(one.settle(granted(one, feed("open")), delivered(RECEIPT)))
        assert other.head().sequence == 3
        fence = (root / "fence.json").read_bytes()
        (root / "fence.json").unlink()
        over_the_same_files(root, older)
        assert "fence document is gone" in other.health().recovery
        assert FaultKind.HEAD in {fault.kind for fault in other.verify().faults}
        (root / "fence.json").write_bytes(fence)
        assert code(other.grant(held.reservation_id, holder="run-2")) is C.RECOVERY_REQUIRED


def test_what_a_person_accepted_without_a_fence_document_is_accepted_for_who_had_the_store_open(root):
    with FileLedger.open(root) as ledger:
        granted(ledger, feed("first"))
        ledger.repair(accept_copy=True)
    with FileLedger.open(root) as other:
        granted(other, feed("second"))
        (root / "fence.json").unlink()
        path = root / "segments" / "000001.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
        with FileLedger.open(root) as one:
            assert one.repair(accept_copy=True, accept_loss=True).left == ()
            assert other.health().recovery == ""
            assert one.health().recovery == ""

"""Copies, restored backups and stores that were given up: nothing is sent from two places."""

import contextlib
import itertools
import resource
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from guards.delivery.outcome import Approval, Reason, delivered, known_failure
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState as S
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from resources.errors import ConfigurationError, OutcomeUnknown, Unreachable
from resources.ledger.file.store import FileLedger
from resources.ledger.interface import Verification
from tests.integration.ledger_file.faulty import Fault, UnsyncedDisk, failing
from tests.ledgers.builders import EVIDENCE, KIM, PINS, RECEIPT, code, feed, granted, reserved, told, weekly
from tests.ledgers.worlds import tree


def test_a_copy_of_the_directory_sends_nothing_until_a_person_accepts_it(root):
    """Two hosts were started from one image: each reserved, granted and sent the same slots."""
    with FileLedger.open(root) as original:
        reserved(original, feed("open"))
        told(original.settle(granted(original, feed("sent")), delivered(RECEIPT)))
    copied = root.parent / "copy"
    shutil.copytree(root, copied, copy_function=shutil.copy2)
    with FileLedger.open(copied) as copy:
        assert "copy" in copy.health().recovery
        assert code(copy.grant(feed("open").reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED
        assert code(copy.reserve(feed("new"), PINS, key="run-9")) is C.RECOVERY_REQUIRED
        assert copy.repair().made == ()
        assert told(copy.of(feed("sent"))[0]).state is S.DELIVERED, "it can be looked at"
        assert copy.repair(accept_copy=True).left == ()
        assert told(copy.of(feed("open"))[0]).state is S.UNKNOWN, "it may have been sent from the other one"
        told(copy.resolve(feed("open").reservation_id(1), was_sent=False, evidence=EVIDENCE, approval=KIM))
        granted(copy, feed("new"))
    with FileLedger.open(copied) as again:
        assert again.health().recovery == ""
    with FileLedger.open(root) as original:
        assert original.health().recovery == ""


def test_a_directory_that_was_moved_is_the_same_store(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger)
    moved = root.rename(root.parent / "elsewhere")
    with FileLedger.open(moved) as ledger:
        assert ledger.health().recovery == ""


def test_rows_put_back_to_an_older_state_are_noticed_by_the_anchor(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("open"))
    segment = root / "segments" / "000001.jsonl"
    older = segment.read_bytes()
    with FileLedger.open(root) as ledger:
        granted(ledger, feed("open"))
    segment.write_bytes(older)
    with FileLedger.open(root) as ledger:
        assert "gone" in ledger.health().recovery
        assert code(ledger.grant(feed("open").reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED
        assert ledger.repair().made == ()
        assert ledger.repair(accept_loss=True).left == ()
        assert told(ledger.of(feed("open"))[0]).state is S.UNKNOWN


def test_rows_and_anchor_put_back_together_are_noticed_by_who_knew_more(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("open"))
        names = ("segments/000001.jsonl", "anchor")
        older = {name: (root / name).read_bytes() for name in names}
        granted(ledger, feed("open"))
        published = ledger.head()
        for name, content in older.items():
            (root / name).write_bytes(content)
        assert code(ledger.grant(feed("open").reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED
        assert "gone" in ledger.health().recovery
    with FileLedger.open(root) as ledger:
        assert "gone" in ledger.health().recovery, "the fence keeps what a process noticed"
        assert not ledger.extends(published)
        assert ledger.extends(Head())


def test_rows_that_were_put_back_again_need_no_acceptance(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("open"))
        names = ("segments/000001.jsonl", "anchor")
        older = {name: (root / name).read_bytes() for name in names}
        told(ledger.settle(granted(ledger, feed("sent")), delivered(RECEIPT)))
        newer = {name: (root / name).read_bytes() for name in names}
        for name, content in older.items():
            (root / name).write_bytes(content)
        assert "gone" in ledger.health().recovery
    for name, content in newer.items():
        (root / name).write_bytes(content)
    with FileLedger.open(root) as ledger:
        assert ledger.health().recovery != ""
        assert ledger.repair().left == ()
        assert ledger.health().recovery == ""
        assert told(ledger.of(feed("open"))[0]).state is S.PREPARED


def test_an_acceptance_that_was_cut_short_goes_on_with_the_next_repair(root):
    """Killed between the anchor and the last doubt, the store must not be ready with half of it open."""
    with FileLedger.open(root) as ledger:
        for number in range(4):
            reserved(ledger, feed(number))
    for number in range(1, 30):
        copied, fault = root.parent / f"copy-{number}", Fault()
        shutil.copytree(root, copied)
        with FileLedger.open(copied, disk=failing(UnsyncedDisk, fault)) as ledger:
            fault.left = number
            try:
                ledger.repair(accept_copy=True)
            except Exception:
                assert fault.has_failed
        with FileLedger.open(copied) as ledger:
            if ledger.health().recovery:
                ledger.repair(accept_copy=True)
            assert ledger.health().recovery == ""
            states = {each.state for each in ledger.history("partner-1")}
            assert states == {S.UNKNOWN}, (number, states)
        if not fault.has_failed:
            break
    assert number > 5


def test_a_backup_of_one_moment_is_whole_while_others_write(root):
    with FileLedger.open(root, seal_rows=3) as ledger:
        told(ledger.settle(granted(ledger, feed("a")), delivered(RECEIPT)))
        reserved(ledger, feed("b"))
        head = ledger.backup(root.parent / "backup")
        assert head == ledger.head()
        reserved(ledger, feed("after"))
        rows = list(ledger.rows())[: head.sequence]
    with FileLedger.open(root.parent / "backup", seal_rows=3) as backup:
        assert "copy" in backup.health().recovery
        assert list(backup.rows()) == rows
        assert [fault for fault in backup.verify().faults if fault.kind != "fence"] == []
        assert backup.repair(accept_copy=True).left == ()
        assert told(backup.of(feed("b"))[0]).state is S.UNKNOWN
        granted(backup, feed("c"))


def test_a_backup_does_not_go_over_something_else(root, ledger):
    (root.parent / "backup").mkdir()
    (root.parent / "backup" / "mine").touch()
    with pytest.raises(ConfigurationError, match="not empty"):
        ledger.backup(root.parent / "backup")


def test_a_full_disk_below_the_backup_is_not_said_to_be_the_ledgers(root, ledger):
    reserved(ledger)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(Unreachable, match=r"the backup in .* did not come to its end"):
            ledger.backup(root.parent / "backup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    reserved(ledger, feed("since"))


def test_a_backup_that_came_to_no_end_is_not_a_store(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger)
        ledger.backup(root.parent / "backup")
    (root.parent / "backup" / "fence.json").unlink()
    with FileLedger.open(root.parent / "backup") as ledger:
        assert "fence" in ledger.health().recovery


def test_a_copy_is_accepted_also_where_rows_that_were_gone_are_there_again(root):
    """Only that was said then, and what the newer copy had sent was free."""
    segment, anchor = root / "segments/000001.jsonl", root / "anchor"
    with FileLedger.open(root) as ledger:
        before = segment.read_bytes(), anchor.read_bytes()
        held = reserved(ledger)
        whole = segment.read_bytes(), anchor.read_bytes()
        for path, content in zip((segment, anchor), before, strict=True):
            path.write_bytes(content)
        assert "rows that were there are gone" in ledger.health().recovery
    for path, content in zip((segment, anchor), whole, strict=True):
        path.write_bytes(content)
    with FileLedger.open(root) as ledger:
        assert ledger.repair(accept_copy=True).left == ()
        assert [each.state for each in ledger.of(held.slot)] == [S.UNKNOWN]
        assert ledger.health().recovery == ""
        again = told(ledger.reserve(feed("due"), PINS, key="run-2", not_before=ledger.now() - timedelta(hours=1)))
        assert again.state is S.UNKNOWN


def test_a_retired_store_answers_and_sends_nothing(root):
    with FileLedger.open(root) as ledger:
        grant = granted(ledger, feed("sending"))
        refused = ledger.retire(note="moved to the database")
        assert isinstance(refused, LedgerRefused)
        assert refused.code is C.LIVE
        told(ledger.settle(grant, delivered(RECEIPT)))
        assert ledger.retire(note="moved to the database") is None
        assert "moved to the database" in ledger.health().recovery
        assert len(list(ledger.rows())) == 3
    with FileLedger.open(root) as ledger:
        before = tree(root)
        assert code(ledger.reserve(feed("new"), PINS, key="run-1")) is C.RECOVERY_REQUIRED
        assert ledger.repair(accept_copy=True, accept_loss=True).made == ()
        assert tree(root) == before


def test_another_process_sees_at_once_that_it_was_retired(root):
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        held = reserved(other)
        assert one.retire() is None
        assert code(other.grant(held.reservation_id, holder="run-9")) is C.RECOVERY_REQUIRED


def test_who_looked_in_the_middle_of_an_import_does_not_take_what_goes_again_for_rows_that_are_gone(root):
    """It closed the store, which was whole and empty."""
    with FileLedger.open(root) as ledger:
        granted(ledger)
        rows = list(ledger.rows())
    for number in itertools.count(1):
        into, fault = root.parent / f"into-{number}", Fault()
        with FileLedger.open(into) as other:
            with FileLedger.open(into, disk=failing(UnsyncedDisk, fault)) as ledger:
                fault.left = number
                with contextlib.suppress(OutcomeUnknown):
                    ledger.adopt(rows)
            other.health()
            with FileLedger.open(into) as again:
                assert again.health().recovery == ""
                assert other.health().recovery == ""
                assert other.head() == again.head()
                reserved(other, feed("new"))
                assert again.verify().faults == other.verify().faults == ()
        if not fault.has_failed:
            break
    assert number > 8


def test_rows_are_taken_over_whole_after_a_crash_in_the_middle(root):
    """The fence says that it is being filled: what was there so far goes, and the next try begins anew."""
    with FileLedger.open(root) as ledger:
        for number in range(3):
            told(ledger.settle(granted(ledger, feed(number)), delivered(RECEIPT)))
        rows = list(ledger.rows())
    for number in range(1, 60):
        into, fault = root.parent / f"into-{number}", Fault()
        with FileLedger.open(into, disk=failing(UnsyncedDisk, fault), seal_rows=4) as ledger:
            fault.left = number
            try:
                ledger.adopt(rows)
            except Exception:
                assert fault.has_failed
        with FileLedger.open(into, seal_rows=4) as ledger:
            assert ledger.health().recovery == ""
            assert ledger.verify().faults == ()
            assert ledger.head().sequence in (0, len(rows))
            found = ledger.adopt(rows)
            assert isinstance(found, Verification)
            assert (found.rows, found.faults) == (len(rows), ())
        if not fault.has_failed:
            break
    assert number > 8


def test_what_was_due_before_a_copy_was_accepted_is_doubt_in_a_backup_of_its_retired_store_too(root):
    with FileLedger.open(root) as ledger:
        reserved(ledger)
        ledger.repair(accept_copy=True)
        accepted = ledger.health().doubt_before
        assert accepted is not None
        assert ledger.retire() is None
        ledger.backup(root.parent / "backup")
    with FileLedger.open(root.parent / "backup") as backup:
        assert backup.health().doubt_before == accepted, "what is exported from it is imported as it is"


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_clock_that_was_set_back_where_a_backup_is_accepted_takes_no_doubt_away(root, is_cut):
    now = datetime.now(UTC)
    with FileLedger.open(root, clock=lambda: now) as ledger:
        reserved(ledger, feed("open"))
        ledger.repair(accept_copy=True)
        if is_cut:
            (root / "segments" / "000001.jsonl").write_bytes(b"")
        ledger.backup(root.parent / "backup")
    with FileLedger.open(root.parent / "backup", clock=lambda: now - timedelta(hours=2)) as backup:
        assert backup.health().doubt_before == now
        assert backup.repair(accept_copy=True, accept_loss=is_cut).is_accepted
        assert backup.health().doubt_before == now
        due = told(backup.reserve(weekly(), PINS, key="run-2", not_before=now - timedelta(hours=2)))
        assert due.state is S.UNKNOWN


@pytest.mark.parametrize("call", ["grant", "abandon"])
def test_a_slot_whose_row_was_altered_while_a_copy_was_accepted_is_doubt_once_the_row_is_whole_again(root, call):
    """Nothing could be written to it then: it was the one slot that stayed prepared, and what the newer store had sent could be granted."""
    slot = Slot("acme-1", "2026-11-30-r1", "reminder")
    with FileLedger.open(root) as original:
        told(original.settle(granted(original, slot), known_failure(Reason.REJECTED)))
        told(original.replace(slot, approval=Approval(2, "Lee"), key="run-2"))
    copied = root.parent / "copy"
    shutil.copytree(root, copied)
    segment = copied / "segments" / "000001.jsonl"
    good = segment.read_bytes()
    last = good.rindex(b"prepared")
    segment.write_bytes(good[:last] + b"preparEd" + good[last + 8 :])
    with FileLedger.open(copied) as copy:
        done = copy.repair(accept_copy=True)
        assert (done.is_accepted, len(done.left)) == (True, 1)
    segment.write_bytes(good + segment.read_bytes()[len(good) :])
    with FileLedger.open(copied) as copy:
        assert copy.verify().faults == ()
        assert copy.health().recovery == ""
        second = slot.reservation_id(2)
        assert told(copy.get(second)).state is S.PREPARED
        said = copy.grant(second, holder="run-9") if call == "grant" else copy.abandon(second, reason=Reason.WITHDRAWN)
        assert code(said) is C.ILLEGAL_EDGE
        assert told(copy.get(second)).state is S.UNKNOWN
        granted(copy, feed("new"))

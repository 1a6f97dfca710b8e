"""A full disk, and a disk that does not say that it has what was written."""

import contextlib
import errno
import itertools
import shutil

import pytest

from guards.delivery.outcome import Reason, delivered, known_failure
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant
from resources.errors import OutcomeUnknown, Unreachable
from resources.ledger.file.claims import Claims
from resources.ledger.file.scan import Scan
from resources.ledger.file.store import FileLedger
from resources.ledger.interface import Verification
from tests.integration.ledger_file.faulty import (
    Fault,
    FullDisk,
    FullSegments,
    NoMoreFiles,
    NoNames,
    ShortDisk,
    UnseenDisk,
    UnsyncedDisk,
    failing,
)
from tests.ledgers.builders import KIM, PINS, RECEIPT, brought_to, code, feed, granted, reserved, told
from tests.ledgers.worlds import tree

CALLS = {
    "reserve": lambda ledger, grant: ledger.reserve(feed("new"), PINS, key="run-1"),
    "reserve beside": lambda ledger, grant: ledger.reserve(grant.slot, PINS, key="run-1"),
    "grant": lambda ledger, grant: ledger.grant(grant.reservation_id, holder="run-1"),
    "settle": lambda ledger, grant: ledger.settle(grant, delivered(RECEIPT)),
    "replace": lambda ledger, grant: ledger.replace(grant.slot, approval=KIM, key="run-2"),
    "reconcile": lambda ledger, grant: ledger.reconcile(grant.reservation_id, receipt=RECEIPT),
}
BEFORE = {
    "reserve": S.PREPARED,
    "reserve beside": S.PREPARED,
    "grant": S.PREPARED,
    "settle": S.SENDING,
    "replace": S.KNOWN_FAILURE,
    "reconcile": S.PREPARED,
}


@pytest.mark.parametrize("seal_rows", [20_000, 1], ids=["within a segment", "at a segment's end"])
@pytest.mark.parametrize("name", CALLS)
def test_a_full_disk_refuses_and_leaves_every_byte_as_it_was(root, name, seal_rows):
    """A half-written row, left by a full disk, made every later start refuse."""
    refusals = 0
    for number in itertools.count(1):
        fault = Fault()
        where = root.parent / f"{number}"
        with FileLedger.open(where, disk=failing(FullDisk, fault), seal_rows=seal_rows) as ledger:
            grant = brought_to(ledger, BEFORE[name], feed("old"))
            before, head = tree(where), ledger.head()
            fault.left = number
            with contextlib.suppress(Unreachable):
                assert not isinstance(CALLS[name](ledger, grant), LedgerRefused)
            if fault.has_failed and ledger.head() == head:
                refusals += 1
                assert tree(where) == before
                assert not isinstance(CALLS[name](ledger, grant), LedgerRefused)  # there is space again
            assert ledger.verify().faults == ()
        with FileLedger.open(where, seal_rows=seal_rows) as again:
            assert again.verify().faults == ()
        if fault.left > 0:
            break
    assert refusals >= (0 if name == "reserve beside" else 1)


def test_a_store_is_made_on_a_full_disk_whole_or_later(root):
    for number in itertools.count(1):
        fault = Fault(number)
        where = root.parent / f"{number}"
        with contextlib.suppress(Unreachable):
            FileLedger.open(where, disk=failing(FullDisk, fault)).close()
        with FileLedger.open(where) as ledger:
            assert ledger.health().recovery == ""
            granted(ledger)
            assert ledger.verify().faults == ()
        if fault.left > 0:
            break
    assert number > 10


def test_a_refusal_for_a_full_disk_says_what_to_do(root):
    fault = Fault()
    with FileLedger.open(root, disk=failing(FullDisk, fault)) as ledger:
        fault.left = 1
        with pytest.raises(Unreachable, match=r"disk below the ledger is full. Free some space"):
            reserved(ledger)


def test_a_disk_that_takes_little_at_a_time_still_takes_it_whole(root):
    with FileLedger.open(root, disk=ShortDisk) as ledger:
        granted(ledger)
        assert ledger.verify().faults == ()


@pytest.mark.parametrize("stays", [False, True], ids=["once", "for good"])
def test_what_is_sent_after_an_import_into_a_full_disk_is_not_forgotten(root, stays):
    """The rows were there, the fence still said that they were being taken over: the next to open it threw away what had been sent since."""
    with FileLedger.open(root) as ledger:
        for number in range(3):
            told(ledger.settle(granted(ledger, feed(number)), delivered(RECEIPT)))
        rows = list(ledger.rows())
    for number in itertools.count(1):
        fault = Fault(stays=stays)
        where = root.parent / f"{number}"
        with FileLedger.open(where, disk=failing(FullDisk, fault), seal_rows=4) as ledger:
            fault.left = number
            said = ""
            try:
                assert isinstance(ledger.adopt(rows), Verification)
            except Unreachable as error:
                said = str(error)
            assert not said or "the disk below the ledger is full" in said
            fault.left = 0
            held = ledger.reserve(feed("new"), PINS, key="run-1")
            was_sent = not isinstance(held, LedgerRefused)
            if was_sent:
                brought_to(ledger, S.DELIVERED, feed("new"))
        with FileLedger.open(where, seal_rows=4) as again:
            assert again.verify().faults == ()
            assert again.counts().get("delivered", 0) in {was_sent, was_sent + 3}
            assert bool(again.of(feed("new"))) == was_sent
        if not fault.has_failed:
            break
    assert number > 20


def test_a_copy_that_is_accepted_on_a_full_disk_sends_nothing_that_was_open(root):
    """Half of it was doubt when the disk was full; the same process was then granted the other half, which the original had sent."""
    with FileLedger.open(root) as ledger:
        held = [reserved(ledger, feed(number)) for number in range(3)]
    for number in itertools.count(1):
        fault = Fault()
        where = root.parent / f"{number}"
        shutil.copytree(root, where)
        with FileLedger.open(where, disk=failing(FullDisk, fault)) as ledger:
            fault.left = number
            with contextlib.suppress(Unreachable):
                ledger.repair(accept_copy=True)
            fault.left = 0
            assert not any(isinstance(ledger.grant(each.reservation_id, holder="run-9"), Grant) for each in held)
        with FileLedger.open(where) as again:
            again.repair(accept_copy=True)
            assert {each.state for each in again.history("partner-1")} == {S.UNKNOWN}
        if not fault.has_failed:
            break
    assert number > 10


def test_the_process_that_failed_to_retire_a_store_takes_it_for_what_the_next_one_does(root):
    for number in itertools.count(1):
        fault = Fault()
        where = root.parent / f"{number}"
        with FileLedger.open(where, disk=failing(FullDisk, fault)) as ledger:
            fault.left = number
            with contextlib.suppress(Unreachable):
                ledger.retire(note="moved")
            fault.left = 0
            here = ledger.health().recovery
        with FileLedger.open(where) as again:
            assert again.health().recovery == here
        if not fault.has_failed:
            break
    assert "retired" in here


@pytest.mark.parametrize("number", [1, 2, 3])
def test_who_could_not_look_at_a_store_that_was_retired_meanwhile_sends_nothing_from_it_afterwards(root, number):
    fault = Fault(code=errno.EMFILE)
    with FileLedger.open(root) as one, FileLedger.open(root, disk=failing(NoMoreFiles, fault)) as other:
        held = reserved(other, feed("open"))
        assert one.retire(note="moved") is None
        fault.left = number
        with pytest.raises(Unreachable):
            other.grant(held.reservation_id, holder="run-1")
        assert fault.has_failed
        assert code(other.grant(held.reservation_id, holder="run-1")) is C.RECOVERY_REQUIRED


def test_who_could_not_open_a_file_for_a_moment_finds_nothing_wrong_afterwards(root):
    """It took the fence document for gone, or a claim for unreadable, and said so until it was opened again."""
    for number in itertools.count(1):
        fault = Fault(code=errno.EMFILE)
        where = root.parent / f"{number}"
        with FileLedger.open(where) as one, FileLedger.open(where, disk=failing(NoMoreFiles, fault)) as other:
            grant = granted(one)
            one.repair(accept_copy=True)
            fault.left = number
            with contextlib.suppress(Unreachable):
                assert other.health().blocked == 0
            fault.left = 0
            assert (other.health().recovery, other.health().blocked) == ("", 0)
            assert other.verify().faults == ()
            assert told(other.of(grant.slot)[0]).state is S.UNKNOWN
        if not fault.has_failed:
            break
    assert number > 5


@pytest.mark.parametrize("name", CALLS)
def test_a_failed_sync_closes_the_store_and_nothing_acknowledged_is_lost(root, name):
    """PostgreSQL's fsyncgate: the second fsync said yes, because the kernel had marked the lost pages clean."""
    failures = 0
    for number in itertools.count(1):
        fault = Fault(code=errno.EIO)
        where = root.parent / f"{number}"
        with FileLedger.open(where, disk=failing(UnsyncedDisk, fault)) as ledger:
            grant = brought_to(ledger, BEFORE[name], feed("old"))
            fault.left = number
            try:
                CALLS[name](ledger, grant)
            except OutcomeUnknown:
                failures += 1
                with pytest.raises(Unreachable, match="closed"):
                    ledger.head()
        segment = next((where / "segments").iterdir())
        inode = segment.stat().st_ino
        with FileLedger.open(where) as again:
            assert again.health().recovery == ""
            if fault.has_failed:
                assert segment.stat().st_ino != inode, "what was being written goes to a fresh file"
            held = told(again.get(grant.reservation_id))
            assert held.state in {BEFORE[name], *_after(name)}
            if name == "grant" and held.state is S.PREPARED:
                assert isinstance(again.grant(grant.reservation_id, holder="run-9"), Grant)
            reserved(again, feed("other"))
            if again.verify().faults:
                again.repair()
            assert again.verify().faults == ()
        if fault.left > 0:
            break
    assert failures >= (0 if name == "reserve beside" else 1)


def _after(name: str) -> set[S]:
    return {
        "grant": {S.SENDING},
        "settle": {S.DELIVERED},
        "replace": {S.KNOWN_FAILURE},
        "reconcile": {S.UNKNOWN, S.RESOLVED_SENT},
    }.get(name, set())


def test_other_processes_go_on_once_everything_was_read_again(root):
    fault = Fault(code=errno.EIO)
    with FileLedger.open(root, disk=failing(UnsyncedDisk, fault)) as broken, FileLedger.open(root) as other:
        grant = granted(other)
        fault.left = 1
        with pytest.raises(OutcomeUnknown):
            reserved(broken, feed("new"))
        assert told(other.settle(grant, known_failure(Reason.REJECTED))).state is S.KNOWN_FAILURE
        assert other.health().recovery == ""


def test_a_disk_that_fails_for_good_says_so_each_time(root):
    fault = Fault(code=errno.EIO, stays=True)
    ledger = FileLedger.open(root, disk=failing(UnsyncedDisk, fault))
    fault.left = 1
    with pytest.raises(OutcomeUnknown, match="ledger is closed"):
        reserved(ledger)
    with pytest.raises((OutcomeUnknown, Unreachable)):
        FileLedger.open(root, disk=failing(UnsyncedDisk, fault)).head()


def test_a_repair_for_which_there_was_no_space_leaves_the_slot_in_doubt_for_who_goes_on(root):
    """The doubt was forgotten before its row was written: the message that had been delivered was sent again."""
    fault = Fault()
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("old")), delivered(RECEIPT)))
        granted(ledger, feed("beside"))
    path = root / "segments" / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    altered = [line.replace(b'"attempt":1', b'"attempt":7') for line in lines[:3]]
    path.write_bytes(b"".join([*altered, *lines[3:]]))
    with FileLedger.open(root, disk=failing(FullDisk, fault)) as ledger:
        fault.left = 1
        with pytest.raises(Unreachable):
            ledger.repair()
        assert code(ledger.reserve(feed("old"), PINS, key="run-1")) is C.RECOVERY_REQUIRED
        assert code(ledger.grant(feed("old").reservation_id(1), holder="run-1")) is C.RECOVERY_REQUIRED
        ledger.repair()
    with FileLedger.open(root) as again:
        assert code(again.reserve(feed("old"), PINS, key="run-1")) is C.RECOVERY_REQUIRED


def test_who_could_not_take_a_claim_away_makes_its_directory_again(root):
    """Another process took the directory away: until it was opened again, every reservation in it failed."""
    fault, full = Fault(), Fault()
    with (
        FileLedger.open(root, disk=failing(NoNames, fault)) as one,
        FileLedger.open(root, disk=failing(FullSegments, full)) as other,
    ):
        fault.left = 1
        with pytest.raises(Unreachable):
            one.reserve(feed("new"), PINS, key="run-1")
        full.left = 1
        with pytest.raises(Unreachable):
            other.reserve(feed("new"), PINS, key="run-1")
        assert list((root / "claims").iterdir()) == []
        assert reserved(one, feed("new")).state is S.PREPARED
        assert other.verify().faults == ()


def test_a_claim_that_was_taken_back_while_another_process_verified_is_no_claim_without_a_row(root, monkeypatch):
    full = Fault()
    with FileLedger.open(root) as one, FileLedger.open(root, disk=failing(FullSegments, full)) as other:
        reserved(one)
        withdraw, listed = Claims.withdraw, []

        def listed_before(self, claim):
            listed.extend(self.walk())
            withdraw(self, claim)

        monkeypatch.setattr(Claims, "withdraw", listed_before)
        full.left = 1
        with pytest.raises(Unreachable):
            other.reserve(feed("new"), PINS, key="run-1")
        assert len(listed) == 2
        monkeypatch.setattr(Claims, "walk", lambda self: iter(listed))
        assert one.verify().faults == ()


def test_a_row_that_is_durable_is_not_called_unrecorded_when_its_file_cannot_be_looked_at(root):
    fault = Fault(code=errno.EIO)
    with FileLedger.open(root, disk=failing(UnseenDisk, fault)) as ledger:
        fault.left = 1
        with pytest.raises(OutcomeUnknown):
            reserved(ledger)
        assert fault.has_failed
    with FileLedger.open(root) as again:
        assert again.verify().faults == ()
        assert again.counts() == {"prepared": 1}


def test_a_verification_during_which_another_process_accepted_a_loss_is_of_what_is_there_then(root, monkeypatch):
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        reserved(one, feed("kept"))
        kept = (root / "segments" / "000001.jsonl").read_bytes()
        grant = granted(one, feed("lost"))
        run = Scan.run

        def accepted_meanwhile(self, numbers, *, until=None):
            run(self, numbers, until=until)
            if until is not None:
                (root / "segments" / "000001.jsonl").write_bytes(kept)
                other.repair(accept_loss=True)

        monkeypatch.setattr(Scan, "run", accepted_meanwhile)
        assert one.verify().head == other.head()
        monkeypatch.undo()
        assert one.verify().faults == other.verify().faults == ()
        assert one.counts() == other.counts()
        assert isinstance(one.settle(grant, delivered(RECEIPT)), LedgerRefused)

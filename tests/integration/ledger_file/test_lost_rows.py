"""Rows are gone and claims are there: what was claimed is doubt, whatever attempt it was, and is never opened as if it were free."""

from pathlib import Path

import pytest

from guards.delivery.outcome import Reason, delivered, known_failure
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Slot
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import EVIDENCE, KIM, LEE, PINS, RECEIPT, code, feed, granted, reserved, told


def sent_with_the_second_attempt(root: Path, slot: Slot) -> list[bytes]:
    """The rows: opened, sending, known_failure, opened (2), sending, delivered."""
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, slot), known_failure(Reason.REJECTED)))
        held = told(ledger.replace(slot, approval=KIM, key="run-2"))
        grant = ledger.grant(held.reservation_id, holder="run-2")
        assert not isinstance(grant, LedgerRefused)
        told(ledger.settle(grant, delivered(RECEIPT)))
    return (root / "segments/000001.jsonl").read_bytes().splitlines(keepends=True)


def keep(root: Path, lines: list[bytes]) -> None:
    (root / "segments/000001.jsonl").write_bytes(b"".join(lines))


@pytest.mark.parametrize("kept", range(6))
def test_a_slot_with_two_attempts_whose_rows_are_lost_is_doubt_and_is_not_sent_again(root, kept):
    """After an accepted loss the slot of two attempts was free: it was sent a second time as attempt 1, or the repair broke off."""
    slot = feed("twice")
    keep(root, sent_with_the_second_attempt(root, slot)[:kept])
    with FileLedger.open(root) as ledger:
        assert isinstance(ledger.latest([slot])[slot], LedgerRefused) or kept > 0
        assert ledger.repair(accept_loss=True).left == ()
        latest = told(ledger.of(slot)[-1])
        assert latest.state is S.UNKNOWN
        assert latest.attempt == (2 if kept >= 3 else 1)
        names_the_second = "attempt 2" in f"{latest.note}{latest.late}"
        assert names_the_second == (latest.attempt == 1)
        assert told(ledger.reserve(slot, PINS, key="run-9")).state is S.UNKNOWN
        assert code(ledger.grant(latest.reservation_id, holder="run-9")) is C.ILLEGAL_EDGE
    with FileLedger.open(root) as ledger:
        assert ledger.verify().faults == ()
        assert ledger.repair().made == ()


def test_after_a_person_resolved_the_doubt_another_attempt_is_possible(root):
    slot = feed("twice")
    keep(root, sent_with_the_second_attempt(root, slot)[:2])
    with FileLedger.open(root) as ledger:
        ledger.repair(accept_loss=True)
        told(ledger.resolve(slot.reservation_id(1), was_sent=False, evidence=EVIDENCE, approval=KIM))
        again = told(ledger.replace(slot, approval=LEE, key="run-9"))
        assert (again.attempt, again.state) == (2, S.PREPARED)
        assert ledger.verify().faults == ()


def test_only_the_claim_of_the_second_attempt_is_left(root):
    slot = feed("twice")
    keep(root, sent_with_the_second_attempt(root, slot)[:0])
    (root / f"claims/{slot.customer}/{slot.period}/{slot.kind}").unlink()
    with FileLedger.open(root) as ledger:
        assert ledger.repair(accept_loss=True).left == ()
        assert told(ledger.reserve(slot, PINS, key="run-9")).state is S.UNKNOWN


def test_a_claim_above_the_rows_keeps_an_open_attempt_from_being_granted(root):
    """The anchor was lost with the rows and nobody knew more: the claim alone says that there was a second attempt."""
    slot = feed("open")
    with FileLedger.open(root) as ledger:
        reserved(ledger, slot)
    claim = root / f"claims/{slot.customer}/{slot.period}/{slot.kind}"
    claim.with_name(f"{slot.kind}.2").write_bytes(claim.read_bytes())
    claim.with_name(f"{slot.kind}.2").chmod(0o600)
    with FileLedger.open(root) as ledger:
        assert code(ledger.grant(slot.reservation_id(1), holder="run-9")) is C.RECOVERY_REQUIRED
        assert ledger.repair().left == ()
        assert told(ledger.of(slot)[-1]).state is S.UNKNOWN


def test_claims_of_two_attempts_without_rows_are_never_completed_by_asking_again(root):
    slot = feed("free")
    with FileLedger.open(root):
        pass
    where = root / f"claims/{slot.customer}/{slot.period}"
    where.mkdir(parents=True, mode=0o700)
    for name in (slot.kind, f"{slot.kind}.2"):
        (where / name).write_bytes(b"anything")
        (where / name).chmod(0o600)
    where.parent.chmod(0o700)
    with FileLedger.open(root) as ledger:
        assert code(ledger.reserve(slot, PINS, key="run-9")) is C.RECOVERY_REQUIRED


def test_what_was_claimed_is_in_doubt_as_long_as_nobody_accepted_the_loss(root):
    """A report showed served slots as due, next run, while their rows were gone."""
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, feed("served")), delivered(RECEIPT)))
    keep(root, [])
    with FileLedger.open(root) as ledger:
        assert code(ledger.latest([feed("served"), feed("free")])[feed("served")]) is C.RECOVERY_REQUIRED
        assert feed("free") not in ledger.latest([feed("free")])
        assert not any("completed" in fault.why for fault in ledger.verify().faults)

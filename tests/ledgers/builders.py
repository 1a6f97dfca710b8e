"""Slots, pins and approvals of the ledger's tests, and the shortest way to each state through the calls themselves."""

from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval, Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.pins import AUTHORITY, Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant, Slot
from resources.ledger.interface import Ledger

PINS = Pins({"name": "a.csv", "size_bytes": 7})
OTHER_PINS = Pins({"name": "b.csv", "size_bytes": 7})
KIM, LEE = Approval(1, "Kim"), Approval(2, "Lee")
RECEIPT = {"size_bytes": 7}
EVIDENCE = {"asked": "the partner"}
OWED = Pins(
    {"name": "a.csv"},
    authority={name: "7" if name in ("feature_epoch", "canonical_sequence") else "ab" * 32 for name in AUTHORITY},
)


def feed(number: object = 0) -> Slot:
    """Of a kind that may fail for certain."""
    return Slot("partner-1", f"p-{number}", "feed")


def weekly(number: object = 0) -> Slot:
    """Of a kind whose every failure is doubt."""
    return Slot("acme-1", f"w-{number}", "weekly")


def code(answer: object) -> LedgerCode:
    assert isinstance(answer, LedgerRefused), answer
    assert answer.message
    return answer.code


def told(answer: Reservation | LedgerRefused | None) -> Reservation:
    assert isinstance(answer, Reservation), answer
    return answer


def reserved(ledger: Ledger, slot: Slot | None = None, pins: Pins = PINS, *, key: str = "run-1") -> Reservation:
    return told(ledger.reserve(slot or feed(), pins, key=key))


def granted(ledger: Ledger, slot: Slot | None = None, pins: Pins = PINS, *, holder: str = "run-1") -> Grant:
    grant = ledger.grant(reserved(ledger, slot, pins).reservation_id, holder=holder, authority=pins.authority)
    assert isinstance(grant, Grant), grant
    return grant


def imagined(slot: Slot, *, holder: str = "run-1", fence: int = 1, attempt: int = 1) -> Grant:
    """A grant that the ledger need never have given."""
    return Grant(slot, slot.reservation_id(attempt), attempt, fence, holder)


def brought_to(ledger: Ledger, state: S, slot: Slot) -> Grant:
    """The slot's first attempt in `state`; its grant (imagined where there was none)."""
    if state is S.PREPARED:
        reserved(ledger, slot)
        return imagined(slot)
    grant = granted(ledger, slot)
    match state:
        case S.SENDING:
            return grant
        case S.DELIVERED | S.SENT_AUDITED:
            told(ledger.settle(grant, delivered(RECEIPT)))
            if state is S.SENT_AUDITED:
                told(ledger.audit(grant.reservation_id))
        case S.KNOWN_FAILURE:
            told(ledger.settle(grant, known_failure(Reason.REJECTED)))
        case S.ABANDONED:
            told(ledger.settle(grant, abandoned(Reason.WITHDRAWN)))
        case _:
            told(ledger.settle(grant, unknown(Reason.NO_ANSWER)))
            if state is not S.UNKNOWN:
                was_sent = state is S.RESOLVED_SENT
                told(ledger.resolve(grant.reservation_id, was_sent=was_sent, evidence=EVIDENCE, approval=KIM))
    return grant

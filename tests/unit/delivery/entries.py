"""Builders for the ledger's rules: a slot, its pins, and a reservation in any state, reached by legal entries only."""

from datetime import UTC, datetime, timedelta

from guards.delivery import transition
from guards.delivery.entry import Reservation, advance
from guards.delivery.outcome import Approval, Outcome, Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.pins import Pins
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant, Slot
from guards.delivery.transition import Ruling

NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
FEED = Slot("partner-0123456789abcdef", "0011223344556677-" + "ab" * 32, "feed")
WEEKLY = Slot("acme-1", "2026-W48", "weekly")
PINS = Pins({"name": "orders.csv", "size_bytes": 7})
OTHER_PINS = Pins({"name": "orders.csv", "size_bytes": 8})
KIM = Approval(17, "Kim", "f" * 64)
LEE = Approval(18, "Lee", "f" * 64)
RECEIPT = {"partner_copy": {"size_bytes": 7}}


def carried_out(current: Reservation | None, ruling: Ruling, *, at: datetime = NOW) -> Reservation:
    """What a store makes of a ruling."""
    after = current
    for entry in ruling.entries:
        following = advance(after, entry, at=at)
        assert isinstance(following, Reservation), following
        after = following
    assert after is not None
    return after


def prepared(slot: Slot = FEED, pins: Pins = PINS, approval: Approval | None = KIM) -> Reservation:
    ruling = transition.reserve(None, slot=slot, pins=pins, key="run-1", now=NOW, approval=approval)
    assert ruling.refused is None
    return carried_out(None, ruling)


def sending(slot: Slot = FEED, *, holder: str = "run-1", pins: Pins = PINS) -> Reservation:
    return carried_out(prepared(slot, pins), transition.grant(prepared(slot, pins), holder=holder, authority=pins.authority))


def grant_of(reservation: Reservation) -> Grant:
    return Grant(
        slot=reservation.slot,
        reservation_id=reservation.reservation_id,
        attempt=reservation.attempt,
        fence=reservation.fence,
        holder=reservation.holder,
        lease_expires_at=NOW + timedelta(minutes=15),
    )


def settled(outcome: Outcome, slot: Slot = FEED) -> Reservation:
    held = sending(slot)
    ruling = transition.settle(held, grant=grant_of(held), outcome=outcome)
    assert ruling.refused is None, ruling.refused
    return carried_out(held, ruling)


def in_state(state: S, slot: Slot = FEED) -> Reservation:
    """A reservation in `state`, by the shortest legal way."""
    match state:
        case S.PREPARED:
            return prepared(slot)
        case S.SENDING:
            return sending(slot)
        case S.DELIVERED:
            return settled(delivered(RECEIPT), slot)
        case S.SENT_AUDITED:
            held = settled(delivered(RECEIPT), slot)
            return carried_out(held, transition.audit(held))
        case S.KNOWN_FAILURE:
            return settled(known_failure(Reason.REJECTED), slot)
        case S.UNKNOWN:
            return settled(unknown(Reason.NO_ANSWER), slot)
        case S.ABANDONED:
            return settled(abandoned(Reason.WITHDRAWN), slot)
        case S.RESOLVED_SENT | S.RESOLVED_NOT_SENT:
            held = settled(unknown(Reason.NO_ANSWER), slot)
            was_sent = state is S.RESOLVED_SENT
            return carried_out(held, transition.resolve(held, was_sent=was_sent, evidence={"seen": was_sent}, approval=KIM))

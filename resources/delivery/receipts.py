"""Receipts of messages that the ledger proves, whose run ended before it could write them."""

from collections.abc import Mapping

from guards.canonical import Json
from guards.delivery.entry import Reservation
from guards.delivery.message import message_of
from guards.delivery.planning import ACTION
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Slot, parse_slot
from guards.receipt import Receipt
from resources.delivery.ledger import holdings_of
from resources.delivery.route import DeliveryRoute
from resources.delivery.steps import Step
from resources.ledger.interface import Ledger
from resources.state import StateStore
from resources.state.receipts_owed import Unreceipted, add_owed, unreceipted

PROVEN = frozenset({ReservationState.DELIVERED, ReservationState.SENT_AUDITED})
"""By a provider's word. A person's needs no receipt: it is on the decision in the ledger."""


def without_receipt(route: DeliveryRoute, state: StateStore) -> Mapping[tuple[str, str], Unreceipted]:
    """By reservation id and run: what this installation called for this watch, and has no receipt about."""
    calls = unreceipted(state.engine, guard="delivery", watch=route.name, step=Step.CALL, action=ACTION)
    return {(str(call.detail.get("reservation", "")), call.run_id): call for call in calls}


def write_missing(route: DeliveryRoute, state: StateStore, ledger: Ledger) -> tuple[Slot, ...]:
    """Those that are delivered, each with the receipt that its run would have written. Harmless to repeat, and beside that very run."""
    calls = without_receipt(route, state)
    held = holdings_of(ledger.latest({parse_slot(call.subject) for call in calls.values()})).latest if calls else {}
    written = []
    for slot, reservation in sorted(held.items()):
        call = calls.get((reservation.reservation_id, reservation.holder))
        receipt = _receipt(route, reservation, call) if call is not None and reservation.state in PROVEN else None
        if receipt is not None:
            add_owed(state.engine, receipt)
            written.append(slot)
    return tuple(written)


def _receipt(route: DeliveryRoute, held: Reservation, call: Unreceipted) -> Receipt | None:
    message = message_of(held.pins)
    if message is None:
        return None
    said: dict[str, Json] = {**held.receipt, "reservation": held.reservation_id, "attempt": held.attempt}
    return Receipt(
        guard="delivery",
        watch=route.name,
        plan_digest=call.plan_digest,
        approval_id=call.approval_id,
        approved_by=call.approved_by,
        run_id=call.run_id,
        subject=held.slot.key,
        action=ACTION,
        size_bytes=len(message.body.encode()),
        sha256=message.body_sha256,
        evidence={**said, "written_by": "recovery"},
    )

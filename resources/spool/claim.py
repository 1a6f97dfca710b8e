"""Step 1: the ledger grants this name and this content at this partner to us, once. What nobody finished is settled here, by observing."""

import logging

from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Grant
from guards.spool.planning import SpoolTarget
from guards.spool.ruling import SpoolAction
from resources.spool.memory import feed_slot, partner_key
from resources.spool.sent import Outcome, Sent, sent_of
from resources.spool.unfinished import settle_unfinished
from resources.spool.writing import Writing

logger = logging.getLogger(__name__)


def claim(writing: Writing, target: SpoolTarget) -> Grant | Sent:
    """The grant to send it now, or what has become of it already. Nothing is sent without the grant."""
    ledger, approval = writing.state.ledger, Approval.of(writing.authorization)
    held = ledger.reserve(
        feed_slot(writing.route, target.name, target.sha256), pins_of(writing, target), key=writing.run_id, approval=approval
    )
    if isinstance(held, LedgerRefused):
        return sent_of(target, Outcome.FAILED, f"the ledger refused ({held.code}): {held.message}")
    if target.action is SpoolAction.RESOLVE:
        return settle_unfinished(writing, target, held)
    if held.state.is_unresolved:
        return sent_of(
            target, Outcome.STALE, "an earlier attempt at it is in doubt: report again, it becomes a target to resolve"
        )
    if held.state.is_proven_sent:
        return sent_of(
            target, Outcome.ALREADY_DELIVERED, f"the ledger proves that these bytes were sent ({held.state}): not sent again"
        )
    if held.state is not ReservationState.PREPARED:
        replaced = ledger.replace(held.slot, approval=approval, key=writing.run_id)
        if isinstance(replaced, LedgerRefused):
            return sent_of(target, Outcome.FAILED, f"the ledger refused another attempt ({replaced.code}): {replaced.message}")
        held = replaced
    return _granted(writing, target, held)


def _granted(writing: Writing, target: SpoolTarget, held: Reservation) -> Grant | Sent:
    granted = writing.state.ledger.grant(held.reservation_id, authorization=writing.authorization)
    if isinstance(granted, LedgerRefused):
        return sent_of(target, Outcome.FAILED, f"the ledger did not grant it ({granted.code}): {granted.message}")
    return granted


def pins_of(writing: Writing, target: SpoolTarget) -> Pins:
    """What the reservation is for: the same feed in any later plan has equal pins, however its partner's address is spelled by then."""
    return Pins(
        facts={
            "name": target.name,
            "sha256": target.sha256,
            "size_bytes": target.size_bytes,
            "partner": partner_key(writing.route),
        }
    )

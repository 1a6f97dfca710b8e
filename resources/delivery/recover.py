"""Recovery: what a run left in the middle is ended, and what evidence can settle is settled. It never sends, and never resolves as not
sent: that a provider does not show a message proves nothing."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from guards.canonical import Json
from guards.delivery.entry import Reservation
from guards.delivery.message import message_of
from guards.delivery.outcome import Reason
from guards.delivery.refusal import LedgerRefused
from guards.delivery.registry import Provider
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Slot
from resources.delivery.asking import in_turn, is_about, receipt_for, sightings, words
from resources.delivery.ledger import holdings_of
from resources.delivery.receipts import write_missing
from resources.delivery.route import DeliveryRoute
from resources.ledger.interface import Ledger
from resources.providers.interface import Found
from resources.providers.interface import Provider as Opened
from resources.pulse import Pulse
from resources.state import StateStore

logger = logging.getLogger(__name__)


class Recovery(StrEnum):
    EXPIRED = "expired"
    """`sending` with its holder gone became `unknown`."""
    FOUND = "found"
    """The provider holds it: settled as sent."""
    TOLD = "told"
    """Its holder's receipt came too late to be taken, and was kept: settled as sent by it."""
    AUDITED = "audited"
    """Delivered, and the provider still shows it."""
    RECEIPTED = "receipted"
    """Delivered, and its run ended before the receipt was written: it is now."""
    LAPSED = "lapsed"
    """Reserved, never granted, and its window is over: given up."""
    IN_DOUBT = "in_doubt"
    """Asked about, and still nobody can tell."""
    REFUSED = "refused"
    """The ledger did not take what was found: a person has to look."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """`message` is one sentence for the operator."""

    slot: Slot
    what: Recovery
    message: str

    @property
    def changed(self) -> bool:
        return self.what not in (Recovery.IN_DOUBT, Recovery.REFUSED)


def recover(
    route: DeliveryRoute,
    state: StateStore,
    ledger: Ledger,
    providers: Mapping[Provider, Opened],
    *,
    pulse: Pulse | None = None,
) -> tuple[Recovered, ...]:
    """Of every open message in the ledger. Live calls are left alone. Harmless to repeat, and for two at once.
    `pulse` is that of the run's lease, where it has one: it beats with every message, and while a provider is asked."""
    done: list[Recovered] = []
    doubtful: list[Reservation] = []
    for held in holdings_of(ledger.unfinished()).latest.values():
        if pulse is not None:
            pulse()
        match held.state:
            case ReservationState.PREPARED:
                done += _lapse(ledger, held)
            case ReservationState.SENDING if not held.is_live:
                expired = _expire(ledger, held, done)
                doubtful += [expired] if expired else []
            case ReservationState.UNKNOWN:
                doubtful.append(held)
            case _:
                pass
    done += _ask(ledger, [held for held in doubtful if not _told(ledger, held, done)], providers, pulse)
    done += [
        Recovered(slot, Recovery.RECEIPTED, "delivered by a run that could not write its receipt: it was written now")
        for slot in write_missing(route, state, ledger)
    ]
    for one in done:
        logger.info("%s of %s: %s: %s", route.name, one.slot.key, one.what.value, one.message)
    return tuple(done)


def _expire(ledger: Ledger, held: Reservation, done: list[Recovered]) -> Reservation | None:
    expired = ledger.expire(held.reservation_id)
    if isinstance(expired, LedgerRefused):
        done.append(Recovered(held.slot, Recovery.REFUSED, f"not ended ({expired.code}): {expired.message}"))
        return None
    done.append(
        Recovered(held.slot, Recovery.EXPIRED, f"run {held.holder} ended in the middle of its call: it may have been sent")
    )
    return expired


def _lapse(ledger: Ledger, held: Reservation) -> list[Recovered]:
    pinned = message_of(held.pins)
    if pinned is None or ledger.now() < pinned.closes_at:
        return []
    note = f"its window closed at {pinned.closes_at:%Y-%m-%d %H:%M} UTC"
    given_up = ledger.abandon(held.reservation_id, reason=Reason.STALE, note=note)
    if isinstance(given_up, LedgerRefused):
        return [Recovered(held.slot, Recovery.REFUSED, f"not given up ({given_up.code}): {given_up.message}")]
    return [Recovered(held.slot, Recovery.LAPSED, f"reserved and never sent, and {note}")]


def _told(ledger: Ledger, held: Reservation, done: list[Recovered]) -> bool:
    """Whether late evidence ended it. Only a receipt that names this very attempt and body does: a replaced one's is about another key."""
    receipt = _late_receipt(held)
    if receipt is None:
        return False
    settled = ledger.reconcile(held.reservation_id, receipt=receipt)
    if isinstance(settled, LedgerRefused):
        refused = f"its holder's late receipt was not taken ({settled.code}): {settled.message}"
        done.append(Recovered(held.slot, Recovery.REFUSED, refused))
    else:
        done.append(Recovered(held.slot, Recovery.TOLD, "its holder's receipt came late and was kept: settled as sent"))
    return True


def _late_receipt(held: Reservation) -> Mapping[str, Json] | None:
    for said in held.late:
        receipt = said.get("receipt")
        if said.get("state") != ReservationState.DELIVERED.value or not isinstance(receipt, Mapping):
            continue
        if {"key", "body_sha256"} <= receipt.keys() and is_about(held, receipt):
            return receipt
    return None


def _ask(
    ledger: Ledger, doubtful: list[Reservation], providers: Mapping[Provider, Opened], pulse: Pulse | None
) -> list[Recovered]:
    done: list[Recovered] = []
    for held, provider, sighting in sightings(in_turn(doubtful, now=ledger.now()), providers, now=ledger.now, pulse=pulse):
        if not isinstance(sighting, Found):
            done.append(Recovered(held.slot, Recovery.IN_DOUBT, words(sighting, provider)))
            continue
        settled = ledger.reconcile(held.reservation_id, receipt=receipt_for(held, sighting.receipt))
        if isinstance(settled, LedgerRefused):
            done.append(Recovered(held.slot, Recovery.REFUSED, f"found, and not settled ({settled.code}): {settled.message}"))
        else:
            done.append(Recovered(held.slot, Recovery.FOUND, f"{provider} holds it: settled as sent"))
    return done

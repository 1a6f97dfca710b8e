"""What the ledger's word on a slot amounts to: it alone knows what may have gone out, so it is asked before anything else."""

from dataclasses import dataclass
from typing import assert_never

from guards.delivery.entry import Reservation, may_be_replaced
from guards.delivery.message import provider_key
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Slot
from guards.delivery.verdict import DeliveryVerdict
from guards.delivery.world import DeliveryWorld
from guards.text import one_line


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict and its sentence. `pins` exactly when the slot may become a target: what its reservation would be for."""

    verdict: DeliveryVerdict
    note: str
    pins: Pins | None = None


def by_ledger(world: DeliveryWorld, slot: Slot, held: Reservation | None) -> Ruling | None:
    """None while nothing is reserved, or only prepared: nobody was ever granted the call, as far as a ledger in order can say."""
    if slot in world.altered:
        return Ruling(
            DeliveryVerdict.IN_DOUBT,
            f"The ledger's record of it was altered ({world.altered[slot]}): nothing is sent for it. `opsguard ledger verify` names the row.",
        )
    if held is None:
        return None
    if held.is_contradicted and not held.state.is_proven_sent:
        return Ruling(
            DeliveryVerdict.IN_DOUBT,
            f"It is {held.state} and late evidence says that it was sent: never sent again. Look at both: `opsguard ledger show {slot.key}`.",
        )
    match held.state:
        case ReservationState.PREPARED if world.incomplete:
            return Ruling(
                DeliveryVerdict.IN_DOUBT,
                "It is reserved and nobody was called, in the ledger as it is now, which proves nothing before that is mended or accepted. "
                "Nothing is sent for it until then.",
            )
        case ReservationState.PREPARED:
            return None
        case ReservationState.SENDING:
            return _sending(held)
        case ReservationState.UNKNOWN:
            return Ruling(DeliveryVerdict.IN_DOUBT, _doubt(world, held))
        case ReservationState.ABANDONED:
            return _abandoned(held)
        case ReservationState.KNOWN_FAILURE | ReservationState.RESOLVED_NOT_SENT:
            return _failed(held)
        case ReservationState.DELIVERED | ReservationState.SENT_AUDITED | ReservationState.RESOLVED_SENT:
            return _sent(held)
        case _:
            assert_never(held.state)


def _sent(held: Reservation) -> Ruling:
    how = "resolved as sent" if held.state is ReservationState.RESOLVED_SENT else "delivered"
    return Ruling(DeliveryVerdict.SENT, f"The ledger proves that it was {how} at {held.changed_at:%Y-%m-%d %H:%M} UTC.")


def _sending(held: Reservation) -> Ruling:
    if held.is_live:
        return Ruling(DeliveryVerdict.SENDING, f"Run {held.holder} is sending it now.")
    return Ruling(
        DeliveryVerdict.IN_DOUBT,
        f"Run {held.holder} ended while it was sending: recovery ends the attempt and asks the provider. It is never sent again by itself.",
    )


def _doubt(world: DeliveryWorld, held: Reservation) -> str:
    said = f" {_sentence(held.note)}" if held.note else ""
    seen = world.sightings.get(held.slot, "")
    key = provider_key(held)
    search = "Do that" if key in seen else f"Search the provider's records for {key}"  # a provider may have said where to look
    return (
        f"It may have been sent ({held.reason or 'no reason was kept'}).{said}{f' {_sentence(seen)}' if seen else ''} "
        f"{search}, or ask the recipient, then `{resolve_command(held.slot.key)}` "
        "(or --not-sent); it is never sent again by itself."
    )


def _abandoned(held: Reservation) -> Ruling:
    if held.reason is Reason.TERMINAL_RESPONSE:
        return Ruling(
            DeliveryVerdict.SUPPRESSED, "The check-in arrived before the call: the reminder was given up, nothing went out."
        )
    said = f" {_sentence(held.note)}" if held.note else ""
    if held.reason is Reason.STALE:
        return Ruling(DeliveryVerdict.MISSED, f"It was reserved and never sent: its window closed.{said}")
    return Ruling(
        DeliveryVerdict.FAILED,
        f"It was given up before anything went out ({held.reason or 'no reason was kept'}).{said} Its slot stays taken: tell the customer by hand.",
    )


def _failed(held: Reservation) -> Ruling:
    said = f" {_sentence(held.note)}" if held.note else ""
    proven = "Provably not sent" if held.state is ReservationState.KNOWN_FAILURE else "Resolved as not sent"
    step = (
        f'Correct the cause, then allow another attempt: `opsguard ledger replace {held.slot.key} --by YOU --comment "WHY" --yes`.'
        if may_be_replaced(held)
        else "This kind allows no second attempt: tell the customer by hand."
    )
    return Ruling(DeliveryVerdict.FAILED, f"{proven}, attempt {held.attempt} ({held.reason or held.state}).{said} {step}")


def resumed(held: Reservation | None) -> str:
    """ "" or, of a reservation that nobody was granted yet, one sentence and a space: whose it is. A person opens every attempt but the first."""
    if held is None:
        return ""
    if held.attempt == 1:
        return "Reserved by a run that ended before it was granted: it goes on. "
    by = one_line(str(held.opened_under.get("approved_by") or "A person"), limit=80)
    return f"{by} allowed another attempt, number {held.attempt}. "


def resolve_command(slot: str) -> str:
    """What a person types who found out that it arrived."""
    return f'opsguard ledger resolve {slot} --sent --by YOU --comment "WHAT YOU FOUND" --yes'


def _sentence(text: str) -> str:
    """A code at the beginning, such as `http_422:`, stays as it is."""
    shown = one_line(text, limit=300).rstrip(".")
    first = shown.split(" ", 1)[0]
    return f"{shown[:1].upper() if first.isalpha() else shown[:1]}{shown[1:]}."

"""What became of one target, as values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from guards.delivery.entry import Reservation
from guards.delivery.message import provider_key
from guards.delivery.planning import DeliveryTarget
from guards.delivery.slot import Slot
from guards.receipt import Receipt


class Outcome(StrEnum):
    SENT = "sent"
    """The provider took it, and the ledger and a receipt say so."""
    ALREADY_SENT = "already_sent"
    """The ledger proves that it was sent before: nothing was sent now."""
    SUPPRESSED = "suppressed"
    """The check-in arrived before the call: nothing was sent."""
    CLOSED = "closed"
    """Its window closed before the call: nothing was sent, and it is not sent late."""
    STALE = "stale"
    """The facts changed just before its call: nothing was sent."""
    HELD = "held"
    """Not started: the calls before it went wrong one after another. It stays due."""
    FAILED = "failed"
    """Provably not sent: the provider said no before taking it, or the ledger did not grant the call."""
    UNKNOWN = "unknown"
    """It may have been sent: only evidence or a person says more."""

    @property
    def is_proven(self) -> bool:
        match self:
            case Outcome.SENT | Outcome.ALREADY_SENT:
                return True
            case Outcome.SUPPRESSED | Outcome.CLOSED | Outcome.STALE | Outcome.HELD | Outcome.FAILED | Outcome.UNKNOWN:
                return False
            case _:
                assert_never(self)

    @property
    def called(self) -> bool:
        """The provider was, or may have been, asked to take it by this run."""
        return self in (Outcome.SENT, Outcome.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Sent:
    """`message` is one sentence for the operator."""

    slot: Slot
    outcome: Outcome
    message: str
    size_bytes: int
    body_sha256: str
    reservation_id: str = ""
    key: str = ""
    """What the provider knows it by."""
    receipt: Receipt | None = None
    was_called: bool = False
    """The provider was asked to take it, by this run, for this target."""

    @property
    def name(self) -> str:
        return self.slot.key


def sent_of(
    target: DeliveryTarget, outcome: Outcome, message: str, *, held: Reservation | None = None, receipt: Receipt | None = None
) -> Sent:
    known_by = (held.reservation_id, provider_key(held)) if held is not None else ("", "")
    return Sent(target.slot, outcome, message, target.size_bytes, target.body_sha256, *known_by, receipt)

"""Reservations: one attempt to fill a slot, its states, and the closed table of edges between them."""

from enum import StrEnum
from typing import Final


class ReservationState(StrEnum):
    PREPARED = "prepared"
    SENDING = "sending"
    DELIVERED = "delivered"
    SENT_AUDITED = "sent_audited"
    KNOWN_FAILURE = "known_failure"
    UNKNOWN = "unknown"
    ABANDONED = "abandoned"
    RESOLVED_SENT = "resolved_sent"
    RESOLVED_NOT_SENT = "resolved_not_sent"

    @property
    def is_unresolved(self) -> bool:
        """Bytes may have gone out and nobody has proven either way."""
        return self in (ReservationState.SENDING, ReservationState.UNKNOWN)

    @property
    def is_unfinished(self) -> bool:
        """Somebody has still to act: send it, observe it, or resolve it."""
        return self is ReservationState.PREPARED or self.is_unresolved

    @property
    def is_proven_sent(self) -> bool:
        return self in (ReservationState.DELIVERED, ReservationState.SENT_AUDITED, ReservationState.RESOLVED_SENT)

    @property
    def is_terminal(self) -> bool:
        return not any(before is self for before, _ in EDGES)


EDGES: Final[frozenset[tuple[ReservationState | None, ReservationState]]] = frozenset(
    {
        (None, ReservationState.PREPARED),
        (None, ReservationState.UNKNOWN),
        (ReservationState.PREPARED, ReservationState.SENDING),
        (ReservationState.PREPARED, ReservationState.UNKNOWN),
        (ReservationState.PREPARED, ReservationState.ABANDONED),
        (ReservationState.SENDING, ReservationState.DELIVERED),
        (ReservationState.SENDING, ReservationState.UNKNOWN),
        (ReservationState.SENDING, ReservationState.KNOWN_FAILURE),
        (ReservationState.SENDING, ReservationState.ABANDONED),
        (ReservationState.DELIVERED, ReservationState.SENT_AUDITED),
        (ReservationState.UNKNOWN, ReservationState.RESOLVED_SENT),
        (ReservationState.UNKNOWN, ReservationState.RESOLVED_NOT_SENT),
    }
)
"""None stands for "no reservation yet"; (None, UNKNOWN) only by migration or by recovery of an orphan claim."""

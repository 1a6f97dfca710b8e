"""What the tables hold of a reservation: written beside its last row, read back, and believed only if that row says the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, case, select

from guards.canonical import Json, canonical_json
from guards.delivery.entry import Entry, Event, Reservation
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import NotARow, parse_row
from guards.delivery.slot import Slot
from resources.state.clock import current as current_time
from resources.state.tables import leases, ledger_reservations, ledger_rows, ledger_slots

ALTERED: Final = LedgerRefused(
    LedgerCode.RECOVERY_REQUIRED,
    "the ledger's record of this slot is not what its chain says: nothing is sent for it. `opsguard ledger verify` names the row",
)


def project(reservation: Reservation) -> dict[str, Json]:
    """What is kept of a reservation beside its columns."""
    return {
        "pins": reservation.pins.as_json(),
        "key": reservation.key,
        "fence": reservation.fence,
        "holder": reservation.holder,
        "opened_at": reservation.opened_at.isoformat(timespec="microseconds"),
        "opened_under": dict(reservation.opened_under),
        "reason": reservation.reason.value if reservation.reason else "",
        "note": reservation.note,
        "receipt": dict(reservation.receipt),
        "evidence": dict(reservation.evidence),
        "approval": dict(reservation.approval),
        "late": [dict(said) for said in reservation.late],
    }


def projected(reservation: Reservation) -> str:
    """The same as it is stored, character for character."""
    return canonical_json(project(reservation)).decode("ascii")


@dataclass(frozen=True, slots=True)
class Held:
    """A row of `ledger_reservations` and the row of the chain that it names; `body` is decoded."""

    customer: str
    period: str
    kind: str
    attempt: int
    state: str
    body: Mapping[str, Any]
    since: datetime

    def as_reservation(self, *, ends_at: datetime | None = None, is_live: bool = False) -> Reservation:
        """Raises what decoding raises for a body that this program did not write."""
        body = self.body
        return Reservation(
            slot=Slot(self.customer, self.period, self.kind),
            attempt=self.attempt,
            state=ReservationState(self.state),
            pins=Pins(facts=body["pins"]["facts"], authority=body["pins"]["authority"]),
            key=body["key"],
            fence=body["fence"],
            holder=body["holder"],
            opened_at=datetime.fromisoformat(body["opened_at"]),
            changed_at=self.since.astimezone(UTC),
            opened_under=body["opened_under"],
            reason=Reason(body["reason"]) if body["reason"] else None,
            note=body["note"],
            receipt=body["receipt"],
            evidence=body["evidence"],
            approval=body["approval"],
            late=tuple(body["late"]),
            is_live=is_live,
            lease_expires_at=ends_at,
        )


def believe(
    held: Held, *, row: str, digest: str, fence: int, holder: str, ends_at: datetime | None, is_live: bool
) -> Reservation | LedgerRefused:
    """The projection, if the last row of its chain and its claim (`fence`, `holder`) say the same: what was changed by hand blocks its
    own slot and no other."""
    try:
        reservation = held.as_reservation(ends_at=ends_at, is_live=is_live)
        last = parse_row(row.encode("ascii"))
    except (NotARow, ValueError, KeyError, TypeError, AttributeError):
        return ALTERED
    agrees = last.digest == digest and (fence, holder) == (reservation.fence, reservation.holder)
    return reservation if agrees and _is_left_by(reservation, last.entry) else ALTERED


def _is_left_by(reservation: Reservation, entry: Entry) -> bool:
    told = (reservation.slot, reservation.attempt, reservation.state, reservation.fence, reservation.holder)
    if (
        told != (entry.slot, entry.attempt, entry.state, entry.fence, entry.holder)
        or reservation.pins.digest != entry.pins_digest
    ):
        return False
    if entry.event is Event.LATE_EVIDENCE:
        return bool(reservation.late) and reservation.late[-1] == entry.evidence
    return (
        (reservation.reason, reservation.note) == (entry.reason, entry.note)
        and (reservation.evidence, reservation.approval) == (entry.evidence, entry.approval)
        and entry.receipt in ({}, reservation.receipt)
    )


def is_live() -> ColumnElement[bool]:
    """By the database clock, now. A lease that has ended never lives again: its heartbeat is refused."""
    return lease_ends_at() > current_time()


def lease_ends_at() -> ColumnElement[datetime]:
    """None when nobody holds it, or the writer's scope has another fence."""
    under_scope = (
        select(leases.c.expires_at)
        .where(leases.c.scope == ledger_slots.c.lease_scope, leases.c.fence == ledger_slots.c.lease_fence)
        .correlate(ledger_slots)
        .scalar_subquery()
    )
    return case((ledger_slots.c.lease_scope.is_not(None), under_scope), else_=ledger_slots.c.lease_expires_at)


def latest_attempts() -> Select[Any]:
    """Every slot with its latest attempt, its last row and its lease."""
    return select(
        ledger_slots.c.fence,
        ledger_slots.c.holder,
        lease_ends_at().label("lease_expires_at"),
        is_live().label("is_live"),
        ledger_reservations,
        ledger_rows.c.row,
        ledger_rows.c.digest.label("row_digest"),
    ).select_from(
        ledger_slots.outerjoin(ledger_reservations, ledger_reservations.c.reservation == ledger_slots.c.reservation).outerjoin(
            ledger_rows, ledger_rows.c.sequence == ledger_reservations.c.row_sequence
        )
    )


def of_slot(slot: Slot) -> ColumnElement[bool]:
    here: ColumnElement[bool] = (
        (ledger_slots.c.customer == slot.customer) & (ledger_slots.c.period == slot.period) & (ledger_slots.c.kind == slot.kind)
    )
    return here


def held_in(stored: Row[Any]) -> Held:
    return Held(stored.customer, stored.period, stored.kind, stored.attempt, stored.state, stored.body, stored.since)

"""What the tables hold of a reservation: written beside its last row, read back, and believed only if that row says the same."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, case, select

from guards.canonical import Json, canonical_json
from guards.delivery.entry import Event, Reservation
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
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
        "used": list(reservation.used),
    }


def projected(reservation: Reservation) -> str:
    """The same as it is stored, character for character."""
    return canonical_json(project(reservation)).decode("ascii")


@dataclass(frozen=True, slots=True)
class Held:
    """A row of `ledger_reservations`; `body` is decoded."""

    slot: Slot
    attempt: int
    state: str
    body: Mapping[str, Any]
    since: datetime

    def as_reservation(self, *, ends_at: datetime | None = None, is_live: bool = False) -> Reservation:
        """Raises what decoding raises for a body that this program did not write."""
        body = self.body
        return Reservation(
            slot=self.slot,
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
            used=tuple(body["used"]),
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
        spelt = row.encode("ascii")
        agrees = (fence, holder) == (reservation.fence, reservation.holder) and _is_left_by(reservation, json.loads(row))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ALTERED
    return reservation if agrees and hashlib.sha256(spelt).hexdigest() == digest else ALTERED


def _is_left_by(reservation: Reservation, row: Mapping[str, Any]) -> bool:
    """`row` is not parsed as a row: that its bytes have its digest is enough here, and three times as quick."""
    slot = reservation.slot
    if (row["customer"], row["period"], row["kind"]) != (slot.customer, slot.period, slot.kind):
        return False
    told = (reservation.attempt, reservation.state.value, reservation.fence, reservation.holder, reservation.pins.digest)
    if told != (row["attempt"], row["state"], row["fence"], row["holder"], row["pins_digest"]):
        return False
    if row["event"] == Event.LATE_EVIDENCE.value:
        return bool(reservation.late) and reservation.late[-1] == row["evidence"]
    return (
        (reservation.reason.value if reservation.reason else "", reservation.note) == (row["reason"], row["note"])
        and (reservation.evidence, reservation.approval) == (row["evidence"], row["approval"])
        and row["receipt"] in ({}, reservation.receipt)
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


def held_in(stored: Row[Any]) -> Held:
    return Held(Slot(stored.customer, stored.period, stored.kind), stored.attempt, stored.state, stored.body, stored.since)

"""The ledger's tables: one slot locked and read, entries appended. The slot's row is locked first, the chain's head last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, DateTime, Row, Select, bindparam, case, select, text
from sqlalchemy.dialects.postgresql import insert

from guards.canonical import Json, canonical_json
from guards.delivery import row as chain
from guards.delivery.entry import Entry, Event, IllegalEntry, Reservation, advance
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head, NotARow, parse_row
from guards.delivery.slot import Slot
from resources.state.clock import current as current_time
from resources.state.columns import ExactText
from resources.state.tables import leases, ledger_reservations, ledger_rows, ledger_slots


@dataclass(frozen=True, slots=True)
class Lease:
    """What keeps a grant alive: a time of its own, or a writer's lease on a scope (`scope`, `fence`)."""

    seconds: int
    scope: str | None = None
    fence: int | None = None


_HEAD: Final = text("""
    SELECT sequence, digest, server, clock_timestamp() AS at,
           (SELECT system_identifier || '/' || timeline_id FROM pg_control_system(), pg_control_checkpoint()) AS here
    FROM opsguard.ledger_head WHERE id = 1 FOR UPDATE
""")

_HEAD_UNNAMED: Final = text("""
    SELECT sequence, digest, server, clock_timestamp() AS at, '' AS here FROM opsguard.ledger_head WHERE id = 1 FOR UPDATE
""")

_MAY_ASK: Final = text("""
    SELECT has_function_privilege('pg_control_system()', 'EXECUTE') AND has_function_privilege('pg_control_checkpoint()', 'EXECUTE')
""")

_APPEND: Final = text("""
    WITH appended AS (
        INSERT INTO opsguard.ledger_rows (sequence, reservation, digest, "row")
        VALUES (:sequence, :reservation, :digest, :row)
    ), projected AS (
        INSERT INTO opsguard.ledger_reservations
            (reservation, customer, period, kind, attempt, state, row_sequence, body, since)
        VALUES (:reservation, :customer, :period, :kind, :attempt, :state, :sequence, :body, :since)
        ON CONFLICT (reservation) DO UPDATE
        SET state = excluded.state, row_sequence = excluded.row_sequence, body = excluded.body, since = excluded.since
    ), claimed AS (
        UPDATE opsguard.ledger_slots
        SET reservation = :reservation, attempt = :attempt, fence = :fence, holder = :holder,
            lease_expires_at = CASE
                WHEN :keep_lease THEN lease_expires_at
                WHEN :lease_seconds > 0 THEN clock_timestamp() + :lease_seconds * interval '1 second'
            END,
            lease_scope = CASE WHEN :keep_lease THEN lease_scope ELSE :lease_scope END,
            lease_fence = CASE WHEN :keep_lease THEN lease_fence ELSE :lease_fence END
        WHERE customer = :customer AND period = :period AND kind = :kind
    )
    UPDATE opsguard.ledger_head SET sequence = :sequence, digest = :digest, server = :server WHERE id = 1
""").bindparams(bindparam("holder", type_=ExactText), bindparam("since", type_=DateTime(timezone=True)))


def is_live() -> ColumnElement[bool]:
    """By the database clock, now. A lease that has ended never lives again: its heartbeat is refused."""
    under_scope = (
        select(leases.c.scope)
        .where(
            leases.c.scope == ledger_slots.c.lease_scope,
            leases.c.fence == ledger_slots.c.lease_fence,
            leases.c.expires_at > current_time(),
        )
        .correlate(ledger_slots)
        .exists()
    )
    return case((ledger_slots.c.lease_scope.is_not(None), under_scope), else_=ledger_slots.c.lease_expires_at > current_time())


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
        current_time().label("now"),
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


_HERE: Final = (
    (ledger_slots.c.customer == bindparam("customer"))
    & (ledger_slots.c.period == bindparam("period"))
    & (ledger_slots.c.kind == bindparam("kind"))
)
# Built once: building them anew took a tenth of every transition.
_LOCK_SLOT: Final = select(ledger_slots.c.attempt).where(_HERE).with_for_update()
_READ_SLOT: Final = latest_attempts().where(_HERE)
_CLAIM: Final = (
    insert(ledger_slots)
    .values(
        customer=bindparam("customer"),
        period=bindparam("period"),
        kind=bindparam("kind"),
        reservation=bindparam("reservation"),
        attempt=1,
        fence=0,
        holder="",
    )
    .on_conflict_do_nothing()
    .returning(ledger_slots.c.attempt)
)


def lock_slot(connection: Connection, slot: Slot) -> Reservation | LedgerRefused | None:
    """The slot's latest attempt, locked until this transaction ends; None when it is free; refused when it was altered."""
    place = {"customer": slot.customer, "period": slot.period, "kind": slot.kind}
    # Two statements: one that locks and joins would, after a wait, show the slot as it is now beside its rows as they were.
    if connection.execute(_LOCK_SLOT, place).one_or_none() is None:
        return None
    return believe(connection.execute(_READ_SLOT, place).one())


def claim(connection: Connection, slot: Slot) -> bool:
    """The claim on a free slot; it waits for a concurrent one. False: somebody else's was first."""
    place = {"customer": slot.customer, "period": slot.period, "kind": slot.kind}
    return connection.execute(_CLAIM, {**place, "reservation": slot.reservation_id(1)}).one_or_none() is not None


def append(
    connection: Connection, current: Reservation | None, entries: Sequence[Entry], *, lease: Lease | None = None
) -> Reservation | LedgerRefused:
    """`entries` (at least one) durable when this transaction is; the reservation as they leave it."""
    head = read_head(connection)
    if head.server not in ("", head.here):
        return LedgerRefused(
            LedgerCode.RECOVERY_REQUIRED,
            "the ledger was last proven on another server, or before a failover: `opsguard ledger verify`, then go on",
        )
    try:
        rows = chain.append(Head(head.sequence, head.digest), tuple(entries), at=head.at)
    except NotARow as problem:
        return LedgerRefused(LedgerCode.INVALID, f"{problem}: nothing was written")
    after = current
    for row in rows:
        following = advance(after, row.entry, at=row.at)
        if isinstance(following, IllegalEntry):
            raise AssertionError(f"a transition made an entry that cannot follow: {following.why}")  # noqa: TRY004
        after = following
        connection.execute(_APPEND, _parameters(row, after, lease, head.here))
    assert after is not None
    sending = after.state is ReservationState.SENDING
    return replace(
        after,
        is_live=sending and (lease is not None or after.is_live),
        lease_expires_at=after.lease_expires_at if sending else None,
    )


def read_head(connection: Connection) -> Row[Any]:
    """`sequence, digest, server, at, here`, locked until this transaction ends. `here` is "" where we may not ask the server."""
    may_ask = connection.info.get("opsguard_may_ask_server")
    if may_ask is None:
        may_ask = connection.info["opsguard_may_ask_server"] = connection.execute(_MAY_ASK).scalar_one()
    return connection.execute(_HEAD if may_ask else _HEAD_UNNAMED).one()


def _parameters(row: chain.Row, after: Reservation, lease: Lease | None, server: str) -> dict[str, Any]:
    return {
        "sequence": row.sequence,
        "reservation": after.reservation_id,
        "digest": row.digest,
        "row": row.bytes.decode("ascii"),
        "customer": after.slot.customer,
        "period": after.slot.period,
        "kind": after.slot.kind,
        "attempt": after.attempt,
        "state": after.state.value,
        "body": canonical_json(project(after)).decode("ascii"),
        "since": after.changed_at,
        "fence": after.fence,
        "holder": after.holder,
        "keep_lease": row.entry.event is Event.LATE_EVIDENCE,
        "lease_seconds": lease.seconds if lease else 0,
        "lease_scope": lease.scope if lease else None,
        "lease_fence": lease.fence if lease else None,
        "server": server,
    }


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


def as_reservation(stored: Row[Any]) -> Reservation:
    """From a row of `ledger_reservations`, without its lease."""
    body: Mapping[str, Any] = stored.body
    return Reservation(
        slot=Slot(stored.customer, stored.period, stored.kind),
        attempt=stored.attempt,
        state=ReservationState(stored.state),
        pins=Pins(facts=body["pins"]["facts"], authority=body["pins"]["authority"]),
        key=body["key"],
        fence=body["fence"],
        holder=body["holder"],
        opened_at=datetime.fromisoformat(body["opened_at"]),
        changed_at=stored.since,
        opened_under=body["opened_under"],
        reason=Reason(body["reason"]) if body["reason"] else None,
        note=body["note"],
        receipt=body["receipt"],
        evidence=body["evidence"],
        approval=body["approval"],
        late=tuple(body["late"]),
    )


def believe(stored: Row[Any]) -> Reservation | LedgerRefused:
    """The projection, if the last row of its chain says the same: a row changed by hand blocks its own slot and no other."""
    try:
        reservation = as_reservation(stored)
        row = parse_row(stored.row.encode("ascii"))
    except (NotARow, ValueError, KeyError, TypeError, AttributeError):
        return _ALTERED
    entry = row.entry
    said = (entry.slot, entry.attempt, entry.state, entry.fence, entry.holder, entry.pins_digest, row.digest)
    held = (
        reservation.slot,
        reservation.attempt,
        reservation.state,
        reservation.fence,
        reservation.holder,
        reservation.pins.digest,
        stored.row_digest,
    )
    if said != held or (stored.fence, stored.holder) != (reservation.fence, reservation.holder):
        return _ALTERED
    return replace(reservation, is_live=bool(stored.is_live), lease_expires_at=stored.lease_expires_at)


_ALTERED: Final = LedgerRefused(
    LedgerCode.RECOVERY_REQUIRED,
    "the ledger's record of this slot is not what its chain says: nothing is sent for it. `opsguard ledger verify` names the row",
)

"""Reading the ledger: attempts, pages, head, counts, health. Nothing is locked and nothing is changed."""

import dataclasses
import hashlib
from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Text, cast, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from guards.delivery.entry import Reservation
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import GENESIS, Head
from guards.delivery.slot import NotASlot, Slot
from resources.ledger.interface import MOST_PER_PAGE, Health, Snapshot
from resources.state.engine import ONE_SNAPSHOT
from resources.state.errors import Altered
from resources.state.ledger_rows import ALTERED, believe, held_in, is_live, latest_attempts, lease_ends_at
from resources.state.ledger_steps import ELSEWHERE, is_here
from resources.state.ledger_verify import NO_HEAD, store_and_server
from resources.state.tables import ledger_head, ledger_reservations, ledger_rows, ledger_slots

SLOTS_PER_QUESTION: Final = 5_000
_PLACE: Final = (ledger_slots.c.customer, ledger_slots.c.period, ledger_slots.c.kind)


def get(connection: Connection, reservation_id: str) -> Reservation | None:
    return next(iter(_attempts(connection, ledger_reservations.c.reservation == reservation_id)), None)


def of(connection: Connection, slot: Slot) -> tuple[Reservation, ...]:
    return _attempts(
        connection,
        ledger_reservations.c.customer == slot.customer,
        ledger_reservations.c.period == slot.period,
        ledger_reservations.c.kind == slot.kind,
    )


def history(connection: Connection, customer: str, period_prefix: str) -> tuple[Reservation, ...]:
    return _attempts(
        connection,
        ledger_reservations.c.customer == customer,
        ledger_reservations.c.period.startswith(period_prefix, autoescape=True),
    )


def history_of(connection: Connection, customer: str, period_prefixes: Collection[str]) -> tuple[Reservation, ...]:
    lengths = {len(prefix) for prefix in period_prefixes}
    if not lengths:
        return ()
    if len(lengths) > 1:
        raise ValueError("prefixes of one length are asked for at once")
    wanted = select(func.unnest(cast(list(period_prefixes), ARRAY(Text))).label("prefix")).subquery()
    beginning = func.left(ledger_reservations.c.period, lengths.pop())
    return _attempts(connection, ledger_reservations.c.customer == customer, beginning.in_(select(wanted.c.prefix)))


def latest(connection: Connection, slots: Collection[Slot]) -> dict[Slot, Reservation | LedgerRefused]:
    asked = sorted(slots)
    found: dict[Slot, Reservation | LedgerRefused] = {}
    for begin in range(0, len(asked), SLOTS_PER_QUESTION):
        chunk = asked[begin : begin + SLOTS_PER_QUESTION]
        texts = (
            cast(list(each), ARRAY(Text)) for each in zip(*((one.customer, one.period, one.kind) for one in chunk), strict=True)
        )
        wanted = func.unnest(*texts).table_valued("customer", "period", "kind").render_derived(name="wanted")
        found |= _latest(connection, tuple_(*_PLACE).in_(select(wanted.c.customer, wanted.c.period, wanted.c.kind)))
    return found


def unfinished(connection: Connection) -> dict[Slot, Reservation | LedgerRefused]:
    states = [state.value for state in ReservationState if state.is_unfinished]
    return _latest(connection, ledger_reservations.c.state.in_(states))


def _latest(connection: Connection, where: ColumnElement[bool]) -> dict[Slot, Reservation | LedgerRefused]:
    named = [column.label(f"slot_{column.name}") for column in _PLACE]
    statement = latest_attempts().add_columns(*named).where(where).order_by(*_PLACE)
    return {
        Slot(stored.slot_customer, stored.slot_period, stored.slot_kind): _belief(stored)
        for stored in connection.execute(statement)
    }


def snapshot(connection: Connection, *, customer: str | None, after: Slot | None, limit: int) -> Snapshot:
    size = max(1, min(limit, MOST_PER_PAGE))
    connection.execute(ONE_SNAPSHOT)
    statement = latest_attempts().order_by(*_PLACE).limit(size + 1)
    if customer is not None:
        statement = statement.where(ledger_slots.c.customer == customer)
    if after is not None:
        statement = statement.where(tuple_(*_PLACE) > tuple_(literal(after.customer), literal(after.period), literal(after.kind)))
    at = head(connection)
    found = connection.execute(statement).all()
    page = tuple(_believed(stored) for stored in found[:size])
    return Snapshot(f"{at.sequence}:{at.digest}", page, page[-1].slot if len(found) > size else None)


def head(connection: Connection) -> Head:
    row = connection.execute(select(ledger_head.c.sequence, ledger_head.c.digest)).one_or_none()
    if row is None:
        raise Altered(NO_HEAD)
    return Head(row.sequence, row.digest)


def extends(connection: Connection, published: Head) -> bool:
    if published.sequence == 0:
        return published.digest == GENESIS
    wanted = select(ledger_rows.c.row).where(
        ledger_rows.c.sequence == published.sequence, ledger_rows.c.digest == published.digest
    )
    row = connection.execute(wanted).scalar_one_or_none()
    held = row is not None and hashlib.sha256(row.encode()).hexdigest() == published.digest
    return held and head(connection).sequence >= published.sequence


def counts(connection: Connection) -> dict[str, int]:
    statement = (
        select(ledger_reservations.c.state, func.count().label("number"))
        .join_from(ledger_slots, ledger_reservations, ledger_reservations.c.reservation == ledger_slots.c.reservation)
        .group_by(ledger_reservations.c.state)
    )
    return {row.state: row.number for row in connection.execute(statement)}


def health(connection: Connection) -> Health:
    connection.execute(ONE_SNAPSHOT)
    server = store_and_server(connection)
    sending = (
        select(
            ledger_slots.c.customer,
            ledger_slots.c.period,
            ledger_slots.c.kind,
            ledger_reservations.c.since,
            is_live().label("is_live"),
        )
        .join_from(ledger_slots, ledger_reservations, ledger_reservations.c.reservation == ledger_slots.c.reservation)
        .where(ledger_reservations.c.state == "sending")
        .order_by(ledger_slots.c.customer, ledger_slots.c.period, ledger_slots.c.kind)
    )
    found = connection.execute(sending).all()
    return Health(
        store=f"postgres {hashlib.sha256(server.identity.encode()).hexdigest()[:8]}",
        head=head(connection),
        counts=counts(connection),
        oldest_sending_at=min((row.since for row in found), default=None),
        stale_sending=tuple(Slot(row.customer, row.period, row.kind) for row in found if not row.is_live),
        recovery="" if is_here(server.accepted, server.here) else ELSEWHERE,
        doubt_before=connection.execute(select(ledger_head.c.accepted_at)).scalar_one(),
    )


def _attempts(connection: Connection, *where: ColumnElement[bool]) -> tuple[Reservation, ...]:
    """Oldest first: in the order in which they were opened."""
    opened = (
        select(func.min(ledger_rows.c.sequence))
        .where(ledger_rows.c.reservation == ledger_reservations.c.reservation)
        .correlate(ledger_reservations)
        .scalar_subquery()
    )
    held = (
        select(
            lease_ends_at().label("lease_expires_at"),
            is_live().label("is_live"),
            ledger_slots.c.attempt.label("latest"),
            ledger_reservations,
        )
        .join_from(ledger_reservations, ledger_slots, _SAME_SLOT, isouter=True)
        .where(*where)
        .order_by(opened)
    )
    return tuple(_with_lease(stored) for stored in connection.execute(held))


_SAME_SLOT: Final = (
    (ledger_slots.c.customer == ledger_reservations.c.customer)
    & (ledger_slots.c.period == ledger_reservations.c.period)
    & (ledger_slots.c.kind == ledger_reservations.c.kind)
)


def _with_lease(stored: Row[Any]) -> Reservation:
    """An earlier attempt has no lease: the slot's is that of the latest."""
    reservation = held_in(stored).as_reservation()
    if stored.attempt != stored.latest:
        return reservation
    return dataclasses.replace(reservation, is_live=bool(stored.is_live), lease_expires_at=stored.lease_expires_at)


def _belief(stored: Row[Any]) -> Reservation | LedgerRefused:
    if stored.reservation is None or stored.row is None:
        return ALTERED
    try:
        held = held_in(stored)
    except NotASlot:
        return ALTERED
    return believe(
        held,
        row=stored.row,
        digest=stored.row_digest,
        fence=stored.fence,
        holder=stored.holder,
        ends_at=stored.lease_expires_at,
        is_live=bool(stored.is_live),
    )


def _believed(stored: Row[Any]) -> Reservation:
    reservation = _belief(stored)
    if isinstance(reservation, LedgerRefused):
        raise Altered(reservation.message)
    return reservation

"""Whole ledgers: every row out in one snapshot, another store's rows in, and what is answered from made anew from the rows."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Engine, func, text, update
from sqlalchemy.exc import SQLAlchemyError

from guards.delivery.entry import Reservation
from guards.delivery.refusal import LedgerCode
from guards.delivery.replay import FaultKind, Replay
from guards.delivery.row import Head
from resources.ledger.interface import Repair, Repairs, StoredRow, Verification
from resources.state import ledger_accept
from resources.state import ledger_sql as sql
from resources.state.columns import escape
from resources.state.engine import ONE_SNAPSHOT, unreachable
from resources.state.ledger_rows import projected
from resources.state.ledger_steps import ELSEWHERE, is_here
from resources.state.ledger_verify import PAGE, anchor, replayed, store_and_server, verification
from resources.state.tables import ledger_head

_REPAIRABLE: Final = frozenset({FaultKind.PROJECTION, FaultKind.CLAIM})


class NotTaken(Exception):
    """Rolls a take-over back. Arguments: code and sentence of the refusal."""


def rows(engine: Engine) -> Iterator[StoredRow]:
    """`Unreachable` when the connection breaks: what was told until then is a part."""
    try:
        with engine.connect() as connection:
            connection.execute(ONE_SNAPSHOT)
            connection.execute(text(sql.READ_SLOWLY))
            for row in connection.execute(text(sql.ROWS), execution_options={"yield_per": PAGE}):
                yield StoredRow(row.sequence, row.digest, row.row.encode())
    except SQLAlchemyError as error:
        raise unreachable(getattr(error, "orig", None) or error) from None


def adopt(
    connection: Connection, taken: Iterable[StoredRow], *, doubt_before: datetime | None = None, accept_copy: bool = False
) -> Verification:
    """`NotTaken` for rows with a fault, and for a store that holds anything but exactly these rows."""
    connection.execute(text(sql.LOCK_HEAD))
    found = _take_over(connection, taken, doubt_before=doubt_before)
    if not accept_copy:
        return found
    if repair(connection, accept_copy=True).left:
        raise NotTaken(LedgerCode.RECOVERY_REQUIRED, "this ledger is not whole, so no copy is accepted: `opsguard ledger verify`")
    return verification(replayed(connection))


def _take_over(connection: Connection, taken: Iterable[StoredRow], *, doubt_before: datetime | None) -> Verification:
    server = store_and_server(connection)
    if not is_here(server.accepted, server.here):
        raise NotTaken(LedgerCode.RECOVERY_REQUIRED, ELSEWHERE)
    if doubt_before is not None:
        connection.execute(update(ledger_head).values(accepted_at=func.greatest(ledger_head.c.accepted_at, doubt_before)))
    if _is_empty(connection):
        replay = _fill(connection, taken)
        _answer(connection, replay)
        if replay.rows:
            moved = {"sequence": replay.head.sequence, "digest": replay.head.digest, "server": server.here}
            connection.execute(update(ledger_head).values(moved))
        return verification(replay)
    replay = Replay(is_lean=True)
    stored = connection.execute(text(sql.ROWS), execution_options={"yield_per": PAGE})
    for row in taken:
        _take(replay, row)
        held = stored.fetchone()
        if held is None or (held.sequence, held.digest, held.row.encode()) != tuple(row):
            raise NotTaken(LedgerCode.INVALID, _OTHERS)
    if stored.fetchone() is not None or anchor(connection) != replay.head:
        raise NotTaken(LedgerCode.INVALID, _OTHERS)
    return verification(replay)


_OTHERS: Final = "this ledger holds other rows: take over into an empty one; nothing was taken"


def _is_empty(connection: Connection) -> bool:
    return anchor(connection) == Head() and not connection.execute(text(sql.HOLDS_ANYTHING)).scalar_one()


def _fill(connection: Connection, taken: Iterable[StoredRow]) -> Replay:
    replay = Replay(is_lean=True)
    cursor = connection.connection.cursor()
    with cursor.copy(sql.COPY_ROWS) as copy:
        for row in taken:
            after = _take(replay, row)
            copy.write_row((row.sequence, after.reservation_id, row.digest, row.row.decode("ascii")))
    return replay


def _take(replay: Replay, row: StoredRow) -> Reservation:
    after = replay.take(*row)
    if after is None or replay.faults:
        fault = replay.faults[0]
        raise NotTaken(LedgerCode.INVALID, f"row {fault.sequence} of what was to be taken over: {fault.why}; nothing was taken")
    return after


def _answer(connection: Connection, replay: Replay) -> None:
    """The answers from the stored rows, each from its last, and the claims."""
    cursor = connection.connection.cursor()
    whole = _last_of_each(connection)
    while page := list(islice(whole, PAGE)):
        with cursor.copy(sql.COPY_ANSWERS) as copy:
            for sequence, reservation in page:
                copy.write_row(tuple(_answered(sequence, reservation).values()))
    with cursor.copy(sql.COPY_CLAIMS) as copy:
        for attempts in replay.attempts.values():
            copy.write_row(tuple(_claim(attempts[-1]).values()))


def repair(connection: Connection, *, accept_copy: bool) -> Repairs:
    """Only when the rows verify. What claims a slot without a row is left to a person: it may be all that is left of what was sent."""
    connection.execute(text(sql.LOCK_HEAD))
    done = _mend(connection)
    if not accept_copy or done.left:
        return done
    doubted = tuple(ledger_accept.accept(connection))
    return Repairs(made=(*done.made, *doubted), left=tuple(replayed(connection).faults), is_accepted=True)


def _mend(connection: Connection) -> Repairs:
    found = replayed(connection)
    wrong = {fault.slot for fault in found.faults if fault.slot is not None}
    if not all(fault.kind in _REPAIRABLE for fault in found.faults) or not wrong:
        return Repairs(left=tuple(found.faults))
    for sequence, reservation in _last_of_each(connection):
        if reservation.slot in wrong:
            connection.execute(text(sql.ANSWER_ANEW), _answered(sequence, reservation))
    for slot in wrong:
        for latest in found.attempts.get(slot, [])[-1:]:
            connection.execute(text(sql.CLAIM_ANEW), _claim(latest))
    left = tuple(replayed(connection).faults)
    mended = wrong - {fault.slot for fault in left}
    return Repairs(
        made=tuple(Repair(f"{slot.key}: claim and answers were made anew from its rows", slot=slot) for slot in sorted(mended)),
        left=left,
    )


def _last_of_each(connection: Connection) -> Iterator[tuple[int, Reservation]]:
    """Every attempt whole, with the number of its last row; forgotten once it was told."""
    last = {row.reservation: row.last for row in connection.execute(text(sql.LAST_ROWS))}
    replay = Replay()
    for row in connection.execute(text(sql.ROWS), execution_options={"yield_per": PAGE}):
        after = replay.take(row.sequence, row.digest, row.row.encode())
        if after is not None and last.get(after.reservation_id) == row.sequence:
            yield row.sequence, after
            replay.forget_bodies(after.slot)


def _answered(sequence: int, reservation: Reservation) -> dict[str, Any]:
    slot = reservation.slot
    return {
        "reservation": reservation.reservation_id,
        "customer": slot.customer,
        "period": slot.period,
        "kind": slot.kind,
        "attempt": reservation.attempt,
        "state": reservation.state.value,
        "row_sequence": sequence,
        "body": projected(reservation),
        "since": reservation.changed_at,
    }


def _claim(reservation: Reservation) -> dict[str, Any]:
    slot = reservation.slot
    return {
        "customer": slot.customer,
        "period": slot.period,
        "kind": slot.kind,
        "reservation": reservation.reservation_id,
        "attempt": reservation.attempt,
        "fence": reservation.fence,
        "holder": escape(reservation.holder),
    }

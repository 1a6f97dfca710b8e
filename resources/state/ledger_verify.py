"""The whole ledger read again: the chain from its first row, its anchor, its answers and its claims. Read-only, one snapshot.

One pass: each row comes with the answer that names it as its last, which is compared at that moment; afterwards the bodies of that
attempt are forgotten, so that memory grows with the number of slots and not with what was sent.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Row, select, text, update

from guards.delivery.entry import Reservation
from guards.delivery.replay import Fault, FaultKind, Replay
from guards.delivery.row import Head
from guards.delivery.slot import NotASlot, Slot
from resources.ledger.interface import Verification
from resources.state import ledger_sql as sql
from resources.state.errors import Altered
from resources.state.ledger_rows import projected
from resources.state.tables import ledger_head, ledger_slots

PAGE: Final = 1000
NO_HEAD: Final = "the ledger's head is gone: `opsguard ledger verify`, and look at who has the database's password"


def verify(connection: Connection) -> Verification:
    connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
    return verification(replayed(connection))


def verification(replay: Replay) -> Verification:
    latest = [attempts[-1] for attempts in replay.attempts.values() if attempts]
    return Verification(
        rows=replay.rows,
        slots=len(latest),
        head=replay.head,
        counts=dict(Counter(reservation.state.value for reservation in latest)),
        faults=tuple(replay.faults),
    )


def replayed(connection: Connection) -> Replay:
    """With all that is wrong, and without bodies. In whatever transaction this is."""
    replay = Replay()
    unanswered = _feed(connection, replay)
    replay.finish(anchor(connection))
    for reservation_id, (sequence, slot) in unanswered.items():
        why = f"reservation {reservation_id} is not answered as its last row, {sequence}, leaves it"
        replay.faults.append(Fault(FaultKind.PROJECTION, sequence, why, slot))
    replay.faults.extend(_answers_without_rows(connection))
    replay.faults.extend(_claim_faults(connection, replay))
    return replay


def anchor(connection: Connection) -> Head:
    stored = connection.execute(select(ledger_head.c.sequence, ledger_head.c.digest)).one_or_none()
    return Head(stored.sequence, stored.digest) if stored is not None else Head(0, "no anchor")


def _feed(connection: Connection, replay: Replay) -> dict[str, tuple[int, Slot]]:
    """Every row with its answers; what is left without the right one."""
    unanswered: dict[str, tuple[int, Slot]] = {}
    after: Reservation | None = None
    for row in _stream(connection, sql.ROWS_AND_ANSWERS):
        sequence = row.sequence
        if sequence != replay.head.sequence or not replay.rows:
            after = replay.take(sequence, row.digest, row.row.encode())
            if after is not None:
                unanswered[after.reservation_id] = (sequence, after.slot)
        if row.reservation is None:
            continue
        if after is not None and row.reservation == after.reservation_id and _is_answer(row, after):
            del unanswered[row.reservation]
            replay.forget_bodies(after.slot)
        elif after is None or row.reservation != after.reservation_id:
            why = f"reservation {row.reservation} is answered from row {sequence}, which is not its own"
            replay.faults.append(Fault(FaultKind.PROJECTION, sequence, why, after.slot if after else None))
    return unanswered


def _is_answer(row: Row[Any], after: Reservation) -> bool:
    slot = after.slot
    return (
        (row.customer, row.period, row.kind, row.attempt) == (slot.customer, slot.period, slot.kind, after.attempt)
        and (row.state, row.since) == (after.state.value, after.changed_at)
        and row.body == projected(after)
    )


def _answers_without_rows(connection: Connection) -> Iterator[Fault]:
    for row in connection.execute(text(sql.ANSWERS_WITHOUT_ROWS)):
        yield Fault(FaultKind.PROJECTION, row.row_sequence, f"reservation {row.reservation} has no row {row.row_sequence}")


def _claim_faults(connection: Connection, replay: Replay) -> Iterator[Fault]:
    claimed: set[Slot] = set()
    with connection.execute(select(ledger_slots), execution_options={"yield_per": PAGE}) as result:
        for row in result:
            try:
                slot = Slot(row.customer, row.period, row.kind)
            except NotASlot:
                yield Fault(FaultKind.CLAIM, 0, f"reservation {row.reservation} claims what is no slot")
                continue
            claimed.add(slot)
            attempts = replay.attempts.get(slot)
            latest = attempts[-1] if attempts else None
            if latest is None:
                yield Fault(FaultKind.CLAIM, 0, "a claim without a row", slot)
            elif (row.reservation, row.attempt, row.fence, row.holder) != (
                latest.reservation_id,
                latest.attempt,
                latest.fence,
                latest.holder,
            ):
                yield Fault(FaultKind.PROJECTION, 0, "its fence or holder is not what its rows say", slot)
    for slot, attempts in replay.attempts.items():
        if attempts and slot not in claimed:
            yield Fault(FaultKind.CLAIM, 0, "its claim is gone", slot)


def _stream(connection: Connection, statement: str) -> Iterator[Row[Any]]:
    with connection.execute(text(statement), execution_options={"yield_per": PAGE}) as result:
        yield from result


def accept_server(connection: Connection, proven: Head) -> None:
    """After a verification without faults: this server holds the chain that was proven, if nothing was appended meanwhile."""
    connection.execute(text(sql.LOCK_HEAD))
    server = store_and_server(connection)
    if anchor(connection) == proven and server.accepted != server.here:
        connection.execute(update(ledger_head).values(server=server.here))


def store_and_server(connection: Connection) -> Row[Any]:
    """`accepted` (where the chain was last proven), `here` (where we are; "" where we may not ask), `identity` of the store."""
    may_ask = connection.execute(text(sql.MAY_ASK)).scalar_one()
    row = connection.execute(text(sql.STORE if may_ask else sql.STORE_UNNAMED)).one_or_none()
    if row is None:
        raise Altered(NO_HEAD)
    return row

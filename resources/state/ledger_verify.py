"""The whole ledger read again: the chain from its first row, its anchor, and what is answered from. Read-only, one snapshot."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select, text

from guards.delivery.entry import Reservation
from guards.delivery.replay import Fault, FaultKind, Replay
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from resources.state.ledger_rows import as_reservation, project
from resources.state.tables import ledger_head, ledger_reservations, ledger_rows, ledger_slots

PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Verification:
    """`faults` empty: every row, claim and answer is what this program wrote. `counts` is state to number of latest attempts."""

    rows: int
    slots: int
    head: Head
    counts: dict[str, int]
    faults: tuple[Fault, ...]


def verify(connection: Connection) -> Verification:
    connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
    anchor = connection.execute(select(ledger_head.c.sequence, ledger_head.c.digest)).one_or_none()
    anchored = Head(anchor.sequence, anchor.digest) if anchor is not None else Head(0, "no anchor")
    replay = Replay()
    replay.feed(_stored_rows(connection))
    replay.finish(anchored)
    replay.faults.extend(_projection_faults(connection, replay))
    latest = [attempts[-1] for attempts in replay.attempts.values() if attempts]
    return Verification(
        rows=replay.rows,
        slots=len(latest),
        head=replay.head,
        counts=dict(Counter(reservation.state.value for reservation in latest)),
        faults=tuple(replay.faults),
    )


def _stored_rows(connection: Connection) -> Iterator[tuple[int, str, bytes]]:
    statement = select(ledger_rows.c.sequence, ledger_rows.c.digest, ledger_rows.c.row).order_by(ledger_rows.c.sequence)
    with connection.execution_options(yield_per=PAGE).execute(statement) as result:
        for row in result:
            yield row.sequence, row.digest, row.row.encode("utf-8", "surrogateescape")


def _projection_faults(connection: Connection, replay: Replay) -> Iterator[Fault]:
    expected = {reservation.reservation_id: reservation for attempts in replay.attempts.values() for reservation in attempts}
    seen: set[str] = set()
    statement = select(ledger_reservations).order_by(ledger_reservations.c.row_sequence)
    with connection.execution_options(yield_per=PAGE).execute(statement) as result:
        for row in result:
            seen.add(row.reservation)
            wanted = expected.get(row.reservation)
            slot = wanted.slot if wanted else None
            try:
                same = wanted is not None and _same(as_reservation(row), wanted)
            except (ValueError, KeyError, TypeError, AttributeError):
                same = False
            if not same:
                yield Fault(
                    FaultKind.PROJECTION, row.row_sequence, f"reservation {row.reservation} is not what its rows say", slot
                )
    for missing in expected.keys() - seen:
        yield Fault(FaultKind.PROJECTION, 0, f"reservation {missing} has rows and is not answered", expected[missing].slot)
    yield from _claim_faults(connection, replay)


def _same(stored: Reservation, wanted: Reservation) -> bool:
    return (
        (stored.slot, stored.attempt, stored.state) == (wanted.slot, wanted.attempt, wanted.state)
        and project(stored) == project(wanted)
        and stored.changed_at == wanted.changed_at
    )


def _claim_faults(connection: Connection, replay: Replay) -> Iterator[Fault]:
    claimed: set[Slot] = set()
    with connection.execution_options(yield_per=PAGE).execute(select(ledger_slots)) as result:
        for row in result:
            slot = Slot(row.customer, row.period, row.kind)
            claimed.add(slot)
            attempts = replay.attempts.get(slot)
            latest = attempts[-1] if attempts else None
            if latest is None:
                yield Fault(FaultKind.PROJECTION, 0, "a claim without a row", slot)
            elif (row.attempt, row.fence, row.holder) != (latest.attempt, latest.fence, latest.holder):
                yield Fault(FaultKind.PROJECTION, 0, "its fence or holder is not what its rows say", slot)
    for slot, attempts in replay.attempts.items():
        if attempts and slot not in claimed:
            yield Fault(FaultKind.PROJECTION, 0, "its claim is gone", slot)

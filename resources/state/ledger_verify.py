"""The whole ledger read again: the chain from its first row, its anchor, its answers and its claims. Read-only, one snapshot.

One pass: each row comes with the answer that names it as its last, which is compared at that moment; afterwards the bodies of that
attempt are forgotten, so that memory grows with the number of slots and not with what was sent.
"""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from sqlalchemy import Connection, Row, select, text

from guards.delivery.entry import Reservation
from guards.delivery.replay import Fault, FaultKind, Replay
from guards.delivery.row import Head
from guards.delivery.slot import NotASlot, Slot
from resources.ledger.interface import Verification
from resources.state import ledger_sql as sql
from resources.state.columns import escape
from resources.state.engine import ONE_SNAPSHOT
from resources.state.errors import Altered
from resources.state.ledger_rows import projected
from resources.state.tables import ledger_head

PAGE: Final = 500
NO_HEAD: Final = "the ledger's head is gone: `opsguard ledger verify`, and look at who has the database's password"


def verify(connection: Connection) -> Verification:
    connection.execute(ONE_SNAPSHOT)
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
    reading = _Reading(replay)
    for row in _stream(connection, sql.ROWS_AND_ANSWERS):
        reading.take(*row)
    replay.finish(anchor(connection))
    replay.faults.extend(reading.what_is_missing())
    for row in connection.execute(text(sql.ANSWERS_WITHOUT_ROWS)):
        why = f"reservation {row.reservation} has no row {row.row_sequence}"
        replay.faults.append(Fault(FaultKind.PROJECTION, row.row_sequence, why))
    for row in connection.execute(text(sql.CLAIMS_WITHOUT_ANSWERS)):
        replay.faults.append(_unanswered_claim(row, replay))
    return replay


def anchor(connection: Connection) -> Head:
    stored = connection.execute(select(ledger_head.c.sequence, ledger_head.c.digest)).one_or_none()
    return Head(stored.sequence, stored.digest) if stored is not None else Head(0, "no anchor")


class _Reading:
    """One row after the other, each with the answer that names it as its last and the claim on that answer."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._unanswered: dict[str, tuple[int, Slot]] = {}
        self._claimed: dict[Slot, int] = {}
        self._after: Reservation | None = None
        self._reservation_id = ""

    def take(self, sequence: int, digest: str, stored: str, filed_under: str, answers: str | None, *answer: Any) -> None:
        """`answer` is what `_is_answer` and `_is_claim` compare."""
        replay = self._replay
        if sequence != replay.head.sequence or not replay.rows:  # else a second answer that names the same row
            self._after = replay.take(sequence, digest, stored.encode())
            if self._after is not None:
                self._reservation_id = self._after.reservation_id
                self._unanswered[self._reservation_id] = (sequence, self._after.slot)
                if filed_under != self._reservation_id:
                    self._say(sequence, f"row {sequence} is filed under another reservation")
        after = self._after
        if answers is None or after is None:
            return
        if answers != self._reservation_id:
            self._say(sequence, f"reservation {answers} is answered from row {sequence}, which is not its own")
        elif _is_answer(answer, after):
            del self._unanswered[answers]
            if answer[7] is not None:
                self._claimed[after.slot] = after.attempt
                if answer[7:] != (*answer[:4], after.fence, escape(after.holder)):
                    self._say(0, "its fence or holder is not what its rows say")
            replay.forget_bodies(after.slot)

    def what_is_missing(self) -> Iterator[Fault]:
        for reservation_id, (sequence, slot) in self._unanswered.items():
            why = f"reservation {reservation_id} is not answered as its last row, {sequence}, leaves it"
            yield Fault(FaultKind.PROJECTION, sequence, why, slot)
        unanswered = {slot for _, slot in self._unanswered.values()}
        for slot, attempts in self._replay.attempts.items():
            if attempts and self._claimed.get(slot) != attempts[-1].attempt and slot not in unanswered:
                yield Fault(FaultKind.CLAIM, 0, "its claim is gone, or on an earlier attempt", slot)

    def _say(self, sequence: int, why: str) -> None:
        slot = self._after.slot if self._after is not None else None
        self._replay.faults.append(Fault(FaultKind.PROJECTION, sequence, why, slot))


def _is_answer(answer: tuple[Any, ...], after: Reservation) -> bool:
    """`answer`: customer, period, kind, attempt, state, since, body, and the claim's customer, period, kind, attempt, fence, holder."""
    slot = after.slot
    said = (slot.customer, slot.period, slot.kind, after.attempt, after.state.value, after.changed_at)
    return answer[:6] == said and answer[6] == projected(after)


def _unanswered_claim(row: Row[Any], replay: Replay) -> Fault:
    try:
        slot = Slot(row.customer, row.period, row.kind)
    except NotASlot:
        return Fault(FaultKind.CLAIM, 0, f"reservation {row.reservation} claims what is no slot")
    if replay.attempts.get(slot):
        return Fault(FaultKind.CLAIM, 0, "its claim is of a reservation that has no answer", slot)
    return Fault(FaultKind.CLAIM, 0, "a claim without a row", slot)


def _stream(connection: Connection, statement: str) -> Iterator[Row[Any]]:
    """The server finds the next page while this one is judged: a sixth of a verification was waiting for it."""
    pages = connection.execute(text(statement), execution_options={"yield_per": PAGE})
    with pages as result, ThreadPoolExecutor(max_workers=1) as ahead:
        pending = ahead.submit(result.fetchmany, PAGE)
        while page := pending.result():
            pending = ahead.submit(result.fetchmany, PAGE)
            yield from page


def store_and_server(connection: Connection) -> Row[Any]:
    """`accepted` (where the chain was begun, or last accepted), `here` (where we are; "" where we may not ask), `identity` of the store."""
    may_ask = connection.execute(text(sql.MAY_ASK)).scalar_one()
    row = connection.execute(text(sql.STORE if may_ask else sql.STORE_UNNAMED)).one_or_none()
    if row is None:
        raise Altered(NO_HEAD)
    return row

"""The outbox of alerts: neither lost when the receiver is down, nor sent twice when its answer is lost.

`queued` -> `sending` (claimed, committed before the call) -> `sent`, or back to `queued` when provably not sent, or `failed`, or
`unknown`: nobody knows whether it arrived, so it is not sent again; it is said.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, func, select, update
from sqlalchemy.dialects.postgresql import insert

from guards.canonical import Json
from resources.state.clock import current
from resources.state.tables import outbox

CLAIM_LASTS: Final = timedelta(minutes=5)
"""A call takes 10 s at most; a claim older than this belongs to a process that died with the answer."""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """`status`: queued, sending, sent, unknown or failed. `attempts` counts claims, this one included."""

    outbox_id: int
    key: str
    payload: Json
    status: str
    attempts: int
    why: str
    queued_at: datetime
    sent_ts: str = ""
    settled_at: datetime | None = None
    """When it became sent, unknown or failed; database clock."""


def enqueue(connection: Connection, key: str, payload: Json) -> bool:
    """True the first time; a key is queued once for ever."""
    statement = (
        insert(outbox)
        .values(
            key=key,
            payload=payload,
            status="queued",
            attempts=0,
            why="",
            sent_ts="",
            queued_at=current(),
            next_attempt_at=current(),
        )
        .on_conflict_do_nothing(index_elements=[outbox.c.key])
        .returning(outbox.c.id)
    )
    return connection.execute(statement).one_or_none() is not None


def claim(connection: Connection, limit: int) -> list[OutboxRow]:
    """Due rows, oldest first, each given to one caller. Claims whose caller died become `unknown` here."""
    connection.execute(
        update(outbox)
        .where(outbox.c.status == "sending", outbox.c.claimed_at < current() - CLAIM_LASTS)
        .values(status="unknown", why="the process that was sending it ended before it told", settled_at=current())
    )
    due = (
        select(outbox.c.id)
        .where(outbox.c.status == "queued", outbox.c.next_attempt_at <= current())
        .order_by(outbox.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    statement = (
        update(outbox)
        .where(outbox.c.id == due.c.id)
        .values(status="sending", claimed_at=current(), attempts=outbox.c.attempts + 1)
        .returning(outbox)
    )
    return sorted((_row(row) for row in connection.execute(statement)), key=lambda row: row.outbox_id)


def sent(connection: Connection, outbox_id: int, ts: str) -> None:
    """Accepted; `ts` is the receiver's own number for it."""
    _settle(connection, outbox_id, status="sent", why="", sent_ts=ts, settled_at=current())


def unknown(connection: Connection, outbox_id: int, why: str) -> None:
    _settle(connection, outbox_id, status="unknown", why=why, settled_at=current())


def failed(connection: Connection, outbox_id: int, why: str, retry_at: datetime | None) -> None:
    """Provably not sent: due again at `retry_at` (database clock), or never."""
    if retry_at is None:
        _settle(connection, outbox_id, status="failed", why=why, settled_at=current())
    else:
        _settle(connection, outbox_id, status="queued", why=why, next_attempt_at=retry_at, claimed_at=None)


def absent(connection: Connection, outbox_id: int) -> None:
    """A look-up at the receiver proved that an unknown one never arrived: it is due again."""
    statement = update(outbox).where(outbox.c.id == outbox_id, outbox.c.status == "unknown")
    why = "looked up: it had not arrived"
    connection.execute(statement.values(status="queued", why=why, settled_at=None, claimed_at=None, next_attempt_at=current()))


def _settle(connection: Connection, outbox_id: int, **values: Any) -> None:
    """Only what is being sent can be settled: a claim that went stale meanwhile stays unknown, unless it was accepted after all."""
    settable = ["sending", "unknown"] if values["status"] == "sent" else ["sending"]
    connection.execute(update(outbox).where(outbox.c.id == outbox_id, outbox.c.status.in_(settable)).values(**values))


def rows(connection: Connection, *, statuses: tuple[str, ...], limit: int) -> list[OutboxRow]:
    statement = select(outbox).where(outbox.c.status.in_(statuses)).order_by(outbox.c.id).limit(limit)
    return [_row(row) for row in connection.execute(statement)]


def counts(connection: Connection) -> dict[str, int]:
    statement = select(outbox.c.status, func.count().label("number")).group_by(outbox.c.status)
    return {row.status: row.number for row in connection.execute(statement)}


def _row(row: Row[Any]) -> OutboxRow:
    return OutboxRow(
        outbox_id=row.id,
        key=row.key,
        payload=row.payload,
        status=row.status,
        attempts=row.attempts,
        why=row.why,
        queued_at=row.queued_at,
        sent_ts=row.sent_ts,
        settled_at=row.settled_at,
    )

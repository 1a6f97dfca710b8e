"""One transition: look, ask the rule, append what it says, if nobody appended meanwhile; else look again.

Two statements and no lock held in between. Who has lost twice takes the head first, and so waits in the server's queue like everybody
else: with eight processes at one ledger none waited longer than 0.3 s.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

import psycopg

from guards.canonical import is_plain
from guards.delivery import row as chain
from guards.delivery import transition
from guards.delivery.entry import Entry, Event, IllegalEntry, Reservation, advance
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head, NotARow, Row, parse_row
from guards.delivery.slot import Slot
from guards.delivery.transition import Ruling
from guards.gate import Authorization
from resources.errors import Unreachable
from resources.state import ledger_sql as sql
from resources.state.columns import escape, unescape
from resources.state.engine import in_doubt, is_refused_commit, unreachable
from resources.state.leases import lost
from resources.state.ledger_rows import ALTERED, Held, believe, projected
from resources.state.sessions import Session, Sessions

_decode: Final = json.JSONDecoder().decode
QUICK_TRIES: Final = 2
TRIES: Final = 8


class OnlyIf(StrEnum):
    """What must still be so when the row is written."""

    ANYWAY = "anyway"
    WRITER_LIVES = "writer lives"
    HOLDER_IS_GONE = "holder is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`rule` gets the slot's latest attempt and the database's clock. `what` names the thing written, for errors."""

    what: str
    rule: Callable[[Reservation | None, datetime], Ruling]
    slot: Slot | None = None
    reservation: str | None = None
    any_attempt: bool = False
    lease_seconds: int = 0
    """Of a grant under a lease of its own."""
    authorization: Authorization | None = None
    """Of a grant under a writer's lease, which has to live."""
    only_if_gone: bool = False


class _Seen(NamedTuple):
    """The columns of `sql.LOOK`."""

    sequence: int
    digest: str
    server: str
    here: str
    now: datetime
    writer_lives: bool
    asked_customer: str | None
    asked_period: str | None
    asked_kind: str | None
    asked_attempt: int | None
    claimed: str | None
    attempt: int | None
    fence: int
    holder: str
    lease_scope: str | None
    lease_fence: int | None
    ends_at: datetime | None
    state: str | None
    row_sequence: int
    body: str
    since: datetime
    row_digest: str | None
    row: str
    newest: int
    is_more: bool


class _Lost(Exception):
    """Somebody appended first, or what must still be so is not: nothing was written."""


@dataclass(frozen=True, slots=True)
class _Step:
    row: Row
    after: Reservation


class Calls:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._may_ask: bool | None = None

    def make(self, call: Call) -> Reservation | LedgerRefused:
        refused_by_table = False
        for number in range(TRIES):
            try:
                return self._once(call, locked=number >= QUICK_TRIES)
            except _Lost as lost_to:
                refused_by_table = bool(lost_to.args)
        if refused_by_table:
            return ALTERED
        raise Unreachable(f"{call.what} was not recorded: others kept writing first {TRIES} times; try again")

    def _once(self, call: Call, *, locked: bool) -> Reservation | LedgerRefused:
        with self._sessions.one() as session:
            seen = self.look(session, call, locked=locked)
            if seen is not None:
                return self.answer(session, call, seen, locked=locked)
        with self._sessions.one(fresh=True) as session:  # nothing was asked for yet but a look: it is made once more
            seen = self.look(session, call, locked=locked)
            if seen is None:
                raise Unreachable(f"the state database cut the connection twice: {call.what} was not recorded")
            return self.answer(session, call, seen, locked=locked)

    def look(self, session: Session, call: Call, *, locked: bool) -> tuple[Any, ...] | None:
        """None when the connection turns out to be broken; () when there is no head."""
        slot, writer = call.slot, call.authorization
        try:
            if self._may_ask is None:
                self._may_ask = bool(_only(session, sql.MAY_ASK)[0])
            if locked:
                session.execute("BEGIN")
                session.execute(sql.LOCK_HEAD)
            asked = {
                "reservation": call.reservation,
                "customer": slot.customer if slot else None,
                "period": slot.period if slot else None,
                "kind": slot.kind if slot else None,
                "scope": writer.scope if writer else None,
                "writer": escape(writer.holder) if writer else None,
                "scope_fence": writer.fence if writer else None,
            }
            return _only(session, sql.LOOK if self._may_ask else sql.LOOK_UNNAMED, asked)
        except psycopg.Error as error:
            if _is_cut(session, error):
                return None
            raise unreachable(error) from None

    def answer(self, session: Session, call: Call, row: tuple[Any, ...], *, locked: bool) -> Reservation | LedgerRefused:
        try:
            if not row:
                return ALTERED
            seen = _Seen(*row)
            if call.authorization is not None and not seen.writer_lives:
                raise lost(call.authorization.scope, call.authorization.fence)
            current = _current(call, seen)
            if isinstance(current, LedgerRefused):
                return current
            outdated = None
            if current is not None and call.reservation is not None and not call.any_attempt:
                outdated = transition.not_latest(current, call.reservation)
            ruling = outdated or call.rule(current, seen.now)
            steps = _steps(current, ruling, seen)
            if isinstance(steps, LedgerRefused):
                return steps
            after = self._write(session, call, seen, steps, locked=locked) if steps else current
            if ruling.refused is not None:
                return ruling.refused
            assert after is not None  # without entries and without a refusal there was a reservation
            return after
        finally:
            if session.info.transaction_status in _OPEN and not session.closed:
                session.execute("ROLLBACK")

    def _write(self, session: Session, call: Call, seen: _Seen, steps: tuple[_Step, ...], *, locked: bool) -> Reservation:
        in_transaction = locked or len(steps) > 1
        ends_at: datetime | None = None
        try:
            if in_transaction and not locked:
                session.execute("BEGIN")
            for step in steps:
                written = _only(session, _statement(step), _parameters(step, call, seen))
                if not written:
                    raise _Lost
                (ends_at,) = written
        except psycopg.Error as error:
            if _is_cut(session, error) and not in_transaction:
                raise in_doubt(call.what, error) from None
            if _is_contradicted(error):
                raise _Lost(error.sqlstate) from None
            raise unreachable(error) from None
        if in_transaction:
            try:
                session.execute("COMMIT")
            except psycopg.Error as error:
                raise (unreachable(error) if is_refused_commit(error) else in_doubt(call.what, error)) from None
        after = steps[-1].after
        if after.state is not ReservationState.SENDING:
            return replace(after, is_live=False, lease_expires_at=None)
        return replace(after, is_live=True, lease_expires_at=ends_at) if _grants(steps[-1]) else after


_OPEN: Final = frozenset({psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR})


def _only(session: Session, statement: str, parameters: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """The first row, () when there is none."""
    return session.execute(statement, parameters, prepare=True).fetchone() or ()


def _is_cut(session: Session, error: psycopg.Error) -> bool:
    """The server ended the session, or the network did: what was asked for last may or may not have been done."""
    return session.closed or error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate[:4] in ("57P0", "25P0")


def _is_contradicted(error: psycopg.Error) -> bool:
    """The tables refused it, or two waited for each other: undone as a whole, and worth another look."""
    return (error.sqlstate or "")[:2] in ("23", "40")


def _current(call: Call, seen: _Seen) -> Reservation | LedgerRefused | None:
    """The latest attempt at the slot, None when it is free."""
    if seen.claimed is None:
        # A claim that is gone while the chain or the answers still hold its attempts is not a free slot.
        if seen.is_more or (call.slot is None and seen.asked_customer is not None):
            return ALTERED
        return None
    if seen.state is None or seen.row_digest is None or seen.newest != seen.row_sequence or seen.is_more:
        return ALTERED
    try:
        slot = Slot(str(seen.asked_customer), str(seen.asked_period), str(seen.asked_kind))
        body = _decode(seen.body)
    except ValueError:
        return ALTERED
    # Asked by a reservation's number, the slot is what its answer says: altered by hand, that could be another's.
    if call.reservation is not None and slot.reservation_id(seen.asked_attempt or 0) != call.reservation:
        return ALTERED
    current = believe(
        Held(slot, seen.attempt or 0, seen.state, body, seen.since),
        row=seen.row,
        digest=seen.row_digest,
        fence=seen.fence,
        holder=unescape(seen.holder),
        ends_at=seen.ends_at,
        is_live=seen.ends_at is not None and seen.ends_at > seen.now,
    )
    if isinstance(current, Reservation) and current.reservation_id != seen.claimed:
        return ALTERED
    return current


def _steps(current: Reservation | None, ruling: Ruling, seen: _Seen) -> tuple[_Step, ...] | LedgerRefused:
    """Each row with the reservation as it leaves it: both as they will be read back, not as the caller's objects are."""
    if not ruling.entries:
        return ()
    if seen.server not in ("", seen.here):
        return LedgerRefused(
            LedgerCode.RECOVERY_REQUIRED,
            "the ledger was last proven on another server, or before a failover: `opsguard ledger verify`, then go on",
        )
    try:
        rows = chain.append(Head(seen.sequence, seen.digest), ruling.entries, at=seen.now.astimezone(UTC))
        rows = tuple(row if _is_as_read(row.entry) else parse_row(row.bytes) for row in rows)
    except NotARow as problem:
        return LedgerRefused(LedgerCode.INVALID, f"{problem}: nothing was written")
    steps, after = [], current
    for row in rows:
        following = advance(after, row.entry, at=row.at)
        if isinstance(following, IllegalEntry):
            raise AssertionError(f"a transition made an entry that cannot follow: {following.why}")  # noqa: TRY004
        steps.append(_Step(row, following))
        after = following
    return tuple(steps)


def _is_as_read(entry: Entry) -> bool:
    """What will be read back equals it: no tuple that becomes a list, no object that only looks like a mapping."""
    pins = entry.pins
    held = (entry.receipt, entry.evidence, entry.approval, *(() if pins is None else (pins.facts, pins.authority)))
    return all(is_plain(value) for value in held)


def _statement(step: _Step) -> str:
    if step.row.entry.event is not Event.OPENED:
        return sql.MOVE
    return sql.OPEN if step.after.attempt == 1 else sql.REOPEN


def _grants(step: _Step) -> bool:
    return step.row.entry.event is Event.MOVED and step.after.state is ReservationState.SENDING


def _parameters(step: _Step, call: Call, seen: _Seen) -> dict[str, Any]:
    row, after, writer = step.row, step.after, call.authorization
    lease, scope, scope_fence, only_if = "none", None, None, OnlyIf.ANYWAY
    if row.entry.event is Event.LATE_EVIDENCE:
        lease = "kept"
    elif _grants(step) and writer is not None:
        lease, scope, scope_fence, only_if = "scope", writer.scope, writer.fence, OnlyIf.WRITER_LIVES
    elif _grants(step):
        lease = "own"
    elif call.only_if_gone:
        scope, scope_fence, only_if = seen.lease_scope, seen.lease_fence, OnlyIf.HOLDER_IS_GONE
    return {
        "sequence": row.sequence,
        "previous": row.previous,
        "digest": row.digest,
        "row": row.bytes.decode("ascii"),
        "server": seen.here,
        "reservation": after.reservation_id,
        "customer": after.slot.customer,
        "period": after.slot.period,
        "kind": after.slot.kind,
        "attempt": after.attempt,
        "state": after.state.value,
        "body": projected(after),
        "since": after.changed_at,
        "fence": after.fence,
        "holder": escape(after.holder),
        "only_if": only_if.value,
        "lease": lease,
        "lease_seconds": call.lease_seconds,
        "scope": scope,
        "scope_fence": scope_fence,
    }

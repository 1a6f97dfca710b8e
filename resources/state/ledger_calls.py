"""One transition: look, ask the rule, append what it says, if nobody appended meanwhile; else look again.

Two statements and no lock held in between; one, when what this object wrote last is still the ledger's end. Who has lost twice takes
the head first, and so waits in the server's queue like everybody else.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import psycopg

from guards.delivery import transition
from guards.delivery.entry import Reservation
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from resources.errors import Unreachable
from resources.state import ledger_sql as sql
from resources.state.columns import escape
from resources.state.engine import in_doubt, is_refused_commit, unreachable
from resources.state.leases import lost
from resources.state.ledger_known import Known
from resources.state.ledger_rows import ALTERED
from resources.state.ledger_seen import Seen, current_attempt
from resources.state.ledger_steps import Call, Place, Step, parameters, steps_of
from resources.state.sessions import Session, Sessions, ask

QUICK_TRIES: Final = 2
TRIES: Final = 8


class _Lost(Exception):
    """Somebody appended first, or what must still be so is not: nothing was written."""


class Calls:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._may_ask: bool | None = None
        self._known: Known | None = None

    def make(self, call: Call) -> Reservation | LedgerRefused:
        known = self._known
        step = known.next_step(call) if known is not None else None
        if step is not None and (after := self._write_unseen(call, *step)) is not None:
            return after
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
                self._may_ask = bool(ask(session, sql.MAY_ASK, {})[0])
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
            return ask(session, sql.LOOK if self._may_ask else sql.LOOK_UNNAMED, asked)
        except psycopg.Error as error:
            if _is_cut(session, error):
                return None
            raise unreachable(error) from None

    def answer(self, session: Session, call: Call, row: tuple[Any, ...], *, locked: bool) -> Reservation | LedgerRefused:
        try:
            if not row:
                return ALTERED
            seen = Seen(*row)
            place = Place(
                Head(seen.sequence, seen.digest),
                seen.here,
                seen.now,
                seen.server,
                seen.lease_scope,
                seen.lease_fence,
                seen.accepted_at,
            )
            if self._known is not None:
                self._known = self._known.looked(place.head)
            if call.authorization is not None and not seen.writer_lives:
                raise lost(call.authorization.scope, call.authorization.fence)
            current = current_attempt(seen, slot=call.slot, reservation=call.reservation)
            if isinstance(current, LedgerRefused):
                return current
            outdated = None
            if current is not None and call.reservation is not None and not call.any_attempt:
                outdated = transition.not_latest(current, call.reservation)
            ruling = outdated or call.rule(current, place)
            steps = steps_of(current, ruling, place)
            if isinstance(steps, LedgerRefused):
                return steps
            after = self._write(session, call, place, steps, locked=locked) if steps else current
            if ruling.refused is not None:
                return ruling.refused
            assert after is not None  # without entries and without a refusal there was a reservation
            return after
        finally:
            if session.info.transaction_status in _OPEN and not session.closed:
                with suppress(psycopg.Error):
                    session.execute("ROLLBACK")

    def _write(self, session: Session, call: Call, place: Place, steps: tuple[Step, ...], *, locked: bool) -> Reservation:
        in_transaction = locked or len(steps) > 1
        written: tuple[Any, ...] = ()
        given: dict[str, Any] = {}
        try:
            if in_transaction and not locked:
                session.execute("BEGIN")
            for step in steps:
                given = parameters(step, call, place)
                written = ask(session, step.statement, given)
                if not written:
                    raise _Lost
        except psycopg.Error as error:
            raise _meaning(session, call, error, in_transaction=in_transaction) from None
        if in_transaction:
            try:
                session.execute("COMMIT")
            except psycopg.Error as error:
                raise (unreachable(error) if is_refused_commit(error) else in_doubt(call.what, error)) from None
        return self._remember(steps[-1], given, place, *written)

    def _write_unseen(self, call: Call, step: Step, place: Place, known: Mapping[str, Any]) -> Reservation | None:
        """None when it was not as we knew it: nothing was written."""
        statement = sql.OPEN_UNSEEN if step.opens else sql.MOVE_UNSEEN
        if not self._may_ask:
            statement = sql.OPEN_UNSEEN_UNNAMED if step.opens else sql.MOVE_UNSEEN_UNNAMED
        given = parameters(step, call, place)
        with self._sessions.one() as session:
            try:
                written = ask(session, statement, {**given, **known, "at": step.row.at, "doubt_before": place.doubt_before})
            except psycopg.Error as error:
                meaning = _meaning(session, call, error, in_transaction=False)
                if not isinstance(meaning, _Lost):
                    raise meaning from None
                written = ()
        if not written:
            self._known = self._known and replace(self._known, is_alone=False)  # until a look finds the head where we left it
            return None
        return self._remember(step, given, place, *written)

    def _remember(
        self, step: Step, given: Mapping[str, Any], place: Place, ends_at: datetime | None, now: datetime
    ) -> Reservation:
        known = self._known or Known(place.head, place.here, now, 0.0)
        self._known = known.wrote(step, given, place, now=now)
        after = step.after
        if after.state is not ReservationState.SENDING:
            had_lease = after.is_live or after.lease_expires_at is not None
            return replace(after, is_live=False, lease_expires_at=None) if had_lease else after
        return replace(after, is_live=True, lease_expires_at=ends_at) if step.grants else after


_OPEN: Final = frozenset({psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR})


def _meaning(session: Session, call: Call, error: psycopg.Error, *, in_transaction: bool) -> Exception:
    """Of an error from a statement that writes. Before COMMIT was asked for, nothing is kept."""
    if _is_cut(session, error) and not in_transaction:
        return in_doubt(call.what, error)
    if (error.sqlstate or "")[:2] in _UNDONE:
        return _Lost(error.sqlstate)
    return unreachable(error)


_UNDONE: Final = ("23", "40")
"""The tables refused it, or two waited for each other: undone as a whole, and worth another look."""


def _is_cut(session: Session, error: psycopg.Error) -> bool:
    """The server ended the session, or the network did: what was asked for last may or may not have been done."""
    return session.closed or error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate[:4] in ("57P0", "25P0")

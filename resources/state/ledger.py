"""The reservation ledger over PostgreSQL, for many hosts: `resources.ledger.interface.Ledger` says what each call does.

The rules are pure, in `guards.delivery.transition`; `ledger_calls` makes one transition, `ledger_look` reads, `ledger_keep` moves whole
ledgers. A grant's lease is a time by the database clock, or the writer's lease on its scope.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Self

import psycopg
from sqlalchemy import Connection, Engine

from guards.canonical import Json
from guards.delivery import transition
from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval, Outcome, Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerRefused
from guards.delivery.row import Head
from guards.delivery.slot import Grant, Slot
from guards.delivery.transition import Ruling
from guards.gate import Authorization
from resources.errors import Unreachable
from resources.ledger.interface import LEASE_SECONDS, MOST_PER_PAGE, Health, Repairs, Snapshot, StoredRow, Verification
from resources.state import clock, ledger_keep, ledger_look
from resources.state import ledger_sql as sql
from resources.state.columns import escape
from resources.state.engine import in_doubt, reading, unreachable, writing
from resources.state.errors import LeaseLost
from resources.state.ledger_calls import Calls
from resources.state.ledger_steps import Call, Place
from resources.state.ledger_verify import verify
from resources.state.sessions import Sessions


class PostgresLedger:
    """Errors: `Unreachable` (nothing was recorded), `OutcomeUnknown` (look before you go on)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sessions = Sessions(engine)
        self._calls = Calls(self._sessions)
        self._granted: set[Grant] = set()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return reading(self._engine, clock.now)

    def reserve(
        self,
        slot: Slot,
        pins: Pins,
        *,
        key: str,
        not_before: datetime | None = None,
        not_after: datetime | None = None,
        approval: Approval | None = None,
    ) -> Reservation | LedgerRefused:
        def rule(current: Reservation | None, place: Place) -> Ruling:
            return transition.reserve(
                current,
                slot=slot,
                pins=pins,
                key=key,
                now=place.now,
                not_before=not_before,
                not_after=not_after,
                approval=approval,
                doubt_before=place.doubt_before,
            )

        by_clock = not_before is not None or not_after is not None
        return self._calls.make(Call(what="the reservation", slot=slot, rule=rule, by_clock=by_clock))

    def grant(
        self,
        reservation_id: str,
        *,
        holder: str = "",
        ttl_seconds: int = LEASE_SECONDS,
        authorization: Authorization | None = None,
        authority: Mapping[str, str] | None = None,
        not_after: datetime | None = None,
    ) -> Grant | LedgerRefused:
        """With an `authorization` for as long as its lease on the scope lives (`LeaseLost` when that has ended); else `ttl_seconds`."""
        by = authorization.holder if authorization is not None else holder
        after = self._calls.make(
            Call(
                what="the grant",
                reservation=reservation_id,
                rule=lambda current, place: transition.grant(
                    current,
                    holder=by,
                    authority=authority,
                    now=place.now,
                    not_after=not_after,
                    doubt_before=place.doubt_before,
                ),
                by_clock=not_after is not None,
                lease_seconds=ttl_seconds,
                authorization=authorization,
            )
        )
        if isinstance(after, LedgerRefused):
            return after
        grant = Grant(after.slot, after.reservation_id, after.attempt, after.fence, after.holder, after.lease_expires_at)
        if authorization is None:
            with self._lock:
                self._granted.add(grant)
        return grant

    def renew(self, grant: Grant, *, ttl_seconds: int = LEASE_SECONDS) -> None:
        """`LeaseLost` when the grant's own lease has ended. One under a writer's lease lives by that one's heartbeat."""
        with self._sessions.one() as session:
            try:
                renewed = session.execute(sql.RENEW, {**_named(grant), "seconds": ttl_seconds}).fetchone()
            except psycopg.Error as error:
                raise (in_doubt("the heartbeat", error) if session.closed else unreachable(error)) from None
        if renewed is None:
            raise LeaseLost(f"the lease on sending {grant.slot.key} is over: observe before anything else is sent")

    def settle(self, grant: Grant, outcome: Outcome) -> Reservation | LedgerRefused:
        answer = self._on(
            grant.reservation_id,
            "the outcome",
            lambda current: transition.settle(current, grant=grant, outcome=outcome),
            any_attempt=True,
        )
        with self._lock:
            self._granted.discard(grant)
        return answer

    def expire(self, reservation_id: str) -> Reservation | LedgerRefused:
        """`sending` to `unknown`, once the lease has ended by the database clock (or the scope has another writer)."""
        return self._on(reservation_id, "the expiry", transition.expire, only_if_gone=True)

    def abandon(self, reservation_id: str, *, reason: Reason, note: str = "") -> Reservation | LedgerRefused:
        def rule(current: Reservation | None, place: Place) -> Ruling:
            return transition.abandon(current, reason=reason, note=note, doubt_before=place.doubt_before)

        return self._calls.make(Call(what="the withdrawal", reservation=reservation_id, rule=rule))

    def resolve(
        self, reservation_id: str, *, was_sent: bool, evidence: Mapping[str, Json], approval: Approval
    ) -> Reservation | LedgerRefused:
        return self._on(
            reservation_id,
            "the resolution",
            lambda current: transition.resolve(current, was_sent=was_sent, evidence=evidence, approval=approval),
        )

    def replace(self, slot: Slot, *, approval: Approval, key: str, pins: Pins | None = None) -> Reservation | LedgerRefused:
        def rule(current: Reservation | None, place: Place) -> Ruling:
            return transition.replace(current, approval=approval, key=key, pins=pins, doubt_before=place.doubt_before)

        return self._calls.make(Call(what="the replacement", slot=slot, rule=rule))

    def audit(self, reservation_id: str) -> Reservation | LedgerRefused:
        return self._on(reservation_id, "the audit", transition.audit)

    def reconcile(self, reservation_id: str, *, receipt: Mapping[str, Json]) -> Reservation | LedgerRefused:
        return self._on(
            reservation_id,
            "the reconciliation",
            lambda current: transition.reconcile(current, reservation_id=reservation_id, receipt=receipt),
            any_attempt=True,
        )

    # Looking

    def get(self, reservation_id: str) -> Reservation | None:
        return reading(self._engine, lambda c: ledger_look.get(c, reservation_id))

    def of(self, slot: Slot) -> tuple[Reservation, ...]:
        return reading(self._engine, lambda c: ledger_look.of(c, slot))

    def history(self, customer: str, period_prefix: str = "") -> tuple[Reservation, ...]:
        return reading(self._engine, lambda c: ledger_look.history(c, customer, period_prefix))

    def history_of(self, customer: str, period_prefixes: Collection[str]) -> tuple[Reservation, ...]:
        """20,000 of them in one look."""
        return reading(self._engine, lambda c: ledger_look.history_of(c, customer, period_prefixes))

    def latest(self, slots: Collection[Slot]) -> dict[Slot, Reservation | LedgerRefused]:
        return reading(self._engine, lambda c: ledger_look.latest(c, slots))

    def unfinished(self) -> dict[Slot, Reservation | LedgerRefused]:
        return reading(self._engine, ledger_look.unfinished)

    def snapshot(self, *, customer: str | None = None, after: Slot | None = None, limit: int = MOST_PER_PAGE) -> Snapshot:
        return reading(self._engine, lambda c: ledger_look.snapshot(c, customer=customer, after=after, limit=limit))

    def head(self) -> Head:
        return reading(self._engine, ledger_look.head)

    def extends(self, published: Head) -> bool:
        return reading(self._engine, lambda c: ledger_look.extends(c, published))

    def counts(self) -> dict[str, int]:
        return reading(self._engine, ledger_look.counts)

    def health(self) -> Health:
        return reading(self._engine, ledger_look.health)

    def verify(self) -> Verification:
        return reading(self._engine, verify)

    # Keeping

    def repair(self, *, accept_copy: bool = False) -> Repairs:
        """Answers and claims are made anew from rows that verify; no row is changed, and no claim taken away. `accept_copy`: a person says
        that no other copy of this database is used. If no fault is left, what was open becomes `unknown`, and this server is accepted."""
        return writing(self._engine, "the repair", lambda connection: ledger_keep.repair(connection, accept_copy=accept_copy))

    def rows(self) -> Iterator[StoredRow]:
        return ledger_keep.rows(self._engine)

    def adopt(
        self, rows: Iterable[StoredRow], *, doubt_before: datetime | None = None, accept_copy: bool = False
    ) -> Verification | LedgerRefused:
        """Attempts that were `sending` arrive without a lease: whoever held it is not here."""

        def take_over(connection: Connection) -> Verification:
            return ledger_keep.adopt(connection, rows, doubt_before=doubt_before, accept_copy=accept_copy)

        try:
            return writing(self._engine, "the take-over", take_over)
        except ledger_keep.NotTaken as refused:
            return LedgerRefused(*refused.args)

    def close(self) -> None:
        """Leases on a writer's scope are the writer's to release."""
        with self._lock:
            left, self._granted = self._granted, set()
        try:
            if left:
                with self._sessions.one() as session:
                    for grant in left:
                        session.execute(sql.GIVE_UP, _named(grant))
        except (psycopg.Error, Unreachable):
            pass  # they end by themselves
        finally:
            self._sessions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on(
        self,
        reservation_id: str,
        what: str,
        rule: Callable[[Reservation | None], Ruling],
        *,
        any_attempt: bool = False,
        only_if_gone: bool = False,
    ) -> Reservation | LedgerRefused:
        return self._calls.make(
            Call(
                what=what,
                reservation=reservation_id,
                rule=lambda current, _: rule(current),
                any_attempt=any_attempt,
                only_if_gone=only_if_gone,
            )
        )


def _named(grant: Grant) -> dict[str, object]:
    slot = grant.slot
    return {
        "customer": slot.customer,
        "period": slot.period,
        "kind": slot.kind,
        "fence": grant.fence,
        "holder": escape(grant.holder),
    }

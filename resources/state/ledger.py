"""The reservation ledger over PostgreSQL: every outward effect is reserved here before it happens, and at most once.

    held = ledger.reserve(slot, pins, key=run_id)                   # the claim: durable, or what is stored already
    grant = ledger.grant(held.reservation_id, authorization=...)    # prepared -> sending: the right to one call
    ... the one call of the provider ...
    ledger.settle(grant, delivered({...}))                          # or known_failure(...), unknown(...), abandoned(...)

The rules are pure, in `guards.delivery.transition`; each call here is one transaction: lock the slot, ask the rule, append what it
says. An `OutcomeUnknown` from `grant` means: do not call the provider.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Row, Text, cast, func, literal, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY

from guards.canonical import Json
from guards.delivery import transition
from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval, Outcome, Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.row import Head
from guards.delivery.slot import Grant, Slot
from guards.delivery.transition import Ruling
from guards.gate import Authorization
from resources.state.engine import reading, writing
from resources.state.errors import Altered, LeaseLost
from resources.state.leases import hold_fence
from resources.state.ledger_rows import (
    Lease,
    append,
    as_reservation,
    believe,
    claim,
    is_live,
    latest_attempts,
    lease_ends_at,
    lock_slot,
    of_slot,
    read_head,
)
from resources.state.ledger_verify import Verification, verify
from resources.state.tables import ledger_head, ledger_reservations, ledger_slots

LEASE_SECONDS: Final = 900
"""A grant without a writer's lease lives this long; `renew` prolongs it."""
MOST_PER_PAGE: Final = 500

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One page of latest attempts in slot order. `revision` changes with every row; `following` None on the last page."""

    revision: Head
    reservations: tuple[Reservation, ...]
    following: Slot | None


class _NotKept(Exception):
    """Rolls a transaction back that ends in a refusal."""

    def __init__(self, refused: LedgerRefused) -> None:
        super().__init__(refused.message)
        self.refused = refused


class Ledger:
    """Refusals are `LedgerRefused`. Errors: `Unreachable` (nothing was recorded), `OutcomeUnknown` (look before you go on)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

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
        """The slot's reservation: new and `prepared`, or the stored one, whatever its state, when the pins are equal."""

        def rule(current: Reservation | None, now: datetime) -> Ruling:
            return transition.reserve(
                current,
                slot=slot,
                pins=pins,
                key=key,
                now=now,
                not_before=not_before,
                not_after=not_after,
                approval=approval,
            )

        def work(connection: Connection) -> Reservation | LedgerRefused:
            current = lock_slot(connection, slot)
            if isinstance(current, LedgerRefused):
                return current
            if current is None:
                ruling = rule(None, connection.execute(select(func.clock_timestamp())).scalar_one())
                if ruling.refused is not None:
                    return ruling.refused
                if claim(connection, slot):
                    opened = append(connection, None, ruling.entries)
                    if isinstance(opened, LedgerRefused):
                        raise _NotKept(opened)  # the claim goes with the transaction
                    return opened
                current = lock_slot(connection, slot)
            if current is None or isinstance(current, LedgerRefused):
                return current or _gone(slot)
            return _carry_out(connection, current, rule(current, current.changed_at))

        try:
            return writing(self._engine, "the reservation", work)
        except _NotKept as undone:
            return undone.refused

    def grant(
        self,
        reservation_id: str,
        *,
        holder: str = "",
        ttl_seconds: int = LEASE_SECONDS,
        authorization: Authorization | None = None,
        authority: Mapping[str, str] | None = None,
    ) -> Grant | LedgerRefused:
        """The right to one call. With an `authorization` its holder holds it, for as long as its lease on the scope lives
        (`LeaseLost` when that has ended); else `holder`, for `ttl_seconds`."""
        by = authorization.holder if authorization is not None else holder
        lease = Lease(ttl_seconds, authorization.scope, authorization.fence) if authorization is not None else Lease(ttl_seconds)

        def work(connection: Connection) -> Grant | LedgerRefused:
            if authorization is not None:
                hold_fence(connection, authorization)
            current = _lock(connection, reservation_id)
            if isinstance(current, LedgerRefused):
                return current
            ruling = transition.not_latest(current, reservation_id) or transition.grant(current, holder=by, authority=authority)
            after = _carry_out(connection, current, ruling, lease=lease)
            if isinstance(after, LedgerRefused):
                return after
            expires_at: datetime = connection.execute(select(lease_ends_at()).where(of_slot(after.slot))).scalar_one()
            return Grant(
                slot=after.slot,
                reservation_id=after.reservation_id,
                attempt=after.attempt,
                fence=after.fence,
                holder=after.holder,
                lease_expires_at=expires_at,
            )

        return writing(self._engine, "the grant", work)

    def renew(self, grant: Grant, *, ttl_seconds: int = LEASE_SECONDS) -> None:
        """`LeaseLost` when the grant's own lease has ended. One under a writer's lease lives by that one's heartbeat."""

        def work(connection: Connection) -> None:
            renewed = connection.execute(
                update(ledger_slots)
                .where(of_slot(grant.slot), ledger_slots.c.fence == grant.fence, ledger_slots.c.holder == grant.holder, is_live())
                .values(lease_expires_at=func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, ttl_seconds))
                .returning(ledger_slots.c.fence)
            ).one_or_none()
            if renewed is None:
                raise LeaseLost(f"the lease on sending {grant.slot.key} is over: observe before anything else is sent")

        writing(self._engine, "the heartbeat", work)

    def settle(self, grant: Grant, outcome: Outcome) -> Reservation | LedgerRefused:
        """What became of the call. The same again is fine; from an outdated grant it is kept as late evidence and refused."""
        return self._on(
            grant.reservation_id,
            "the outcome",
            lambda current: transition.settle(current, grant=grant, outcome=outcome),
            any_attempt=True,
        )

    def expire(self, reservation_id: str) -> Reservation | LedgerRefused:
        """`sending` to `unknown`, once the lease has ended by the database clock (or the scope has another writer)."""
        return self._on(reservation_id, "the expiry", transition.expire)

    def abandon(self, reservation_id: str, *, reason: Reason, note: str = "") -> Reservation | LedgerRefused:
        return self._on(reservation_id, "the withdrawal", lambda current: transition.abandon(current, reason=reason, note=note))

    def resolve(
        self, reservation_id: str, *, was_sent: bool, evidence: Mapping[str, Json], approval: Approval
    ) -> Reservation | LedgerRefused:
        return self._on(
            reservation_id,
            "the resolution",
            lambda current: transition.resolve(current, was_sent=was_sent, evidence=evidence, approval=approval),
        )

    def replace(self, slot: Slot, *, approval: Approval, key: str, pins: Pins | None = None) -> Reservation | LedgerRefused:
        """Attempt n+1, `prepared`."""

        def work(connection: Connection) -> Reservation | LedgerRefused:
            current = lock_slot(connection, slot)
            if isinstance(current, LedgerRefused):
                return current
            ruling = transition.replace(current, approval=approval, key=key, pins=pins)
            return _gone(slot) if current is None else _carry_out(connection, current, ruling)

        return writing(self._engine, "the replacement", work)

    def audit(self, reservation_id: str) -> Reservation | LedgerRefused:
        return self._on(reservation_id, "the audit", transition.audit)

    def reconcile(self, reservation_id: str, *, receipt: Mapping[str, Json]) -> Reservation | LedgerRefused:
        return self._on(reservation_id, "the reconciliation", lambda current: transition.reconcile(current, receipt=receipt))

    # Looking

    def get(self, reservation_id: str) -> Reservation | None:
        return next(iter(self._attempts(ledger_reservations.c.reservation == reservation_id)), None)

    def of(self, slot: Slot) -> tuple[Reservation, ...]:
        """Every attempt at one slot, oldest first."""
        return self._attempts(
            ledger_reservations.c.customer == slot.customer,
            ledger_reservations.c.period == slot.period,
            ledger_reservations.c.kind == slot.kind,
        )

    def history(self, customer: str, period_prefix: str = "") -> tuple[Reservation, ...]:
        """Every attempt of one customer whose period begins so, oldest first."""
        return self._attempts(
            ledger_reservations.c.customer == customer,
            ledger_reservations.c.period.startswith(period_prefix, autoescape=True),
        )

    def history_of(self, customer: str, period_prefixes: Collection[str]) -> tuple[Reservation, ...]:
        """The same for many prefixes at once, all of one length (20,000 of them in one look), oldest first."""
        lengths = {len(prefix) for prefix in period_prefixes}
        if not lengths:
            return ()
        if len(lengths) > 1:
            raise ValueError("prefixes of one length are asked for at once")
        wanted = select(func.unnest(cast(list(period_prefixes), ARRAY(Text))).label("prefix")).subquery()
        beginning = func.left(ledger_reservations.c.period, lengths.pop())
        return self._attempts(ledger_reservations.c.customer == customer, beginning.in_(select(wanted.c.prefix)))

    def snapshot(self, *, customer: str | None = None, after: Slot | None = None, limit: int = MOST_PER_PAGE) -> Snapshot:
        """At most 500 latest attempts that follow `after`. Raises `Altered` when one of them is not what its chain says."""
        size = max(1, min(limit, MOST_PER_PAGE))
        place = (ledger_slots.c.customer, ledger_slots.c.period, ledger_slots.c.kind)

        def work(connection: Connection) -> Snapshot:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            statement = latest_attempts().order_by(*place).limit(size + 1)
            if customer is not None:
                statement = statement.where(ledger_slots.c.customer == customer)
            if after is not None:
                statement = statement.where(
                    tuple_(*place) > tuple_(literal(after.customer), literal(after.period), literal(after.kind))
                )
            head = connection.execute(select(ledger_head.c.sequence, ledger_head.c.digest)).one()
            found = [_believed(stored) for stored in connection.execute(statement)]
            page = tuple(found[:size])
            return Snapshot(Head(head.sequence, head.digest), page, page[-1].slot if len(found) > size else None)

        return reading(self._engine, work)

    def head(self) -> Head:
        """Sequence and digest of the last row: publish it, to notice a copy that was cut back."""

        def work(connection: Connection) -> Head:
            row = connection.execute(select(ledger_head.c.sequence, ledger_head.c.digest)).one()
            return Head(row.sequence, row.digest)

        return reading(self._engine, work)

    def counts(self) -> dict[str, int]:
        """State to number of slots whose latest attempt is in it."""
        statement = (
            select(ledger_reservations.c.state, func.count().label("number"))
            .join_from(ledger_slots, ledger_reservations, ledger_reservations.c.reservation == ledger_slots.c.reservation)
            .group_by(ledger_reservations.c.state)
        )
        return reading(self._engine, lambda c: {row.state: row.number for row in c.execute(statement)})

    def verify(self) -> Verification:
        """Everything, from the first row. Without a fault, and on another server than before, that server is accepted from now on."""
        found = reading(self._engine, verify)
        if not found.faults:
            writing(self._engine, "the verification", lambda connection: accept_server(connection, found.head))
        return found

    def _attempts(self, *where: ColumnElement[bool]) -> tuple[Reservation, ...]:
        def work(connection: Connection) -> tuple[Reservation, ...]:
            held = (
                select(
                    lease_ends_at().label("lease_expires_at"),
                    is_live().label("is_live"),
                    ledger_slots.c.attempt.label("latest"),
                    ledger_reservations,
                )
                .join_from(ledger_reservations, ledger_slots, _SAME_SLOT)
                .where(*where)
                .order_by(ledger_reservations.c.row_sequence)
            )
            return tuple(_with_lease(stored) for stored in connection.execute(held))

        return reading(self._engine, work)

    def _on(
        self, reservation_id: str, what: str, rule: Callable[[Reservation], Ruling], *, any_attempt: bool = False
    ) -> Reservation | LedgerRefused:
        def work(connection: Connection) -> Reservation | LedgerRefused:
            current = _lock(connection, reservation_id)
            if isinstance(current, LedgerRefused):
                return current
            outdated = None if any_attempt else transition.not_latest(current, reservation_id)
            return _carry_out(connection, current, outdated or rule(current))

        return writing(self._engine, what, work)


_SAME_SLOT: Final = (
    (ledger_slots.c.customer == ledger_reservations.c.customer)
    & (ledger_slots.c.period == ledger_reservations.c.period)
    & (ledger_slots.c.kind == ledger_reservations.c.kind)
)


def _lock(connection: Connection, reservation_id: str) -> Reservation | LedgerRefused:
    """The latest attempt at the slot that this reservation is for."""
    where = select(ledger_reservations.c.customer, ledger_reservations.c.period, ledger_reservations.c.kind).where(
        ledger_reservations.c.reservation == reservation_id
    )
    found = connection.execute(where).one_or_none()
    if found is None:
        return LedgerRefused(LedgerCode.NOT_FOUND, "the ledger holds no such reservation: `opsguard ledger status` lists them")
    slot = Slot(found.customer, found.period, found.kind)
    return lock_slot(connection, slot) or _gone(slot)


def _gone(slot: Slot) -> LedgerRefused:
    return LedgerRefused(LedgerCode.NOT_FOUND, f"nothing is reserved for {slot.key}")


def _carry_out(
    connection: Connection, current: Reservation, ruling: Ruling, *, lease: Lease | None = None
) -> Reservation | LedgerRefused:
    """A refusal that leaves a trace is committed with it."""
    after: Reservation | LedgerRefused = current
    if ruling.entries:
        after = append(connection, current, ruling.entries, lease=lease)
    return ruling.refused or after


def accept_server(connection: Connection, proven: Head) -> None:
    """After a verification without faults: this server holds the chain that was proven, if nothing was appended meanwhile."""
    head = read_head(connection)
    if Head(head.sequence, head.digest) == proven and head.server != head.here:
        connection.execute(update(ledger_head).values(server=head.here))


def _believed(stored: Row[Any]) -> Reservation:
    reservation = believe(stored)
    if isinstance(reservation, LedgerRefused):
        raise Altered(reservation.message)
    return reservation


def _with_lease(stored: Row[Any]) -> Reservation:
    """An earlier attempt has no lease: the slot's is that of the latest."""
    reservation = as_reservation(stored)
    if stored.attempt != stored.latest:
        return reservation
    return dataclasses.replace(reservation, is_live=bool(stored.is_live), lease_expires_at=stored.lease_expires_at)

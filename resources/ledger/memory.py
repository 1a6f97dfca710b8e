"""The ledger as a model: no disk and no server, the same rules, rows and digests. What the contract suite compares the stores with.

kept = Kept()
one, two = MemoryLedger(kept, clock=clock), MemoryLedger(kept, clock=clock)     # two processes' views of one ledger
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Self

from guards.canonical import Json
from guards.delivery import row as chain
from guards.delivery import transition
from guards.delivery.entry import IllegalEntry, Reservation, advance
from guards.delivery.outcome import Approval, Outcome, Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.replay import Fault, FaultKind, Replay
from guards.delivery.reservation import ReservationState
from guards.delivery.row import GENESIS, Head, NotARow
from guards.delivery.slot import Grant, Slot
from guards.delivery.transition import Ruling
from guards.gate import Authorization
from resources.ledger.interface import (
    HOLDS_OTHERS,
    LEASE_SECONDS,
    MOST_PER_PAGE,
    Health,
    Repair,
    Repairs,
    Snapshot,
    StoredRow,
    Verification,
    not_taken,
)
from resources.state.errors import LeaseLost


@dataclass(slots=True)
class Kept:
    """What survives a handle: the rows, what they amount to, and who holds which lease until when."""

    rows: list[StoredRow] = field(default_factory=list)
    attempts: dict[Slot, list[Reservation]] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    """By reservation."""
    leases: dict[Slot, tuple[object, datetime]] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)
    accepted_at: datetime | None = None
    """When a person last accepted that this is an older copy."""

    @property
    def head(self) -> Head:
        return Head(self.rows[-1].sequence, self.rows[-1].digest) if self.rows else Head()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryLedger:
    """Implements `resources.ledger.interface.Ledger`. Leases are times by `clock`; `close` ends those that this handle was granted."""

    def __init__(self, kept: Kept | None = None, *, clock: Callable[[], datetime] = _utc_now) -> None:
        self._kept = kept if kept is not None else Kept()
        self._clock = clock

    def now(self) -> datetime:
        return self._clock().astimezone(UTC)

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
        with self._kept.lock:
            current = self._latest(slot)
            ruling = transition.reserve(
                current,
                slot=slot,
                pins=pins,
                key=key,
                now=self.now(),
                not_before=not_before,
                not_after=not_after,
                approval=approval,
                doubt_before=self._kept.accepted_at,
            )
            return self._carry_out(current, ruling)

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
        by = authorization.holder if authorization is not None else holder
        with self._kept.lock:
            answer = self._on(
                reservation_id,
                lambda current: transition.grant(
                    current,
                    holder=by,
                    authority=authority,
                    now=self.now(),
                    not_after=not_after,
                    doubt_before=self._kept.accepted_at,
                ),
            )
            if isinstance(answer, LedgerRefused):
                return answer
            until = self.now() + timedelta(seconds=ttl_seconds)
            self._kept.leases[answer.slot] = (self, until)
            return Grant(answer.slot, answer.reservation_id, answer.attempt, answer.fence, answer.holder, until)

    def renew(self, grant: Grant, *, ttl_seconds: int = LEASE_SECONDS) -> None:
        with self._kept.lock:
            current = self._latest(grant.slot)
            if current is None or not current.is_live or (current.fence, current.holder) != (grant.fence, grant.holder):
                raise LeaseLost(f"the lease on sending {grant.slot.key} is over: observe before anything else is sent")
            self._kept.leases[grant.slot] = (self, self.now() + timedelta(seconds=ttl_seconds))

    def settle(self, grant: Grant, outcome: Outcome) -> Reservation | LedgerRefused:
        return self._on(
            grant.reservation_id,
            lambda current: transition.settle(current, grant=grant, outcome=outcome),
            any_attempt=True,
        )

    def expire(self, reservation_id: str) -> Reservation | LedgerRefused:
        return self._on(reservation_id, transition.expire)

    def abandon(self, reservation_id: str, *, reason: Reason, note: str = "") -> Reservation | LedgerRefused:
        return self._on(
            reservation_id,
            lambda current: transition.abandon(current, reason=reason, note=note, doubt_before=self._kept.accepted_at),
        )

    def resolve(
        self, reservation_id: str, *, was_sent: bool, evidence: Mapping[str, Json], approval: Approval
    ) -> Reservation | LedgerRefused:
        return self._on(
            reservation_id,
            lambda current: transition.resolve(current, was_sent=was_sent, evidence=evidence, approval=approval),
        )

    def replace(self, slot: Slot, *, approval: Approval, key: str, pins: Pins | None = None) -> Reservation | LedgerRefused:
        with self._kept.lock:
            current = self._latest(slot)
            ruling = transition.replace(current, approval=approval, key=key, pins=pins, doubt_before=self._kept.accepted_at)
            return self._carry_out(current, ruling)

    def audit(self, reservation_id: str) -> Reservation | LedgerRefused:
        return self._on(reservation_id, transition.audit)

    def reconcile(self, reservation_id: str, *, receipt: Mapping[str, Json]) -> Reservation | LedgerRefused:
        return self._on(
            reservation_id,
            lambda current: transition.reconcile(current, reservation_id=reservation_id, receipt=receipt),
            any_attempt=True,
        )

    # Looking

    def get(self, reservation_id: str) -> Reservation | None:
        slot = self._kept.slots.get(reservation_id)
        return next((each for each in self.of(slot) if each.reservation_id == reservation_id), None) if slot else None

    def of(self, slot: Slot) -> tuple[Reservation, ...]:
        with self._kept.lock:
            earlier = self._kept.attempts.get(slot, [])[:-1]
            latest = self._latest(slot)
            return (*earlier, latest) if latest is not None else ()

    def history(self, customer: str, period_prefix: str = "") -> tuple[Reservation, ...]:
        return self._opened_in_order(lambda slot: slot.customer == customer and slot.period.startswith(period_prefix))

    def history_of(self, customer: str, period_prefixes: Collection[str]) -> tuple[Reservation, ...]:
        lengths = {len(prefix) for prefix in period_prefixes}
        if len(lengths) > 1:
            raise ValueError("prefixes of one length are asked for at once")
        wanted = set(period_prefixes)
        return self._opened_in_order(
            lambda slot: slot.customer == customer and any(slot.period[:length] in wanted for length in lengths)
        )

    def latest(self, slots: Collection[Slot]) -> dict[Slot, Reservation | LedgerRefused]:
        with self._kept.lock:
            return {slot: held for slot in slots if (held := self._latest(slot)) is not None}

    def unfinished(self) -> dict[Slot, Reservation | LedgerRefused]:
        with self._kept.lock:
            found = {slot: self._latest(slot) for slot in sorted(self._kept.attempts)}
            return {slot: held for slot, held in found.items() if held is not None and held.state.is_unfinished}

    def snapshot(self, *, customer: str | None = None, after: Slot | None = None, limit: int = MOST_PER_PAGE) -> Snapshot:
        size = max(1, min(limit, MOST_PER_PAGE))
        with self._kept.lock:
            follow = sorted(
                slot for slot in self._kept.attempts if customer in (None, slot.customer) and (after is None or slot > after)
            )
            page = tuple(each for slot in follow[:size] if (each := self._latest(slot)) is not None)
            head = self._kept.head
            return Snapshot(f"{head.sequence}:{head.digest}", page, follow[size - 1] if len(follow) > size else None)

    def head(self) -> Head:
        return self._kept.head

    def extends(self, published: Head) -> bool:
        if published.sequence == 0:
            return published.digest == GENESIS
        rows = self._kept.rows
        return 0 < published.sequence <= len(rows) and rows[published.sequence - 1].digest == published.digest

    def counts(self) -> dict[str, int]:
        with self._kept.lock:
            return dict(Counter(attempts[-1].state.value for attempts in self._kept.attempts.values()))

    def health(self) -> Health:
        with self._kept.lock:
            latest = [each for slot in sorted(self._kept.attempts) if (each := self._latest(slot)) is not None]
            sending = [each for each in latest if each.state is ReservationState.SENDING]
            return Health(
                store="memory",
                head=self.head(),
                counts=self.counts(),
                oldest_sending_at=min((each.changed_at for each in sending), default=None),
                stale_sending=tuple(each.slot for each in sending if not each.is_live),
                doubt_before=self._kept.accepted_at,
            )

    def verify(self) -> Verification:
        with self._kept.lock:
            replay = Replay()
            replay.feed(self._kept.rows)
            replay.finish(self._kept.head)
            if not replay.faults and replay.attempts != self._kept.attempts:
                replay.faults.append(Fault(FaultKind.PROJECTION, 0, "what is answered is not what the rows say"))
            return _verified(replay)

    # Keeping

    def repair(self, *, accept_copy: bool = False) -> Repairs:
        """`accept_copy`: it is a copy whenever somebody says so. Beside that there is nothing that this store would repair."""
        with self._kept.lock:
            is_accepted = accept_copy and not self.verify().faults
            made = self._accept_as_copy() if is_accepted else ()
            return Repairs(made, left=self.verify().faults, is_accepted=is_accepted)

    def _accept_as_copy(self) -> tuple[Repair, ...]:
        made = []
        for slot in sorted(self.unfinished()):
            current = self._latest(slot)
            if current is not None and (ruling := transition.doubt(current)).entries:
                self._carry_out(current, ruling)
                made.append(Repair(f"{slot.key} was {current.state} and is unknown", slot=slot))
        self._kept.accepted_at = max(self.now(), self._kept.accepted_at or self.now())
        return tuple(made)

    def rows(self) -> Iterator[StoredRow]:
        with self._kept.lock:
            return iter(tuple(self._kept.rows))

    def adopt(
        self, rows: Iterable[StoredRow], *, doubt_before: datetime | None = None, accept_copy: bool = False
    ) -> Verification | LedgerRefused:
        taken = [StoredRow(*row) for row in rows]
        replay = Replay()
        slots: dict[str, Slot] = {}
        for row in taken:
            reservation = replay.take(*row)
            if reservation is not None:
                slots.setdefault(reservation.reservation_id, reservation.slot)
        if replay.faults:
            return not_taken(replay.faults[0])
        with self._kept.lock:
            if self._kept.rows and self._kept.rows != taken:
                return HOLDS_OTHERS
            if not self._kept.rows:
                self._kept.rows.extend(taken)
                self._kept.attempts.update(replay.attempts)
                self._kept.slots.update(slots)
            if doubt_before is not None:
                self._kept.accepted_at = max(doubt_before, self._kept.accepted_at or doubt_before)
            if accept_copy:
                self._accept_as_copy()
                return self.verify()
        return _verified(replay)

    def close(self) -> None:
        with self._kept.lock:
            for slot in [slot for slot, (owner, _) in self._kept.leases.items() if owner is self]:
                del self._kept.leases[slot]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on(
        self, reservation_id: str, rule: Callable[[Reservation | None], Ruling], *, any_attempt: bool = False
    ) -> Reservation | LedgerRefused:
        with self._kept.lock:
            slot = self._kept.slots.get(reservation_id)
            current = self._latest(slot) if slot else None
            outdated = transition.not_latest(current, reservation_id) if current is not None and not any_attempt else None
            return self._carry_out(current, outdated or rule(current))

    def _carry_out(self, current: Reservation | None, ruling: Ruling) -> Reservation | LedgerRefused:
        """A refusal that leaves a trace leaves it."""
        now = self.now()
        try:
            rows = chain.append(self._kept.head, ruling.entries, at=now)
        except NotARow as problem:
            return LedgerRefused(LedgerCode.INVALID, f"{problem}: nothing was written")
        after = current
        for row in rows:
            following = advance(
                after, chain.parse_row(row.bytes).entry, at=now
            )  # what a store would read, not the caller's object
            if isinstance(following, IllegalEntry):
                raise AssertionError(f"a transition made an entry that cannot follow: {following.why}")  # noqa: TRY004
            attempts = self._kept.attempts.setdefault(following.slot, [])
            attempts[following.attempt - 1 :] = [replace(following, is_live=False, lease_expires_at=None)]
            self._kept.slots[following.reservation_id] = following.slot
            self._kept.rows.append(StoredRow(row.sequence, row.digest, row.bytes))
            after = following
        if ruling.refused is not None:
            return ruling.refused
        assert after is not None  # without entries and refusal there was a reservation
        return self._with_lease(after)

    def _latest(self, slot: Slot) -> Reservation | None:
        attempts = self._kept.attempts.get(slot)
        return self._with_lease(attempts[-1]) if attempts else None

    def _with_lease(self, reservation: Reservation) -> Reservation:
        lease = self._kept.leases.get(reservation.slot)
        if reservation.state is not ReservationState.SENDING or lease is None:
            return replace(reservation, is_live=False, lease_expires_at=None)
        return replace(reservation, is_live=self.now() < lease[1], lease_expires_at=lease[1])

    def _opened_in_order(self, wanted: Callable[[Slot], bool]) -> tuple[Reservation, ...]:
        with self._kept.lock:
            order = {reservation_id: place for place, reservation_id in enumerate(self._kept.slots)}
            found = [each for slot in self._kept.attempts if wanted(slot) for each in self.of(slot)]
            return tuple(sorted(found, key=lambda each: order[each.reservation_id]))


def _verified(replay: Replay) -> Verification:
    latest = [attempts[-1] for attempts in replay.attempts.values() if attempts]
    return Verification(
        rows=replay.rows,
        slots=len(latest),
        head=replay.head,
        counts=dict(Counter(reservation.state.value for reservation in latest)),
        faults=tuple(replay.faults),
    )

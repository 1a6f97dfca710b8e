"""A life of a ledger that says what it asks, what it was told and when it calls the provider; and the promise, checked after its end.

The promise: a message that may have been sent is never sent again, what was acknowledged is there, and the rest of the ledger goes on.
"""

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from guards.delivery.entry import Reservation
from guards.delivery.outcome import Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant, Slot, parse_slot
from resources.ledger.interface import Ledger
from tests.ledgers.builders import EVIDENCE, KIM, LEE, OWED, PINS, RECEIPT, code, feed, told, weekly

Kind = Literal["asked", "told", "called"]


@dataclass(frozen=True, slots=True)
class Fact:
    """`asked`: a call begins that may leave the attempt in any of `states`. `told`: it came back. `called`: so did the provider's."""

    kind: Kind
    slot: Slot
    attempt: int
    states: tuple[S, ...] = ()

    def line(self) -> str:
        return json.dumps([self.kind, self.slot.key, self.attempt, list(self.states)])


def parse_fact(line: str) -> Fact:
    kind, slot, attempt, states = json.loads(line)
    return Fact(kind, parse_slot(slot), attempt, tuple(S(state) for state in states))


Say = Callable[[Fact], None]
REPLACED = {2: (KIM, "run-2"), 3: (LEE, "run-3")}
"""Attempt to the approval and the key that a life opens it with."""


@dataclass(frozen=True, slots=True)
class Life:
    """The slots of one life; `number` keeps those of several apart."""

    open: Callable[[], Ledger]
    gone: Callable[[Ledger, Grant], None]
    say: Say
    number: object = 0

    def lead(self) -> None:
        """Every call that writes, and every edge that can be taken without a machine's help."""
        ledger = self.open()
        self._attempts(ledger, feed(f"{self.number}-a"))
        self._expired(ledger, weekly(f"{self.number}-b"))
        self._given_up(ledger, feed(f"{self.number}-c"), weekly(f"{self.number}-d"), feed(f"{self.number}-e"))
        self._from_outside(ledger, feed(f"{self.number}-f"))

    def _attempts(self, ledger: Ledger, slot: Slot) -> None:
        """Failed, replaced, in doubt, resolved as not sent, replaced, delivered, audited."""
        held = self._step(slot, 1, lambda: ledger.reserve(slot, PINS, key="run-1"), S.PREPARED)
        grant = self._granted(ledger, held)
        self._step(slot, 1, lambda: ledger.settle(grant, known_failure(Reason.REJECTED)), S.KNOWN_FAILURE)
        held = self._step(slot, 2, lambda: ledger.replace(slot, approval=REPLACED[2][0], key=REPLACED[2][1]), S.PREPARED)
        second = self._granted(ledger, held)
        self._step(slot, 2, lambda: ledger.settle(second, unknown(Reason.NO_ANSWER)), S.UNKNOWN)
        resolve = ledger.resolve
        self._step(
            slot,
            2,
            lambda: resolve(held.reservation_id, was_sent=False, evidence=EVIDENCE, approval=KIM),
            S.RESOLVED_NOT_SENT,
        )
        held = self._step(slot, 3, lambda: ledger.replace(slot, approval=REPLACED[3][0], key=REPLACED[3][1]), S.PREPARED)
        third = self._granted(ledger, held)
        self._step(slot, 3, lambda: ledger.settle(third, delivered(RECEIPT)), S.DELIVERED)
        self._step(slot, 3, lambda: ledger.audit(held.reservation_id), S.SENT_AUDITED)

    def _expired(self, ledger: Ledger, slot: Slot) -> None:
        """Its holder is gone; what it said late is kept; a person ends the doubt."""
        holder = self.open()
        held = self._step(slot, 1, lambda: holder.reserve(slot, PINS, key="run-1"), S.PREPARED)
        grant = self._granted(holder, held)
        self.gone(holder, grant)
        self._step(slot, 1, lambda: ledger.expire(held.reservation_id), S.UNKNOWN)
        code(ledger.settle(grant, delivered(RECEIPT)))
        resolve = ledger.resolve
        self._step(slot, 1, lambda: resolve(held.reservation_id, was_sent=True, evidence=EVIDENCE, approval=KIM), S.RESOLVED_SENT)

    def _given_up(self, ledger: Ledger, prepared: Slot, owed: Slot, sending: Slot) -> None:
        held = self._step(prepared, 1, lambda: ledger.reserve(prepared, PINS, key="run-1"), S.PREPARED)
        self._step(prepared, 1, lambda: ledger.abandon(held.reservation_id, reason=Reason.TERMINAL_RESPONSE), S.ABANDONED)
        under = self._step(owed, 1, lambda: ledger.reserve(owed, OWED, key="run-1"), S.PREPARED)
        self.say(Fact("asked", owed, 1, (S.ABANDONED,)))
        code(ledger.grant(under.reservation_id, holder="run-1"))
        self.say(Fact("told", owed, 1, (S.ABANDONED,)))
        mine = self._step(sending, 1, lambda: ledger.reserve(sending, PINS, key="run-1"), S.PREPARED)
        grant = self._granted(ledger, mine, calls=False)
        self._step(sending, 1, lambda: ledger.settle(grant, abandoned(Reason.WITHDRAWN)), S.ABANDONED)

    def _from_outside(self, ledger: Ledger, slot: Slot) -> None:
        """Two rows in one call: a crash between them may leave the doubt."""
        held = self._step(slot, 1, lambda: ledger.reserve(slot, PINS, key="run-1"), S.PREPARED)
        self._step(slot, 1, lambda: ledger.reconcile(held.reservation_id, receipt=RECEIPT), S.RESOLVED_SENT, S.UNKNOWN)

    def _step(self, slot: Slot, attempt: int, call: Callable[[], Reservation | LedgerRefused], *states: S) -> Reservation:
        self.say(Fact("asked", slot, attempt, states))
        after = told(call())
        assert (after.slot, after.attempt) == (slot, attempt)
        assert after.state is states[0]
        self.say(Fact("told", slot, attempt, states[:1]))
        return after

    def _granted(self, ledger: Ledger, held: Reservation, *, calls: bool = True) -> Grant:
        self.say(Fact("asked", held.slot, held.attempt, (S.SENDING,)))
        grant = ledger.grant(held.reservation_id, holder="run-1", authority=held.pins.authority)
        assert isinstance(grant, Grant), grant
        if calls:
            self.say(Fact("called", held.slot, held.attempt))
        self.say(Fact("told", held.slot, held.attempt, (S.SENDING,)))
        return grant


def assert_promise(ledger: Ledger, facts: Collection[Fact], *, fresh: Slot, repairs: bool = False, verifies: bool = True) -> None:
    """On a ledger that was opened after the end of the life that said `facts`, with its leases ended. It is used up by this.

    What was in flight is asked for again, as a run that starts anew would; or, with `repairs`, a person has it put in order first.
    """
    recovery = ledger.health().recovery
    assert recovery == "", recovery
    _assert_nothing_acknowledged_is_lost(ledger, facts)
    called = {(fact.slot, fact.attempt) for fact in facts if fact.kind == "called"}
    if repairs:
        left = ledger.repair().left
        assert left == (), left
        _assert_nothing_acknowledged_is_lost(ledger, facts)
    for slot in dict.fromkeys(fact.slot for fact in facts):
        _assert_never_sent_again(ledger, slot, called, opened={fact.attempt for fact in facts if fact.slot == slot})
    pins, held = PINS, ledger.reserve(fresh, PINS, key="run-9")
    grant = ledger.grant(told(held).reservation_id, holder="run-9", authority=pins.authority)
    assert isinstance(grant, Grant), grant
    assert told(ledger.settle(grant, delivered(RECEIPT))).state is S.DELIVERED
    if verifies:
        faults = ledger.verify().faults
        assert faults == (), faults


def _assert_nothing_acknowledged_is_lost(ledger: Ledger, facts: Iterable[Fact]) -> None:
    acknowledged: dict[tuple[Slot, int], S] = {}
    asked: dict[tuple[Slot, int], tuple[S, ...]] = {}
    for fact in facts:
        if fact.kind == "asked":
            asked[fact.slot, fact.attempt] = fact.states
        elif fact.kind == "told":
            acknowledged[fact.slot, fact.attempt] = fact.states[0]
            del asked[fact.slot, fact.attempt]
    for (slot, attempt), state in acknowledged.items():
        held = {each.attempt: each for each in ledger.of(slot)}
        assert attempt in held, f"attempt {attempt} at {slot.key} was {state}, and is gone"
        found = held[attempt]
        assert found.state in {state, *asked.get((slot, attempt), ())}, f"{slot.key} was {state}, and is {found.state}"
        if found.state in (S.DELIVERED, S.SENT_AUDITED):
            assert dict(found.receipt) == RECEIPT
    for (slot, attempt), states in asked.items():
        if (slot, attempt) not in acknowledged:
            found_states = {each.state for each in ledger.of(slot) if each.attempt == attempt}
            assert found_states <= {*states, S.UNKNOWN}, f"{slot.key} was never more than {states}, and is {found_states}"


def _assert_never_sent_again(
    ledger: Ledger, slot: Slot, called: Collection[tuple[Slot, int]], *, opened: Collection[int]
) -> None:
    """Whoever tries, by the calls of a run: a second grant of an attempt that the provider was called for would be a second message."""
    for _ in range(3):
        latest = next(iter(reversed(ledger.of(slot))), None)
        if latest is None:
            latest = told(ledger.reserve(slot, OWED if slot.period.endswith("-d") else PINS, key="run-1"))
            assert latest.state in (S.PREPARED, S.UNKNOWN), latest.state
            assert (slot, 1) not in called
        elif latest.attempt + 1 in opened:
            approval, key = REPLACED[latest.attempt + 1]
            latest = told(ledger.replace(slot, approval=approval, key=key))
        assert told(ledger.reserve(slot, latest.pins, key="run-9")).attempt == latest.attempt
        grant = ledger.grant(latest.reservation_id, holder="run-9", authority=latest.pins.authority)
        if isinstance(grant, Grant):
            assert (slot, latest.attempt) not in called, f"attempt {latest.attempt} at {slot.key} may be sent a second time"
            assert told(ledger.settle(grant, unknown(Reason.NO_ANSWER))).state is S.UNKNOWN
        elif latest.state is S.SENDING:
            assert told(ledger.expire(latest.reservation_id)).state is S.UNKNOWN
        else:
            break

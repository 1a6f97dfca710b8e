"""Three actors, one ledger, a provider that counts, and crashes at random; every answer is compared with the model's.

The actors are honest: they call once per grant, say what they know, and the person who ends a doubt has asked the provider. Then no
attempt is called for twice, and no slot has two accepted messages.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval, Outcome, Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState as S
from guards.delivery.row import parse_row
from guards.delivery.slot import Grant, Slot
from resources.ledger.interface import Ledger
from tests.ledgers.builders import EVIDENCE, KIM, OTHER_PINS, PINS, RECEIPT
from tests.ledgers.worlds import FileWorld, MemoryWorld, PostgresWorld, World

ACTORS = range(3)
SLOTS = range(2)
_numbers = itertools.count()


@dataclasses.dataclass
class Held:
    """A grant and what its holder knows: was the provider called, and what did it truly do."""

    grant: Grant
    actor: int
    called: bool = False
    accepted: bool = False
    answered: bool = False
    is_lost: bool = False
    """The holder has crashed: it will not call, but what it said may still arrive."""

    @property
    def outcome(self) -> Outcome:
        if not self.called:
            return abandoned(Reason.WITHDRAWN)
        if not self.answered:
            return unknown(Reason.NO_ANSWER)
        return delivered(RECEIPT) if self.accepted else known_failure(Reason.REJECTED)


class Actors(RuleBasedStateMachine):
    def __init__(self, world: World, done: Callable[[], None]) -> None:
        super().__init__()
        number = next(_numbers)
        self.slots = [Slot("partner-1", f"x{number}-{each}", "feed") for each in SLOTS]
        self.world, self.done, self.model = world, done, MemoryWorld()
        self.handles = [(world.open(), self.model.open()) for _ in ACTORS]
        self.grants: list[Held] = []
        self.calls: Counter[tuple[Slot, int]] = Counter()
        self.accepted: Counter[Slot] = Counter()
        self.approvals = itertools.count(100)

    # What an actor does

    @rule(actor=st.sampled_from(ACTORS), place=st.sampled_from(SLOTS), pins=st.sampled_from([PINS, PINS, PINS, OTHER_PINS]))
    def reserve(self, actor, place, pins):
        self._both(actor, lambda ledger: ledger.reserve(self.slots[place], pins, key=f"run-{actor}"))

    @precondition(lambda self: self._any_in(S.PREPARED, None))
    @rule(actor=st.sampled_from(ACTORS), data=st.data())
    def reserve_and_grant(self, actor, data):
        place = data.draw(st.sampled_from(self._places_in(S.PREPARED, None)))
        if self._latest(place) is None:
            self.reserve(actor, place, PINS)
        self.grant(actor, place)

    def grant(self, actor, place, earlier=0):
        attempt = max(1, len(self._attempts(place)) - earlier)
        wanted = self.slots[place].reservation_id(attempt)
        answer = self._both(actor, lambda ledger: ledger.grant(wanted, holder=f"run-{actor}"))
        if isinstance(answer, Grant):
            self.grants.append(Held(answer, actor))

    @precondition(lambda self: self._callable())
    @rule(data=st.data(), accepted=st.booleans(), answered=st.booleans())
    def call_the_provider(self, data, accepted, answered):
        held = data.draw(st.sampled_from(self._callable()))
        held.called, held.accepted, held.answered = True, accepted, answered
        self.calls[held.grant.slot, held.grant.attempt] += 1
        self.accepted[held.grant.slot] += accepted

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), actor=st.sampled_from(ACTORS), doubts=st.booleans())
    def settle(self, data, actor, doubts):
        """In time or late, by the holder or by whoever got its answer; also again."""
        held = data.draw(st.sampled_from(self.grants))
        outcome = unknown(Reason.NO_ANSWER) if doubts and held.called else held.outcome
        self._both(actor, lambda ledger: ledger.settle(held.grant, outcome))
        held.is_lost = held.is_lost or not held.called

    @precondition(lambda self: self._any_in(S.SENDING))
    @rule(actor=st.sampled_from(ACTORS), expires=st.booleans())
    def crash(self, actor, expires):
        mine = [held for held in self.grants if held.actor == actor]
        for held in mine:
            held.is_lost = True
        store, model = self.handles[actor]
        self.world.gone(store, *[held.grant for held in mine if self._state(held) is S.SENDING])
        self.model.gone(model)
        self.handles[actor] = (self.world.open(), self.model.open())
        if expires:
            for place in self._places_in(S.SENDING):
                self._both(actor, lambda ledger, place=place: ledger.expire(self._latest_id(place)))

    # What others do

    @precondition(lambda self: self._any_in(S.UNKNOWN))
    @rule(actor=st.sampled_from(ACTORS), data=st.data())
    def resolve(self, actor, data):
        """By a person who has asked the provider about this attempt."""
        place = data.draw(st.sampled_from(self._places_in(S.UNKNOWN)))
        self._both(
            actor,
            lambda ledger: ledger.resolve(
                self._latest_id(place), was_sent=self._was_accepted(place), evidence=EVIDENCE, approval=KIM
            ),
        )

    @precondition(lambda self: self._any_in(S.KNOWN_FAILURE, S.RESOLVED_NOT_SENT, S.UNKNOWN))
    @rule(actor=st.sampled_from(ACTORS), data=st.data(), again=st.booleans())
    def replace(self, actor, data, again):
        place = data.draw(st.sampled_from(self._places_in(S.KNOWN_FAILURE, S.RESOLVED_NOT_SENT, S.UNKNOWN)))
        approval = KIM if again else Approval(next(self.approvals), "Lee")
        self._both(actor, lambda ledger: ledger.replace(self.slots[place], approval=approval, key=f"run-{actor}"))

    @precondition(lambda self: any(held.accepted for held in self.grants))
    @rule(actor=st.sampled_from(ACTORS), data=st.data())
    def find_at_the_provider(self, actor, data):
        held = data.draw(st.sampled_from([held for held in self.grants if held.accepted]))
        self._both(actor, lambda ledger: ledger.reconcile(held.grant.reservation_id, receipt=RECEIPT))

    @rule(
        actor=st.sampled_from(ACTORS),
        place=st.sampled_from(SLOTS),
        what=st.sampled_from(["grant", "earlier", "expire", "audit", "abandon"]),
    )
    def whatever_the_state(self, actor, place, what):
        latest = self._latest_id(place)
        match what:
            case "grant" | "earlier":
                self.grant(actor, place, earlier=int(what == "earlier"))
            case "expire":
                self._both(actor, lambda ledger: ledger.expire(latest))
            case "audit":
                self._both(actor, lambda ledger: ledger.audit(latest))
            case _:
                self._both(actor, lambda ledger: ledger.abandon(latest, reason=Reason.TERMINAL_RESPONSE))

    # What must hold

    @invariant()
    def no_attempt_is_called_for_twice(self):
        assert all(count <= 1 for count in self.calls.values()), self.calls

    @invariant()
    def no_slot_has_two_messages(self):
        assert all(count <= 1 for count in self.accepted.values()), self.accepted

    def teardown(self):
        try:
            store, model = self.world.open(), self.model.open()
            assert store.verify().faults == model.verify().faults == ()
            for slot in self.slots:
                assert [_timeless(each) for each in store.of(slot)] == [_timeless(each) for each in model.of(slot)]
            mine = set(self.slots)
            written = [[_said(row.row) for row in ledger.rows() if _said(row.row).slot in mine] for ledger in (store, model)]
            assert written[0] == written[1]
        finally:
            self.done()

    def _both(self, actor: int, call: Callable[[Ledger], object]) -> object:
        store, model = self.handles[actor]
        answer, expected = call(store), call(model)
        assert _timeless(answer) == _timeless(expected), (answer, expected)
        return answer

    def _attempts(self, place: int) -> tuple[Reservation, ...]:
        return self.handles[0][1].of(self.slots[place])

    def _latest(self, place: int) -> S | None:
        attempts = self._attempts(place)
        return attempts[-1].state if attempts else None

    def _latest_id(self, place: int) -> str:
        return self.slots[place].reservation_id(max(1, len(self._attempts(place))))

    def _places_in(self, *states: S | None) -> list[int]:
        return [place for place in SLOTS if self._latest(place) in states]

    def _any_in(self, *states: S | None) -> bool:
        return bool(self._places_in(*states))

    def _callable(self) -> list[Held]:
        """An honest holder that has not called, has not said that it will not, and sees that it still may."""
        return [held for held in self.grants if not held.called and not held.is_lost and self._state(held) is S.SENDING]

    def _was_accepted(self, place: int) -> bool:
        return any(held.accepted for held in self.grants if held.grant.reservation_id == self._latest_id(place))

    def _state(self, held: Held) -> S | None:
        found = self.handles[0][1].get(held.grant.reservation_id)
        return found.state if found else None


def _timeless(answer: object) -> object:
    """Clocks differ, and so do the words of a refusal."""
    match answer:
        case Reservation():
            nothing = dataclasses.replace(answer, opened_at=None, changed_at=None, lease_expires_at=None)
            return dataclasses.asdict(nothing)
        case Grant():
            return dataclasses.replace(answer, lease_expires_at=None)
        case LedgerRefused():
            return answer.code
        case _:
            return answer


def _said(row: bytes):
    return parse_row(row).entry


def run(world: Callable[[], tuple[World, Callable[[], None]]], *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        lambda: Actors(*world()),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking a failure on a server took five minutes
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


def test_actors_on_the_model():
    run(lambda: (MemoryWorld(), lambda: None), examples=300, steps=50)


def test_actors_on_the_file_store(memory_disk):
    def made() -> tuple[World, Callable[[], None]]:
        world = FileWorld(memory_disk / f"{next(_numbers)}")
        return world, world.close

    run(made, examples=80, steps=50)


def test_actors_on_postgres(database_url):
    def made() -> tuple[World, Callable[[], None]]:
        world = PostgresWorld(database_url)
        return world, world.close

    run(made, examples=20, steps=40)

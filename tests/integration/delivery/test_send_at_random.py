"""Runs that die anywhere, providers that answer anything, people who resolve and replace: one call per slot and attempt, ever."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import pytest

from guards.delivery.message import provider_key
from guards.delivery.outcome import Approval
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Provider
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Slot
from guards.gate import Authorization
from guards.refusal import Refused
from resources.delivery.ledger import open_ledger
from resources.delivery.recover import recover
from resources.delivery.steps import Moment, Step
from resources.errors import OpsGuardError
from resources.providers.interface import (
    Accepted,
    Ambiguous,
    Answer,
    CannotTell,
    Capabilities,
    Found,
    Message,
    NotFound,
    Rejected,
    Sender,
    Sighting,
)
from tests.integration.delivery.test_send import with_bodies
from tests.integration.delivery.watch import DAILY, REMINDER, Watch

pytestmark = pytest.mark.crash

Made = Callable[..., Watch]
ROUNDS = 30
KIM = "Kim"


class Died(BaseException):
    """The process is gone: nothing of it handles this."""


class AnyAnswer:
    """A provider that takes or does not take, and says something about it. Its own record is the oracle."""

    name = "file"
    capabilities = Capabilities(refuses_duplicates=False, says="")

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.calls: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()

    def writer(self, authorization: Authorization, *, scope: str) -> Sender:
        return Sender(self._send, authorization, scope=scope)

    def _send(self, message: Message, key: str) -> Answer:
        self.calls[key] += 1
        match self._dice.choice(["accept", "reject", "lose", "take and lose", "take and die", "die"]):
            case "accept":
                self.taken[key] += 1
                return Accepted({"provider": "file", "key": key})
            case "reject":
                return Rejected("no_such_directory", "not taken")
            case "lose":
                return Ambiguous("no answer")
            case "take and lose":
                self.taken[key] += 1
                return Ambiguous("no answer")
            case "take and die":
                self.taken[key] += 1
                raise Died
            case _:
                raise Died

    def asks(self, message: Message) -> str:
        return self.name

    def lookup(self, key: str, *, message: Message, since: datetime, until: datetime) -> Sighting:
        if self._dice.random() < 0.5:
            return CannotTell("busy")
        return Found({"key": key}) if self.taken[key] else NotFound("everything")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_provider_is_called_twice_for_one_attempt_whatever_dies(made: Made, seed: int) -> None:
    dice = random.Random(seed)
    watch = made(policy=DeliveryPolicy(known_failure_kinds=("daily", "reminder")))
    watch.approve_template()
    for number in range(4):
        watch.customer(f"acme-{number}", DAILY, REMINDER)
    keys = with_bodies(watch)
    provider = AnyAnswer(dice)
    providers = {Provider.FILE: provider}

    for number in range(ROUNDS):
        match dice.choice(["apply", "apply", "recover", "person"]):
            case "apply":
                _apply_and_perhaps_die(watch, dice, provider, run_id=f"run-{number}")
            case "recover":
                with open_ledger(watch.route, watch.state) as ledger:
                    recover(watch.route, watch.state, ledger, providers)
            case _:
                for key in keys:
                    _person(watch, dice, provider, key, number)

    assert len(provider.calls) > len(keys), "second attempts were part of it"
    assert max(provider.calls.values()) == 1
    for key in keys:
        slot = Slot(*key.split(":"))
        with open_ledger(watch.route, watch.state) as ledger:
            attempts = ledger.of(slot)
        assert sum(provider.taken[provider_key(one)] for one in attempts) <= 1, f"{key} went out twice"
        assert all(provider.taken[provider_key(one)] for one in attempts if one.state is S.DELIVERED)


def _apply_and_perhaps_die(watch: Watch, dice: random.Random, provider: AnyAnswer, *, run_id: str) -> None:
    countdown = dice.randrange(60)

    def die(_step: Step, _moment: Moment, _subject: str) -> None:
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            raise Died

    stored = watch.propose()
    if not stored.targets:
        return
    watch.approve(stored)
    try:
        answer = watch.apply(stored, run_id=run_id, watcher=die, providers={Provider.FILE: provider})
    except (Died, OpsGuardError):
        return
    assert not isinstance(answer, Refused), answer


def _person(watch: Watch, dice: random.Random, provider: AnyAnswer, key: str, number: int) -> None:
    """Resolves by what really happened (they asked the recipient), and allows another attempt at what was not sent."""
    slot = Slot(*key.split(":"))
    with open_ledger(watch.route, watch.state) as ledger:
        attempts = ledger.of(slot)
        if not attempts:
            return
        latest = attempts[-1]
        if latest.state is S.UNKNOWN:
            ledger.resolve(
                latest.reservation_id,
                was_sent=bool(provider.taken[provider_key(latest)]),
                evidence={"asked": "the recipient"},
                approval=Approval(0, KIM),
            )
        elif dice.random() < 0.7:
            ledger.replace(slot, approval=Approval(0, KIM, comment=f"round {number}"), key=f"person-{number}")

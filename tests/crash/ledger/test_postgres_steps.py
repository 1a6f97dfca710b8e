"""PostgreSQL: a life killed before and after every statement and commit, and the same with the connection cut instead."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from guards.delivery.outcome import delivered
from guards.delivery.slot import Grant, Slot
from resources.errors import OutcomeUnknown, Unreachable
from resources.ledger.interface import Ledger
from resources.state import ledger_calls
from tests.crash.ledger.kills import Countdown, killed, watch_psycopg
from tests.crash.ledger.promise import assert_promise
from tests.ledgers.builders import PINS, RECEIPT, feed, told
from tests.ledgers.worlds import PostgresWorld

pytestmark = pytest.mark.crash


@pytest.fixture
def world(database_url: str):
    made = PostgresWorld(database_url)
    yield made
    made.close()


def opened(world: PostgresWorld, countdown: Countdown):
    with countdown.paused():
        return world.open()


def test_a_life_killed_at_any_statement_or_commit_keeps_the_promise(world, tmp_path: Path):
    looking = world.open()
    for moment in itertools.count(1):
        died, facts = killed(
            world, moment, tmp_path / f"{moment}", watch=watch_psycopg, open_ledger=lambda countdown: opened(world, countdown)
        )
        world.time_passes()
        assert_promise(looking, facts, fresh=feed(f"fresh-{moment}"), verifies=False)
        if not died:
            break
    assert looking.verify().faults == ()
    assert moment > 60, "fewer statements than there are calls were seen"
    print(f"\n{moment - 1} kills")


def test_a_connection_cut_at_any_statement_or_commit_never_says_what_is_not_so(world, monkeypatch):
    """`Unreachable` means that nothing was recorded; after `OutcomeUnknown` the caller looks, and the same call again is fine."""
    looking = world.open()
    answers: list[type[BaseException]] = []
    for moment in itertools.count(1):
        ledger = world.open()  # one that has written before needs fewer statements
        slot, countdown = feed(f"cut-{moment}"), Countdown(moment)
        try:
            for step in _sending(ledger, slot):
                countdown.is_armed, before = False, world.content()
                countdown.is_armed = True
                with monkeypatch.context() as patched:
                    _cut(patched, countdown)
                    step()
        except Unreachable:
            answers.append(Unreachable)
            assert world.content() == before
        except OutcomeUnknown:
            answers.append(OutcomeUnknown)
        assert told(looking.reserve(slot, PINS, key="run-1")).attempt == 1
        if countdown.left > 0:
            break
    assert {*answers} == {Unreachable, OutcomeUnknown}
    assert looking.verify().faults == ()
    print(f"\n{len(answers)} cuts, {answers.count(OutcomeUnknown)} of unknown outcome")


def _sending(ledger: Ledger, slot: Slot) -> Iterator[Callable[[], object]]:
    yield lambda: ledger.reserve(slot, PINS, key="run-1")
    made: list[object] = []
    yield lambda: made.append(ledger.grant(slot.reservation_id(1), holder="run-1"))
    (grant,) = made
    assert isinstance(grant, Grant)
    yield lambda: ledger.settle(grant, delivered(RECEIPT))


def _cut(patched: pytest.MonkeyPatch, countdown: Countdown) -> None:
    def cutting(name: str, original, connection_of):
        def call(self, *arguments, **named):
            countdown.then = connection_of(self).close
            countdown.tick()
            answer = original(self, *arguments, **named)
            countdown.then = connection_of(self).close
            countdown.tick()
            return answer

        return call

    patched.setattr(psycopg.Cursor, "execute", cutting("execute", psycopg.Cursor.execute, lambda cursor: cursor.connection))
    patched.setattr(ledger_calls, "ask", cutting("ask", ledger_calls.ask, lambda session: session))
    patched.setattr(psycopg.Connection, "commit", cutting("commit", psycopg.Connection.commit, lambda connection: connection))

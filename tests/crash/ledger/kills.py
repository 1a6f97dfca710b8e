"""Children that lead a life on a ledger and get SIGKILL from themselves before or after the n-th thing that could be durable."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import psycopg

from guards.delivery.slot import Grant
from resources.ledger.interface import Ledger
from resources.state import ledger_calls
from tests.crash.ledger.promise import Fact, Life, parse_fact
from tests.ledgers.worlds import World
from tests.patience import ended, forked


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


class Countdown:
    """`tick` at every moment that counts; at the n-th it kills."""

    def __init__(self, moment: int, then: Callable[[], object] = die) -> None:
        self.left = moment
        self.then = then

        self.is_armed = True

    def tick(self) -> None:
        if self.is_armed:
            self.left -= 1
            if self.left == 0:
                self.then()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """For what the test does, and not the ledger."""
        self.is_armed = False
        yield
        self.is_armed = True


def killed(
    world: World, moment: int, journal: Path, *, watch: Callable[[Countdown], None], open_ledger: Callable[[Countdown], Ledger]
) -> tuple[bool, list[Fact]]:
    """Whether it died (else the life was over before), and what it had said. Forked: nothing is imported anew."""
    said = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def lives() -> None:
        countdown = Countdown(moment)
        watch(countdown)

        def gone(handle: Ledger, grant: Grant) -> None:
            with countdown.paused():
                world.gone(handle, grant)

        Life(
            open=lambda: open_ledger(countdown),
            gone=gone,
            say=lambda fact: _write(said, fact),
            number=moment,
        ).lead()

    child = forked(lives)
    os.close(said)
    status = ended(child)
    assert status in (0, -signal.SIGKILL), status
    facts = [parse_fact(line) for line in journal.read_text().splitlines()]
    return status != 0, facts


def _write(descriptor: int, fact: Fact) -> None:
    os.write(descriptor, f"{fact.line()}\n".encode())


def watch_psycopg(countdown: Countdown) -> None:
    """Before and after each statement and each commit of this process, whatever is built on top of the driver."""
    for owner, name in ((psycopg.Cursor, "execute"), (psycopg.Connection, "commit"), (ledger_calls, "ask")):
        setattr(owner, name, _ticking(getattr(owner, name), countdown))


def _ticking(original: Callable[..., object], countdown: Countdown) -> Callable[..., object]:
    def call(*arguments: object, **named: object) -> object:
        countdown.tick()
        answer = original(*arguments, **named)
        countdown.tick()
        return answer

    return call

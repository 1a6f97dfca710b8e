"""Apply runs in child processes, so that SIGKILL and SIGSTOP can hit them anywhere. Forked: nothing of ours is imported anew."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from assets.spool_report import SpoolReport
from resources.spool.steps import Moment, Step
from resources.state import StateStore
from tests import patience
from tests.integration.spool.world import Applied, Place
from tests.patience import ended


def forked(world: Place, work: Callable[[Place], object]) -> int:
    """The child's process number. It opens a database connection of its own and never comes back."""
    url = world.store.engine.url.render_as_string(hide_password=False)

    def with_its_own_connection() -> None:
        with StateStore.open(url) as store:
            work(replace(world, store=store))

    return patience.forked(with_its_own_connection)


def killed_at(world: Place, report: SpoolReport, step: Step, moment: Moment, name: str) -> None:
    """An apply run that gets SIGKILL from itself at that moment of that feed."""

    def kill(at_step: Step, at_moment: Moment, at_name: str) -> None:
        if (at_step, at_moment, at_name) == (step, moment, name):
            die()

    child = forked(world, lambda mine: mine.apply(report, watcher=kill))
    assert ended(child) == -signal.SIGKILL


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


@contextmanager
def applying(world: Place, report: SpoolReport, said: Callable[[Applied], None] | None = None) -> Iterator[int]:
    """An apply run in a child; it is ended with the block if it has not."""

    def work(mine: Place) -> None:
        applied = mine.apply(report)
        if said is not None:
            said(applied)

    child = forked(world, work)
    try:
        yield child
    finally:
        kill(child)


def kill(child: int) -> None:
    """SIGKILL, and gone when this returns. One that has ended already is left alone."""
    try:
        pid, _ = os.waitpid(child, os.WNOHANG)
        if not pid:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    except ChildProcessError:  # somebody has waited for it before
        return

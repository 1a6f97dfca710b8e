"""The file store: a life killed before and after every call that reaches the disk, by SIGKILL and by an error that nobody catches."""

import contextlib
import itertools
from pathlib import Path

import pytest

from resources.ledger.file.disk import Disk
from resources.ledger.file.store import FileLedger
from tests.crash.ledger.kills import Countdown, killed
from tests.crash.ledger.promise import Fact, Life, assert_promise
from tests.crash.ledger.test_file_crash_states import ROWS_PER_SEGMENT
from tests.ledgers.builders import feed
from tests.ledgers.worlds import FileWorld

pytestmark = pytest.mark.crash

CHANGES = (
    "make_directory",
    "remove_directory",
    "create",
    "append",
    "overwrite",
    "truncate",
    "sync",
    "sync_directory",
    "link",
    "rename",
    "unlink",
)


class Death(BaseException):
    """Not an `Exception`: nothing in the store may catch it and go on."""


def ticking(countdown: Countdown) -> type[Disk]:
    """A disk on which every change and every sync is a moment, before and after."""

    def around(name: str):
        original = getattr(Disk, name)

        def call(self, *arguments):
            countdown.tick()
            answer = original(self, *arguments)
            countdown.tick()
            return answer

        return call

    return type("TickingDisk", (Disk,), {name: around(name) for name in CHANGES})


def opened(root: Path, countdown: Countdown) -> FileLedger:
    return FileLedger.open(root, disk=ticking(countdown), seal_rows=ROWS_PER_SEGMENT)


def test_a_life_killed_at_any_call_of_the_disk_keeps_the_promise(memory_disk):
    """Every other moment; those between are below."""
    for moment in itertools.count(1, 2):
        root = memory_disk / f"{moment}"
        died, facts = killed(
            FileWorld(root),
            moment,
            memory_disk / f"{moment}.facts",
            watch=lambda _: None,
            open_ledger=lambda countdown, root=root: opened(root, countdown),
        )
        with FileLedger.open(root, seal_rows=ROWS_PER_SEGMENT) as ledger:
            assert_promise(ledger, facts, fresh=feed("fresh"))
        if not died:
            break
    print(f"\n{moment // 2} kills")
    assert moment > 200


def test_a_life_that_an_error_ends_at_any_call_of_the_disk_keeps_the_promise(memory_disk):
    """Nobody closed the handle: its leases are those of a process that lives, until it is."""

    def die():
        raise Death

    for moment in itertools.count(2, 2):
        root = memory_disk / f"{moment}"
        countdown = Countdown(moment, die)
        handles: list[FileLedger] = []
        facts: list[Fact] = []

        def open_one(root=root, countdown=countdown, handles=handles) -> FileLedger:
            handles.append(opened(root, countdown))
            return handles[-1]

        with contextlib.suppress(Death):
            Life(open=open_one, gone=lambda handle, _: handle.close(), say=facts.append).lead()
        for each in handles:
            each.close()
        with FileLedger.open(root, seal_rows=ROWS_PER_SEGMENT) as ledger:
            assert_promise(ledger, facts, fresh=feed("fresh"))
        if countdown.left > 0:
            break
    assert moment > 200

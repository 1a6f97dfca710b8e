"""Whether a keeper lives: it holds HOME/keeper.lock from its first step to its end, and the kernel drops that also after SIGKILL.

The lock says more than a process number would, which may belong to another process by now, and more than an answering port:
while a killed server recovers nobody listens, and its keeper is at work.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from resources.errors import Unreachable

_NAME: Final = "keeper.lock"


@contextmanager
def keeping(home: Path) -> Iterator[None]:
    """This process is the keeper of `home` meanwhile. Raises `Unreachable` when another one is."""
    with _opened(home) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unreachable(f"{home} has a keeper already") from error
        yield


def keeper_lives(home: Path) -> bool:
    """Asked by one client at a time (they hold HOME/start.lock): the look itself takes the lock for a moment."""
    with _opened(home) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _opened(home: Path) -> IO[str]:
    return os.fdopen(os.open(home / _NAME, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600), "w")

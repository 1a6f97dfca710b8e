"""How long a test waits for what must come, and the ways to wait for it: one bound, whatever is waited for."""

import os
import signal
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE_SECONDS = 120
"""Ends a test whose other side hangs; none that passes waits for it. Other tests sync thousands of files: a process that writes to the
same disk was seen to stand still for half a minute."""


def until(condition: Callable[[], Found], what: str) -> Found:
    """The first true answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s in vain for: {what}"
        time.sleep(0.01)
    return found


def forked(work: Callable[[], object]) -> int:
    """The process number of a child that works and never comes back. Nothing of ours is imported anew; connections are its own to open."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """Exit code, or the negative number of the signal that ended it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"the child was still running after {PATIENCE_SECONDS} s")
        time.sleep(0.001)

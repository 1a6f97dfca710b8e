"""Who watches long work in this process. A run in the terminal shows a bar; a run in the UI logs; nobody else has to know."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with (what is being done, done so far, of how many; 0 when unknown)."""


def silent(_what: str, _done: int, _of: int) -> None:
    """Nobody watches."""


_watcher: Progress = silent


def watched() -> Progress:
    """The watcher of this process."""
    return _watcher


@contextmanager
def watching(progress: Progress) -> Iterator[None]:
    """For the length of the block. Runs are in-process and one at a time, so one slot is enough."""
    global _watcher
    before, _watcher = _watcher, progress
    try:
        yield
    finally:
        _watcher = before

"""A lease lives as long as its run moves: heartbeats are bound to progress, and a run that stalls loses its place."""

import time
from collections.abc import Callable
from typing import Final

HEARTBEAT_SECONDS: Final = 5.0
"""How often a run that moves keeps its lease alive. One that stalls does not, and loses it: that is the point."""
BEATS_PER_LEASE: Final = 4
"""A short lease is kept alive more often: three heartbeats may fail before it ends."""


class Pulse:
    """Call it whenever something moved, however often: it asks for a heartbeat when one is due. Threads may share it."""

    def __init__(self, beat: Callable[[], object], *, lease_seconds: float) -> None:
        self._beat = beat
        self.every = min(HEARTBEAT_SECONDS, lease_seconds / BEATS_PER_LEASE)
        self._due = time.monotonic() + self.every

    def __call__(self) -> None:
        """Raises `LeaseLost` when another run has taken over."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self.every
            self._beat()


def nothing_moves() -> None:
    """For looks that hold no lease."""

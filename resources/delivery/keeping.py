"""Keeping a run's place while it waits for a provider: the lease may be shorter than the longest call that the settings allow."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from resources.errors import OpsGuardError
from resources.providers.patience import LONGEST_SECONDS, LOOKUP_SECONDS
from resources.pulse import Pulse

logger = logging.getLogger(__name__)

LONGEST_CALL_SECONDS: Final = LONGEST_SECONDS + LOOKUP_SECONDS + 10
"""A webhook may be waited for that long and is then looked up once; no other call is longer. One that does not end stalls, and a run
that stalls loses its place."""


@contextmanager
def kept_alive(pulse: Pulse | None, *, most_seconds: float = LONGEST_CALL_SECONDS) -> Iterator[None]:
    """Heartbeats from a thread until the block ends. Failures are only logged: what was called cannot be taken back, and who comes after
    the call is told. None: there is no lease to keep."""
    if pulse is None:
        yield
        return
    ended = threading.Event()
    until = time.monotonic() + most_seconds
    threading.Thread(target=_beat, args=(pulse, ended, until), name="heartbeats", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _beat(pulse: Pulse, ended: threading.Event, until: float) -> None:
    while not ended.wait(pulse.every) and time.monotonic() < until:
        try:
            pulse()
        except OpsGuardError as error:
            logger.warning("a heartbeat during a call failed: %s", error)

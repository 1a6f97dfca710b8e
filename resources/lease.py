"""A run's place as the only writer of a scope: taken, kept while the run moves, and given back whatever ends it."""

from collections.abc import Iterator
from contextlib import contextmanager

from guards.gate import Lease
from guards.refusal import Refused
from resources.pulse import Pulse
from resources.state import StateStore


@contextmanager
def leased(state: StateStore, scope: str, *, holder: str, seconds: int) -> Iterator[Lease | Refused]:
    """The lease of the scope; or `busy`, when another run holds it."""
    lease = state.acquire_lease(scope, holder=holder, ttl_seconds=seconds)
    try:
        yield lease
    finally:
        if isinstance(lease, Lease):
            state.release(lease)


def pulse_of(state: StateStore, lease: Lease, *, seconds: int) -> Pulse:
    """Heartbeats for this lease of so many seconds."""
    return Pulse(lambda: state.heartbeat(lease), lease_seconds=seconds)

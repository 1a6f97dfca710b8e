"""The state store, for commands that read or decide. It is opened for one command and closed with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opsguard_defs.settings import Settings
    from resources.state import StateStore


@contextmanager
def open_state(settings: "Settings") -> "Iterator[StateStore]":
    """Starts or joins the embedded PostgreSQL when OPSGUARD_STATE_URL is unset. Raises `Unreachable`."""
    from resources.state import StateStore, state_url

    with StateStore.open(state_url(settings.home)) as store:
        yield store

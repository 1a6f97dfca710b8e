"""The state store as a Dagster resource. It holds only where the home is: the database's address has a password and changes.

A plain object, not a `ConfigurableResource`: whoever may launch a run could give that one another home in the run config, and so
another store in which nothing was declined, used or sent.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import dagster as dg

from resources.state import StateStore, state_url
from resources.state.prune import KEEP_DAYS


@dataclass(frozen=True, slots=True)
class StateResource:
    """`with state.open() as store:`. `home`: directory of the embedded database, unless OPSGUARD_STATE_URL names another one."""

    home: str
    retention_days: int = KEEP_DAYS
    """Reports that nobody decided on are forgotten after so many days."""

    def open(self) -> StateStore:
        """A context manager. Raises `Unreachable` when there is no database to be had."""
        return StateStore.open(state_url(Path(self.home)))


State: TypeAlias = dg.ResourceParam[StateResource]
"""How ops, assets and sensors ask for it."""

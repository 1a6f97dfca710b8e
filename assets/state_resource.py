"""The state store as a Dagster resource. It holds only where the home is: the database's address has a password and changes."""

from pathlib import Path

import dagster as dg
from pydantic import Field

from resources.state import StateStore, state_url
from resources.state.prune import KEEP_DAYS


class StateResource(dg.ConfigurableResource[StateStore]):
    """`with state.open() as store:`"""

    home: str = Field(description="Directory of the embedded database, unless OPSGUARD_STATE_URL names another database.")

    retention_days: int = Field(default=KEEP_DAYS, description="Reports that nobody decided on are forgotten after so many days.")

    def open(self) -> StateStore:
        """A context manager. Raises `Unreachable` when there is no database to be had."""
        return StateStore.open(state_url(Path(self.home)))

"""What the assets and jobs of every watch need to know about the installation. Made by the settings; no secrets."""

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg


@dataclass(frozen=True, slots=True)
class Site:
    base_url: str = "http://127.0.0.1:3000"
    """Of the UI, for links."""
    approve_in_ui: bool = True
    lease_seconds: int = 120
    is_approved: Callable[[str], bool] | None = None
    """Whether a digest has an unused approval; lets the form ask for a name before any run is made. None: the run answers."""
    automation: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED
    """Sensors and schedules are off until somebody turns them on; the sandbox starts with them on."""

    @property
    def schedules(self) -> dg.DefaultScheduleStatus:
        on = self.automation is dg.DefaultSensorStatus.RUNNING
        return dg.DefaultScheduleStatus.RUNNING if on else dg.DefaultScheduleStatus.STOPPED

"""Real servers on loopback, so that the whole flow runs with no outside system.

`Sandbox(home)` starts and stops them; `incident` puts feeds behind them. Light to import: no Dagster, no server library.
"""

from opsguard_defs.sandbox.incident import Incident, clean_night, incident
from opsguard_defs.sandbox.lifecycle import Sandbox
from opsguard_defs.sandbox.state_file import Running, SandboxServer

__all__ = ["Incident", "Running", "Sandbox", "SandboxServer", "clean_night", "incident"]

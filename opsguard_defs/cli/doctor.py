"""`opsguard doctor`: what is missing, per watch."""

from datetime import UTC, datetime

from opsguard_defs.cli.exits import Exit, worst
from opsguard_defs.cli.options import AsJson, GuardOption
from opsguard_defs.cli.output import emit, line, table
from opsguard_defs.cli.progress import progress


def doctor(guard: GuardOption = "", as_json: AsJson = False) -> int:
    """Check settings, state store and every side of every watch. Looks only.

    Exit code 0: all well. 2: something is not configured. 5: something could not be reached.
    """
    from opsguard_defs.diagnosis import Health
    from opsguard_defs.doctor import examine
    from opsguard_defs.settings import load_settings
    from opsguard_defs.settings.model import WATCH_TYPES
    from resources.errors import ConfigurationError

    if guard and guard not in WATCH_TYPES:
        raise ConfigurationError(f"unknown guard {guard[:40]!a}: known are {', '.join(WATCH_TYPES)}")
    found = []
    with progress("doctor") as step:
        for diagnosis in examine(load_settings(), guard=guard, now=lambda: datetime.now(UTC)):
            found.append(diagnosis)
            step(f"{diagnosis.where} {diagnosis.check}", len(found), 0)
    if as_json:
        for diagnosis in found:
            emit(diagnosis.as_json())
    else:
        mark = {Health.OK: "ok", Health.NOTE: "NOTE", Health.MISCONFIGURED: "SET UP", Health.UNREACHABLE: "NOT REACHED"}
        table(("where", "check", "", "message"), [(d.where, d.check, mark[d.health], d.message) for d in found])
        open_ones = sum(d.health in {Health.MISCONFIGURED, Health.UNREACHABLE} for d in found)
        line("all well" if not open_ones else f"{open_ones} to look at")
    codes = {Health.MISCONFIGURED: Exit.USAGE, Health.UNREACHABLE: Exit.NOT_OBSERVED}
    return worst(codes.get(diagnosis.health, Exit.DONE) for diagnosis in found)

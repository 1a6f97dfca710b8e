"""Dagster's instance directory below $OPSGUARD_HOME, and its tables in the state database."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from opsguard_defs.processes import PROJECT_ROOT, module_environment
from opsguard_defs.sandbox.layout import private_directory, write_private
from resources.errors import ConfigurationError, Unreachable

INSTANCE_FILE: Final = PROJECT_ROOT / "dagster.yaml"
URL_VARIABLE: Final = "OPSGUARD_DAGSTER_URL"
"""What `dagster.yaml` reads the storage's URL from."""
_TABLES_SECONDS: Final = 120.0


def dagster_url(state_url: str) -> str:
    """The state database for Dagster's own storage, which needs psycopg2 and must not be left to guess the driver."""
    scheme, separator, rest = state_url.partition("://")
    if not separator or scheme.partition("+")[0] not in {"postgresql", "postgres"}:
        raise ConfigurationError("OPSGUARD_STATE_URL must be a PostgreSQL URL: postgresql://user@host/database")
    return f"postgresql+psycopg2://{rest}"


def prepare(home: Path, state_url: str) -> dict[str, str]:
    """The variables of Dagster's processes: DAGSTER_HOME (0700, with the project's dagster.yaml) and the storage's URL."""
    directory = home.absolute() / "dagster"
    wanted = INSTANCE_FILE.read_bytes()
    private_directory(directory)
    present = directory / "dagster.yaml"
    if not present.exists() or present.read_bytes() != wanted:
        write_private(present, wanted)
    return {"OPSGUARD_HOME": str(home.absolute()), "DAGSTER_HOME": str(directory), URL_VARIABLE: dagster_url(state_url)}


def create_tables(environment: dict[str, str]) -> None:
    """Once, before webserver and daemon start: two that create them at the same moment get in each other's way.

    Raises Unreachable with what Dagster said.
    """
    with tempfile.TemporaryFile() as output:
        made = subprocess.run(
            [sys.executable, "-P", "-c", "import dagster\nwith dagster.DagsterInstance.get() as i: i.get_runs(limit=1)"],
            env=module_environment(environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=_TABLES_SECONDS,
            check=False,
        )
        if made.returncode != 0:
            output.seek(0)
            said = output.read().decode("utf-8", "replace").strip()[-2000:]
            raise Unreachable(f"Dagster could not make its tables in the state database. It said:\n{said}")

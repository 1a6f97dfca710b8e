"""Dagster's instance directory below $OPSGUARD_HOME, and its tables in the state database."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, assert_never

from opsguard_defs.instance import INSTANCE_FILE
from opsguard_defs.processes import module_environment
from opsguard_defs.sandbox.layout import private_directory, write_private
from resources.errors import ConfigurationError, Unreachable

FILE_NAME: Final = "dagster.yaml"
WRITTEN_NAME: Final = "dagster.yaml.written"
"""SHA-256 of the file as we last wrote it: equal, and a newer version of the project's may replace it."""
HOME_VARIABLE: Final = "DAGSTER_HOME"
URL_VARIABLE: Final = "OPSGUARD_DAGSTER_URL"
"""What `dagster.yaml` reads the storage's URL from."""
_TABLES_SECONDS: Final = 120.0


def dagster_url(state_url: str) -> str:
    """The state database for Dagster's own storage, which needs psycopg2 and must not be left to guess the driver."""
    scheme, separator, rest = state_url.partition("://")
    if not separator or scheme.partition("+")[0] not in {"postgresql", "postgres"}:
        raise ConfigurationError("OPSGUARD_STATE_URL must be a PostgreSQL URL: postgresql://user@host/database")
    return f"postgresql+psycopg2://{rest}"


class InstanceFile(StrEnum):
    """Whose `dagster.yaml` a home's runs go by."""

    OURS = "ours"
    THEIRS = "theirs"
    """DAGSTER_HOME was set, and holds one: nothing is written there."""
    EDITED = "edited"
    """Ours once, changed by hand since: left as it is."""


@dataclass(frozen=True, slots=True)
class Instance:
    directory: Path
    kind: InstanceFile


def instance_of(home: Path, environ: Mapping[str, str] = os.environ) -> Instance:
    """Which one `prepare` takes. Looks only."""
    named = environ.get(HOME_VARIABLE, "")
    own = home.absolute() / "dagster"
    if named and Path(named).absolute() != own and (Path(named) / FILE_NAME).is_file():
        return Instance(Path(named).absolute(), InstanceFile.THEIRS)
    present, written = _digest(own / FILE_NAME), own / WRITTEN_NAME
    known = {_digest(INSTANCE_FILE), written.read_text(encoding="utf-8").strip() if written.is_file() else ""}
    return Instance(own, InstanceFile.OURS if present is None or present in known else InstanceFile.EDITED)


def prepare(home: Path, state_url: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of Dagster's processes: OPSGUARD_HOME, DAGSTER_HOME and the storage's URL.

    DAGSTER_HOME is that of `environ` where it names an instance (its storage's URL then is what `environ` says, if anything), else
    `home`/dagster (0700), with the project's dagster.yaml unless a person changed it there.
    """
    instance = instance_of(home, environ)
    url = dagster_url(state_url)
    match instance.kind:
        case InstanceFile.THEIRS:
            url = environ.get(URL_VARIABLE) or url
        case InstanceFile.OURS:
            _write(instance.directory)
        case InstanceFile.EDITED:
            pass
        case _:
            assert_never(instance.kind)
    return {"OPSGUARD_HOME": str(home.absolute()), HOME_VARIABLE: str(instance.directory), URL_VARIABLE: url}


def _write(directory: Path) -> None:
    """The digest first: a file without one would count as changed by hand."""
    private_directory(directory)
    wanted = INSTANCE_FILE.read_bytes()
    if (directory / FILE_NAME).is_file() and (directory / FILE_NAME).read_bytes() == wanted:
        return
    write_private(directory / WRITTEN_NAME, f"{hashlib.sha256(wanted).hexdigest()}\n")
    write_private(directory / FILE_NAME, wanted)


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


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

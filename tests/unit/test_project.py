"""What the project's own files promise."""

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

TOP = Path(__file__).parents[2]


def test_the_lock_has_hashes_and_no_addresses() -> None:
    """pip-compile once copied a machine's own package folder into a lock."""
    lock = (TOP / "requirements.lock").read_text()
    assert "://" not in lock
    assert "find-links" not in lock
    pinned = re.findall(r"^([a-z0-9-]+)(?:\[[a-z0-9,-]+\])?==", lock, re.MULTILINE)
    assert len(pinned) > 90
    assert lock.count("--hash=sha256:") >= len(pinned)


def test_the_lock_holds_what_the_project_asks_for() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=!;~ ]", one)[0].lower().replace("_", "-") for one in asked} - {"opsguard"}
    locked = set(re.findall(r"^([a-z0-9-]+)", (TOP / "requirements.lock").read_text(), re.MULTILINE))
    assert names <= locked


def test_the_dagster_family_is_pinned_together() -> None:
    """An unpinned resolve silently takes 2021 releases of the libraries."""
    lock = (TOP / "requirements.lock").read_text()
    core = set(re.findall(r"^dagster(?:-webserver|-graphql)?==(\S+)", lock, re.MULTILINE))
    libraries = set(re.findall(r"^dagster-(?:postgres|aws|pyspark|slack)==(\S+)", lock, re.MULTILINE))
    assert len(core) == len(libraries) == 1

"""What the demo prints is typed by its reader, who has activated no environment: each command must work as it stands."""

import os
import sys
from pathlib import Path

import pytest

from opsguard_defs.cli.output import program

pytestmark = pytest.mark.fast


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working directory, and a PATH without opsguard."""
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_program_on_the_path_is_called_by_its_name(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nowhere / "opsguard").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(nowhere))
    assert program() == "opsguard"


@pytest.mark.parametrize(
    ("started", "typed"), [(".venv/bin/opsguard", ".venv/bin/opsguard"), ("/opt/ops guard/opsguard", "'/opt/ops guard/opsguard'")]
)
def test_another_one_as_it_was_started(nowhere: Path, monkeypatch: pytest.MonkeyPatch, started: str, typed: str) -> None:
    monkeypatch.setattr(sys, "argv", [started])
    assert program() == typed


def test_a_module_by_its_python(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/site/opsguard_defs/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(nowhere / "bin" / "python"))
    assert program() == "bin/python -m opsguard_defs"

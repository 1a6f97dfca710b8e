"""Where the details of a fault of ours go: beside the other logs, for their owner alone."""

from pathlib import Path

import pytest

from opsguard_defs.cli.run import _foreign


def test_the_log_of_a_fault_is_in_the_directory_that_the_runbook_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPSGUARD_HOME", str(tmp_path))
    monkeypatch.delenv("OPSGUARD_DEBUG", raising=False)
    assert _foreign(RuntimeError("bad")) == 1
    (kept,) = (tmp_path / "log").glob("opsguard-error-*.log")
    assert str(kept) in capsys.readouterr().err
    assert kept.stat().st_mode & 0o077 == 0

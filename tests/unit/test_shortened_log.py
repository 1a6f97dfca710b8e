"""The log of UI and daemon: an instance that runs for months must not fill the disk with the ticks of its sensors."""

from pathlib import Path

import pytest

from opsguard_defs.services import LARGEST_LOG_BYTES, shorten

pytestmark = pytest.mark.fast


def test_a_log_past_its_bound_begins_anew_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "dagster.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * LARGEST_LOG_BYTES)
        shorten(log)
        assert log.stat().st_size == LARGEST_LOG_BYTES
        writer.write(b"b")
        shorten(log)
        writer.write(b"the next line")
    assert log.read_bytes() == b"the next line"
    assert (tmp_path / "dagster.log.1").stat().st_size == LARGEST_LOG_BYTES + 1

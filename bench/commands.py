"""Rows about the command line as a person or a script meets it: wall time and memory of whole programs."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.harness import Limited, TreeMemory, timed
from bench.places import MEGABYTE, bench_directory
from opsguard_defs.processes import module_command, module_environment

WATCH: Final = "ftp_demo"
ENTRIES: Final = 20_003
"""A listing of exactly 20,000 rows would be doubted: too round."""
TWO_HOURS_SECONDS: Final = 7200


@contextmanager
def help_text() -> Iterator[Callable[[], float]]:
    with bench_directory() as home:
        yield lambda: timed(lambda: _opsguard(home, "--help"))


@contextmanager
def idle_report() -> Iterator[Callable[[], float]]:
    """One watch of a sandbox that is up and whose state database was used before."""
    with _sandbox() as home:
        yield lambda: timed(lambda: _opsguard(home, "report", f"spool/{WATCH}"))


@contextmanager
def report_memory() -> Iterator[Callable[[], float]]:
    """MB between the peaks of two reports: of 20,000 feeds that the partner has, and of none. The database and the servers are not ours."""
    with _sandbox() as home:

        def growth() -> float:
            outbound, inbox = _places(home)
            for feed in (*outbound.iterdir(), *inbox.iterdir()):
                feed.unlink()
            empty = _peak(home)
            due = time.time() - TWO_HOURS_SECONDS
            for number in range(ENTRIES):
                for place in (outbound, inbox):
                    file = place / f"feed-{number:06}.csv"
                    file.write_bytes(b"0123456789")
                    os.utime(file, (due, due))
            return (_peak(home) - empty) / MEGABYTE

        yield growth


def _peak(home: Path) -> int:
    command = module_command("opsguard_defs", "report", f"spool/{WATCH}", "--json")
    with (home / "report.out").open("wb") as output:
        process = subprocess.Popen(command, env=_environment(home), cwd=home, stdout=output, stderr=output)
        with TreeMemory(process.pid) as memory:
            code = process.wait()
    assert code == 0, f"opsguard report ended with {code}: {(home / 'report.out').read_text()[-3000:]}"
    return memory.peak_bytes


def _places(home: Path) -> tuple[Path, Path]:
    """Of the watch, on the disk behind the sandbox's servers."""
    (outbound,) = home.rglob(f"{WATCH}/outbound")
    (inbox,) = home.rglob(f"{WATCH}/inbox")
    return outbound, inbox


@contextmanager
def _sandbox() -> Iterator[Path]:
    with bench_directory() as home:
        _opsguard(home, "sandbox", "up")
        try:
            _opsguard(home, "report", f"spool/{WATCH}")
            yield home
        finally:
            _opsguard(home, "sandbox", "down")


def _opsguard(home: Path, *arguments: str) -> str:
    done = subprocess.run(
        module_command("opsguard_defs", *arguments), env=_environment(home), cwd=home, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"opsguard {arguments}: {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in module_environment().items() if not name.startswith(("OPSGUARD_", "DAGSTER_"))}
    return {**kept, "OPSGUARD_HOME": str(home), "OPSGUARD_CONFIG": str(home / "opsguard.toml")}


ROWS: Final = (
    Limited("help", "opsguard --help", "s", 0.6, help_text),
    Limited("report", "opsguard report on an idle sandbox, without server start", "s", 4, idle_report),
    Limited("report-memory", "memory of a report of 20,000 entries above an empty one", "MB", 200, report_memory, rounds=1),
)

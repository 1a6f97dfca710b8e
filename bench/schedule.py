"""`opsguard schedule preview` of 1,000 customers and a year, as a program: `python -m bench.schedule [--json] [--only ROW]`.

Every customer is owed all five kinds, in one of twelve zones, at times on the quarter hour: 1,158,000 slots and some.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, run
from typing import Final

from bench.harness import Limited, TreeMemory, main, timed
from bench.places import MEGABYTE, bench_directory
from opsguard_defs.processes import module_command, module_environment

CUSTOMERS: Final = 1_000
YEAR: Final = ("--from", "2026-01-01", "--to", "2026-12-31")
SLOTS: Final = CUSTOMERS * (3 * 365 + 52 + 12)
ZONES: Final = (
    "Asia/Seoul",
    "Asia/Kolkata",
    "Asia/Beirut",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
)


def registry() -> str:
    """Times spread by numbers that share no factor with each other, so that few customers share zone and time."""
    lines = ["version: 1", "customers:"]
    for number in range(CUSTOMERS):
        hour, quarter = 6 + number * 5 % 13, number * 7 % 4 * 15
        lines += [
            f"  - key: customer-{number:04}",
            f"    zone: {ZONES[number % len(ZONES)]}",
            "    route: {provider: slack, channel: C0123456}",
            f'    daily:    {{at: "{hour:02}:{quarter:02}"}}',
            f'    weekly:   {{weekday: thu, at: "{hour:02}:{quarter:02}", catch_up: until_week_end}}',
            f'    monthly:  {{day: 31, at: "{hour:02}:{quarter:02}", catch_up: P2D}}',
            f'    cutoff:   {{at: "{hour + 4:02}:{quarter:02}", catch_up: none}}',
            f'    reminder: {{not_before: "{hour + 1:02}:{quarter:02}", not_after: "{hour + 2:02}:{quarter:02}", template: missing-v1}}',
        ]
    return "\n".join(lines) + "\n"


def _preview(home: Path, *form: str) -> None:
    command = module_command("opsguard_defs", "schedule", "preview", "--registry", str(home / "customers.yaml"), *YEAR, *form)
    run(command, env=module_environment(), cwd=home, check=True, stdout=DEVNULL, stderr=DEVNULL)


@contextmanager
def _home() -> Iterator[Path]:
    with bench_directory() as home:
        (home / "customers.yaml").write_text(registry())
        yield home


@contextmanager
def table() -> Iterator[Callable[[], float]]:
    with _home() as home:
        yield lambda: timed(lambda: _preview(home))


@contextmanager
def calendar() -> Iterator[Callable[[], float]]:
    with _home() as home:

        def measure() -> float:
            (home / "year.ics").unlink(missing_ok=True)
            seconds = timed(lambda: _preview(home, "--ics", "year.ics"))
            assert (home / "year.ics").read_bytes().count(b"BEGIN:VEVENT") >= SLOTS
            return seconds

        yield measure


@contextmanager
def json_lines() -> Iterator[Callable[[], float]]:
    with _home() as home:
        yield lambda: timed(lambda: _preview(home, "--json"))


@contextmanager
def memory() -> Iterator[Callable[[], float]]:
    with _home() as home:

        def measure() -> float:
            command = module_command(
                "opsguard_defs", "schedule", "preview", "--registry", str(home / "customers.yaml"), *YEAR, "--ics", "-"
            )
            with Popen(command, env=module_environment(), cwd=home, stdout=PIPE, stderr=DEVNULL) as process:
                with TreeMemory(process.pid) as seen:
                    assert process.stdout is not None
                    while process.stdout.read(MEGABYTE):
                        pass
                assert process.wait() == 0
            return seen.peak_bytes / MEGABYTE

        yield measure


WORK: Final = f"schedule preview of {CUSTOMERS:,} customers x 365 days"
ROWS: Final = (
    Limited("preview", f"{WORK}: table", "s", 5, table),
    Limited("preview-ics", f"{WORK}: calendar file", "s", 5, calendar),
    Limited("preview-json", f"{WORK}: JSON lines", "s", 5, json_lines),
    Limited("preview-memory", f"{WORK}: peak memory of a calendar", "MB", 200, memory, rounds=1),
)

if __name__ == "__main__":
    sys.exit(main("bench.schedule", ROWS))

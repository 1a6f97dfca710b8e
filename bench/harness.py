"""Measuring: our figure beside the peer's on the same work, in turn on one machine, as a ratio with its spread.

A row is either paired (ratio = peer's seconds / our seconds: above 1 we are faster) or has a fixed limit. Runs alternate, so that what
else the machine does meets both. What is printed is what `bench/results.md` gets, with the command that made it.
"""

import argparse
import gc
import json
import os
import platform
import shlex
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

RESULTS: Final = Path(__file__).parent / "results.md"
ROUNDS: Final = 5
_SAMPLE_SECONDS: Final = 0.01
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class NotHere(Exception):
    """This row cannot be measured on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Each call does the work once and returns its figure, normally seconds."""

    ours: Callable[[], float]
    peer: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Paired:
    """`at_least`: the lowest ratio that is good enough. `open` sets the servers up."""

    name: str
    work: str
    peer: str
    at_least: float
    open: Callable[[], AbstractContextManager[Pair]]

    def run(self, rounds: int) -> "Result":
        with self.open() as pair:
            pair.ours()
            pair.peer()
            figures = [(pair.ours(), pair.peer()) for _ in range(rounds)]
        ratios = [peer / ours for ours, peer in figures]
        middle = statistics.median(ratios)
        return Result(
            work=self.work,
            ours=statistics.median(ours for ours, _ in figures),
            peer=statistics.median(peer for _, peer in figures),
            unit="s",
            ratio=Spread(min(ratios), middle, max(ratios)),
            target=f">= {self.at_least:g}x {self.peer}",
            met=middle >= self.at_least,
        )


@dataclass(frozen=True, slots=True)
class Limited:
    """`measure` returns one figure; the median of the rounds must not exceed `at_most`."""

    name: str
    work: str
    unit: str
    at_most: float
    open: Callable[[], AbstractContextManager[Callable[[], float]]]
    rounds: int | None = None
    """Fewer than the others, for what takes long."""

    def run(self, rounds: int) -> "Result":
        with self.open() as measure:
            figures = [measure() for _ in range(min(rounds, self.rounds or rounds))]
        return Result(
            work=self.work,
            ours=statistics.median(figures),
            peer=None,
            unit=self.unit,
            ratio=None,
            target=f"<= {self.at_most:g} {self.unit}",
            met=statistics.median(figures) <= self.at_most,
            spread=Spread(min(figures), statistics.median(figures), max(figures)),
        )


Row = Paired | Limited


@dataclass(frozen=True, slots=True)
class Spread:
    min: float
    median: float
    max: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.min:.2f} to {self.max:.2f})"


@dataclass(frozen=True, slots=True)
class Result:
    """`met` is None when it could not be measured here; `why` then says so."""

    work: str
    ours: float | None
    peer: float | None
    unit: str
    ratio: Spread | None
    target: str
    met: bool | None
    spread: Spread | None = None
    why: str = ""

    def as_json(self) -> dict[str, object]:
        ratio = self.ratio
        return {
            "work": self.work,
            "ours": self.ours,
            "peer": self.peer,
            "unit": self.unit,
            "ratio": {"min": ratio.min, "median": ratio.median, "max": ratio.max} if ratio else None,
            "target": self.target,
            "met": self.met,
        }

    def as_row(self) -> str:
        if self.met is None:
            return f"| {self.work} | - | - | - | {self.target} | not measured: {self.why} |"
        ours = _figure(self.ours, self.unit) if self.spread is None else f"{self.spread} {self.unit}"
        peer = _figure(self.peer, self.unit)
        ratio = f"{self.ratio}x" if self.ratio is not None else "-"
        return f"| {self.work} | {ours} | {peer} | {ratio} | {self.target} | {'met' if self.met else 'MISSED'} |"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value * 1000:.3f} ms" if unit == "s" and value < 0.1 else f"{value:.2f} {unit}"


HEAD: Final = "| work | ours | peer | ratio: median (min to max) | target | |\n|---|---|---|---|---|---|"


def main(module: str, rows: Sequence[Row], arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 when a target was missed."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description="Our figures beside those of peers, on this machine, now."
    )
    parser.add_argument("--json", action="store_true", help="one array on stdout, nothing else")
    parser.add_argument("--only", metavar="ROW", action="append", choices=[row.name for row in rows], help="repeatable")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measured rounds per row, after one that is thrown away")
    parser.add_argument("--no-record", action="store_true", help=f"do not append to {RESULTS.name}")
    given = parser.parse_args(arguments)
    results = []
    if not given.json:
        print(HEAD)
    for row in rows:
        if given.only and row.name not in given.only:
            continue
        print(f"{row.name}: measuring", file=sys.stderr, flush=True)
        result = _result(row, given.rounds)
        results.append(result)
        if not given.json:
            print(result.as_row(), flush=True)
    if given.json:
        print(json.dumps([result.as_json() for result in results]))
    if not given.no_record:
        _record(module, results, list(sys.argv[1:] if arguments is None else arguments))
    return 1 if any(result.met is False for result in results) else 0


def _result(row: Row, rounds: int) -> Result:
    gc.collect()
    gc.freeze()  # what earlier rows left behind is not searched again while this one is measured: by itself it was a fifth faster
    try:
        return row.run(rounds)
    except NotHere as missing:
        target = f">= {row.at_least:g}x {row.peer}" if isinstance(row, Paired) else f"<= {row.at_most:g} {row.unit}"
        return Result(row.work, None, None, "s" if isinstance(row, Paired) else row.unit, None, target, None, why=str(missing))


def _record(module: str, results: list[Result], arguments: list[str]) -> None:
    command = shlex.join(["python", "-m", module, *arguments])
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end"
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"\n## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: `{command}`\n\n{machine}\n\n{HEAD}\n")
        file.writelines(result.as_row() + "\n" for result in results)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@dataclass(slots=True)
class TreeMemory:
    """Peak resident memory of a process and all its descendants while the block runs, in bytes; sampled every 10 ms."""

    pid: int
    peak_bytes: int = 0
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._done.set()
        assert self._thread is not None
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, tree_bytes(self.pid))


def tree_bytes(pid: int) -> int:
    """Resident bytes now; pages shared between its processes count once per process."""
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0
    return resident + sum(tree_bytes(int(child)) for child in children)

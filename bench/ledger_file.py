"""The file store's figures: `ROWS` for `bench.delivery`, or by itself: `python -m bench.ledger_file`."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench.harness import Limited, Pair, Paired, Row, main, timed
from guards.delivery import row as chain
from guards.delivery import transition
from guards.delivery.entry import Reservation, advance
from guards.delivery.outcome import delivered
from guards.delivery.pins import Pins
from guards.delivery.replay import Replay
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from guards.delivery.slot import Grant, Slot
from resources.ledger.file.claims import Claim, Claims
from resources.ledger.file.disk import Disk, File
from resources.ledger.file.store import FileLedger
from resources.ledger.interface import StoredRow

PINS = Pins({"name": "orders.csv", "body": "x" * 300, "body_sha256": "ab" * 32})
RECEIPT = {"ts": "1764500000.000100"}
SLOTS_PER_ROUND = 25
"""Four transitions each."""
CONTENDING = 8
SECONDS_CONTENDING = 6


def slot(number: object) -> Slot:
    return Slot("acme-1", f"p-{number}", "weekly")


class UnsyncedDisk(Disk):
    """For building what is then measured on the real one."""

    def sync(self, file: File) -> None:
        pass

    def sync_directory(self, path: str = ".") -> None:
        pass

    def flush(self) -> None:
        pass


def lives(rows: int) -> Iterator[StoredRow]:
    """So many rows of slots that were reserved, granted, settled and audited."""
    head, at = Head(), datetime(2026, 11, 30, tzinfo=UTC)
    number = 0
    while head.sequence < rows:
        number += 1
        current: Reservation | None = None
        place = slot(f"old-{number}")
        for step in range(min(4, rows - head.sequence)):
            if current is None:
                ruling = transition.reserve(None, slot=place, pins=PINS, key="run-1", now=at)
            elif step == 1:
                ruling = transition.grant(current, holder="run-1")
            elif step == 2:
                grant = Grant(place, current.reservation_id, 1, 1, "run-1")
                ruling = transition.settle(current, grant=grant, outcome=delivered(RECEIPT))
            else:
                ruling = transition.audit(current)
            (made,) = chain.append(head, ruling.entries, at=at)
            after = advance(current, made.entry, at=at)
            assert isinstance(after, Reservation)
            current, head = after, made.head
            yield StoredRow(made.sequence, made.digest, made.bytes)


@contextmanager
def directory() -> Iterator[Path]:
    """On the disk that holds the temporary directory, never in memory."""
    where = Path(tempfile.mkdtemp(prefix="opsguard-bench-"))
    try:
        yield where
    finally:
        shutil.rmtree(where)


def filled(root: Path, rows: int) -> Path:
    with FileLedger.open(root, disk=UnsyncedDisk) as ledger:
        found = ledger.adopt(lives(rows))
        assert getattr(found, "faults", None) == (), found
    os.sync()
    return root


def life(ledger: FileLedger, number: object) -> list[float]:
    """Seconds of each of the four transitions of one message."""
    taken: list[float] = []

    def step(call):
        started = time.perf_counter()
        answer = call()
        taken.append(time.perf_counter() - started)
        return answer

    held = step(lambda: ledger.reserve(slot(number), PINS, key="run-1"))
    grant = step(lambda: ledger.grant(held.reservation_id, holder="run-1"))
    step(lambda: ledger.settle(grant, delivered(RECEIPT)))
    step(lambda: ledger.audit(held.reservation_id))
    return taken


class Lives:
    """The p50 of the transitions of the next so many messages."""

    def __init__(self, ledger: FileLedger, slots: int = SLOTS_PER_ROUND) -> None:
        self._ledger = ledger
        self._slots = slots
        self._next = 0

    def __call__(self) -> float:
        taken: list[float] = []
        for _ in range(self._slots):
            self._next += 1
            taken += life(self._ledger, f"new-{self._next}")
        return statistics.median(taken)


class InTurn:
    """Ours and the peer's step by step in turn, so that a busy disk meets both; `ours` does the work, `peer` says what the peer took."""

    def __init__(self, ours: Callable[[int], list[float]], peer: Callable[[int], list[float]]) -> None:
        self._work = (ours, peer)
        self._next = 0
        self._peer = 0.0

    def ours(self) -> float:
        ours: list[float] = []
        peer: list[float] = []
        for _ in range(SLOTS_PER_ROUND):
            self._next += 1
            ours += self._work[0](self._next)
            peer += self._work[1](self._next)
        self._peer = statistics.median(peer)
        return statistics.median(ours)

    def peer(self) -> float:
        return self._peer


@contextmanager
def beside_a_raw_append() -> Iterator[Pair]:
    """One row's bytes and fdatasync: what any durable log costs at the least."""
    with directory() as where, FileLedger.open(where / "ledger") as ledger, (where / "raw").open("ab", buffering=0) as raw:
        row = next(lives(1)).row

        def append() -> None:
            raw.write(row)
            os.fdatasync(raw.fileno())

        turns = InTurn(lambda number: life(ledger, f"new-{number}"), lambda _: [timed(append) for _ in range(4)])
        yield Pair(ours=turns.ours, peer=turns.peer)


@contextmanager
def long_beside_short() -> Iterator[Pair]:
    with directory() as where:
        short, long = filled(where / "short", 100), filled(where / "long", 100_000)
        with FileLedger.open(long) as ours, FileLedger.open(short) as peer:
            turns = InTurn(lambda number: life(ours, f"new-{number}"), lambda number: life(peer, f"new-{number}"))
            yield Pair(ours=turns.ours, peer=turns.peer)


class ReadsAll:
    """The design it replaces: rows in one file, a file per claim, and every transition reads and validates all of them before it appends.

    The same rules, rows, claims and digests, and one fdatasync for each; nothing is slowed down on purpose, and it makes no claims of its
    own, which it would have to sync.
    """

    def __init__(self, path: Path, claims: Path) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._claims = Claims(Disk(claims))
        self._unclaimed: set[Slot] = set()

    def validated(self) -> Replay:
        replay = Replay()
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                before = replay.head
                after = replay.take(number, line[11:75].decode("ascii"), line[83:-2])
                if after is not None and after.state is ReservationState.PREPARED and after.slot not in self._unclaimed:
                    stored = self._claims.read(after.slot, after.attempt)
                    wanted = Claim(
                        slot=after.slot, attempt=after.attempt, pins=after.pins, key=after.key, approval={}, after=before
                    )
                    assert stored == wanted.bytes
        assert not replay.faults
        return replay

    def move(self, place: Slot, rule) -> Reservation:
        self._unclaimed.add(place)
        replay = self.validated()
        attempts = replay.attempts.get(place)
        current = attempts[-1] if attempts else None
        rows = chain.append(replay.head, rule(current).entries, at=datetime.now(UTC))
        for row in rows:
            after = advance(current, row.entry, at=row.at)
            assert isinstance(after, Reservation)
            current = after
            self._file.write(b'{"digest":"' + row.digest.encode() + b'","row":' + row.bytes + b"}\n")
        os.fdatasync(self._file.fileno())
        assert current is not None
        return current

    def life(self, number: int) -> list[float]:
        place, now = slot(f"new-{number}"), datetime.now(UTC)
        grant = Grant(place, place.reservation_id(1), 1, 1, "run-1")
        rules = (
            lambda current: transition.reserve(current, slot=place, pins=PINS, key="run-1", now=now),
            lambda current: transition.grant(current, holder="run-1"),
            lambda current: transition.settle(current, grant=grant, outcome=delivered(RECEIPT)),
            transition.audit,
        )
        return [timed(lambda rule=rule: self.move(place, rule)) for rule in rules]


@contextmanager
def beside_reading_all() -> Iterator[Pair]:
    with directory() as where:
        root = filled(where / "ledger", 4_000)
        peer_file = where / "rows.jsonl"
        with FileLedger.open(root) as ledger:
            peer_file.write_bytes(
                b"".join(b'{"digest":"' + each.digest.encode() + b'","row":' + each.row + b"}\n" for each in ledger.rows())
            )
            peer, number = ReadsAll(peer_file, root), iter(range(1_000_000))
            yield Pair(ours=Lives(ledger), peer=lambda: statistics.median(peer.life(next(number))))


@contextmanager
def full_verify() -> Iterator[object]:
    with directory() as where, FileLedger.open(filled(where / "ledger", 30_000)) as ledger:

        def milliseconds_per_thousand() -> float:
            seconds = timed(lambda: ledger.verify())
            return 1_000_000 * seconds / 30_000

        yield milliseconds_per_thousand


_OPEN = """
import resource, sys, time
from pathlib import Path
from resources.ledger.file.store import FileLedger
started = time.perf_counter()
with FileLedger.open(Path(sys.argv[1])) as ledger:
    seconds = time.perf_counter() - started
    assert ledger.head().sequence == 100_000 and not ledger.health().recovery
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@contextmanager
def start_up(figure: int) -> Iterator[object]:
    with directory() as where:
        root = filled(where / "ledger", 100_000)

        def measure() -> float:
            out = subprocess.run(
                [sys.executable, "-c", _OPEN, str(root)],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            ).stdout
            return float(out.split()[figure])

        yield measure


_CONTEND = """
import json, sys, time
from pathlib import Path
from bench.ledger_file import life
from resources.ledger.file.store import FileLedger
root, name, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
with FileLedger.open(root) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    until, waits, number = time.perf_counter() + seconds, [], 0
    while time.perf_counter() < until:
        number += 1
        waits += life(ledger, f"{name}-{number}")
print(json.dumps([len(waits), max(waits)]))
"""


def contend(root: Path, processes: int, name: str) -> tuple[float, float]:
    """Transitions per second of all together, and the longest that one took."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _CONTEND, str(root), f"{name}-{number}", str(SECONDS_CONTENDING)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        for number in range(processes)
    ]
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in started:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    answers = [json.loads(each.communicate()[0]) for each in started]
    return sum(moved for moved, _ in answers) / SECONDS_CONTENDING, max(longest for _, longest in answers)


@contextmanager
def eight_beside_one() -> Iterator[Pair]:
    """Seconds per transition: the peer is one process alone, so a ratio of 0.6 is 0.6 of its throughput."""
    with directory() as where:
        root, rounds = where / "ledger", iter(range(1_000_000))
        yield Pair(
            ours=lambda: 1 / contend(root, CONTENDING, f"many-{next(rounds)}")[0],
            peer=lambda: 1 / contend(root, 1, f"one-{next(rounds)}")[0],
        )


@contextmanager
def longest_wait() -> Iterator[object]:
    with directory() as where:
        rounds = iter(range(1_000_000))
        yield lambda: contend(where / "ledger", CONTENDING, f"many-{next(rounds)}")[1]


ROWS: tuple[Row, ...] = (
    Paired(
        "file_transition",
        "file store: transition p50 over whole lives (reserve, grant, settle, audit)",
        "raw append + fdatasync of one row",
        1 / 2.5,
        beside_a_raw_append,
    ),
    Paired("file_length", "file store: transition p50 at 100,000 rows", "the same at 100 rows", 1 / 1.3, long_beside_short),
    Paired(
        "file_reads_all",
        "file store: transition p50 at 4,000 rows",
        "a store that reads and validates every row and claim each time",
        200,
        beside_reading_all,
    ),
    Limited("file_verify", "file store: full verify, 1,000 rows (15,000 a second)", "ms", 1000 / 15, full_verify),
    Limited("file_start_seconds", "file store: start-up verify of 100,000 rows", "s", 7, lambda: start_up(0), rounds=3),
    Limited("file_start_memory", "file store: peak memory of that", "MiB", 200, lambda: start_up(1), rounds=1),
    Paired(
        "file_contended", "file store: seconds per transition, 8 processes on one store", "one process", 0.6, eight_beside_one
    ),
    Limited("file_longest_wait", "file store: the longest transition of 8 processes in 6 s", "s", 2, longest_wait, rounds=3),
)

if __name__ == "__main__":
    sys.exit(main("bench.ledger_file", ROWS))

"""Files edited at random, anything anywhere: whatever was whole is still there afterwards, and nothing is sent a second time.

Of an edit that makes a line longer or shorter every later line stands elsewhere than was written down; that is where rows get lost.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from guards.delivery.outcome import delivered
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant, Slot
from resources.errors import OpsGuardError
from resources.ledger.file.disk import Disk, File
from resources.ledger.file.scan import intact
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import LEE, PINS, RECEIPT, brought_to, feed, granted

pytestmark = pytest.mark.crash

ROWS_PER_SEGMENT = 9
REPLACEABLE = (S.KNOWN_FAILURE, S.RESOLVED_NOT_SENT)
KEPT = ("lock",)
"""Its inode is the store's identity: another one's is a copy, and refused for that."""

Edit = tuple[str, float, float, bytes]
EDITS = st.tuples(
    st.sampled_from(["change", "insert", "remove", "cut", "double", "swap", "gone", "zeros"]),
    st.floats(0, 0.999),
    st.floats(0, 0.999),
    st.sampled_from([b"\0", b"\n", b"x", b'"', b"{}", b'{"digest":"', b"known_failure", b"\xff" * 40, b"0" * 700]),
)


@pytest.fixture
def files(memory_disk: Path) -> dict[str, bytes]:
    """A store with a slot in each state, in three segments; its files' contents."""
    root = memory_disk / "ledger"
    with FileLedger.open(root, seal_rows=ROWS_PER_SEGMENT) as ledger:
        for state in S:
            brought_to(ledger, state, feed(state.value.replace("_", "-")))
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in KEPT
    }


class SameFiles(Disk):
    """Segments have the inodes that were anchored: files that were edited in place, and not put back from elsewhere."""

    inodes: dict[str, int]

    def status(self, file: File) -> Any:
        return self._as_anchored(file.path, super().status(file))

    def status_of(self, path: str = ".") -> Any:
        return self._as_anchored(path, super().status_of(path))

    def _as_anchored(self, path: str, real: os.stat_result) -> Any:
        return _Status(real, self.inodes[path]) if path in self.inodes else real


class _Status:
    def __init__(self, real: os.stat_result, inode: int) -> None:
        self._real = real
        self.st_ino = inode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def same_files(inodes: dict[str, int]) -> Callable[[Path], SameFiles]:
    def made(root: Path) -> SameFiles:
        disk = SameFiles(root)
        disk.inodes = inodes
        return disk

    return made


def laid_out(root: Path, files: dict[str, bytes]) -> None:
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in KEPT:
            path.unlink()
    for name in ("segments", "claims", "temp", "quarantine"):
        (root / name).mkdir(mode=0o700)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)
    for path in root.rglob("*"):
        if path.is_dir():
            path.chmod(0o700)


def edited(content: bytes, what: str, place: int, size: int, data: bytes) -> bytes | None:
    """None: the file is gone."""
    lines = content.splitlines(keepends=True) or [b""]
    number = place % len(lines)
    match what:
        case "change":
            return content[:place] + data + content[place + len(data) :]
        case "insert":
            return content[:place] + data + content[place:]
        case "remove":
            return content[:place] + content[place + size :]
        case "cut":
            return content[:place]
        case "double":
            return b"".join([*lines[: number + 1], *lines[number:]])
        case "swap":
            return b"".join([*lines[:number], *reversed(lines[number : number + 2]), *lines[number + 2 :]])
        case "zeros":
            return content[:place] + bytes(min(size, len(content) - place)) + content[place + size :]
        case _:
            return None


def whole_rows(root: Path, *below: str) -> set[bytes]:
    held = b"\n".join(path.read_bytes() for name in below for path in sorted((root / name).rglob("*")) if path.is_file())
    return {line for line in held.split(b"\n") if intact(line) is not None}


def sends_again(ledger: FileLedger, state: S, slot: Slot) -> bool:
    """Every call that leads to a send, as a run and a hasty person would make them."""
    calls: list[Callable[[], object]] = [
        lambda: ledger.reserve(slot, PINS, key="run-9"),
        lambda: ledger.grant(slot.reservation_id(1), holder="run-9"),
        lambda: ledger.expire(slot.reservation_id(1)),
        lambda: ledger.grant(slot.reservation_id(1), holder="run-9"),
    ]
    if state not in REPLACEABLE and state is not S.UNKNOWN:
        calls += [
            lambda: ledger.replace(slot, approval=LEE, key="run-9"),
            lambda: ledger.grant(slot.reservation_id(2), holder="run-9"),
        ]
    for call in calls:
        try:
            if isinstance(call(), Grant):
                return True
        except OpsGuardError:
            continue
    return False


def test_files_edited_at_random_lose_no_whole_row_and_send_nothing_again(memory_disk, files):
    root = memory_disk / "ledger"
    disk = same_files({f"segments/{path.name}": path.stat().st_ino for path in (root / "segments").iterdir()})
    names = sorted(files)
    edits_of = st.lists(EDITS, min_size=1, max_size=2)

    @settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
    @given(edits=edits_of, in_segments=st.booleans())
    @example(
        edits=[("cut", 0.875, 0.0, b""), ("gone", 0.6875, 0.0, b"")], in_segments=False
    )  # a segment emptied, and a claim gone
    def edit(edits: list[Edit], in_segments: bool) -> None:
        laid_out(root, files)
        for what, which, where, data in edits:
            among = [name for name in names if name.startswith("segments/")] if in_segments else names
            path = root / among[int(which * len(among))]
            if path.exists():
                content = path.read_bytes()
                after = edited(content, what, int(where * (len(content) + 1)), 1 + int(which * 900), data)
                path.unlink() if after is None else path.write_bytes(after)
        before = whole_rows(root, "segments")
        try:
            with FileLedger.open(root, disk=disk, seal_rows=ROWS_PER_SEGMENT) as ledger:
                _used(ledger)
        except OpsGuardError:
            pass
        lost = before - whole_rows(root, "segments", "quarantine")
        assert not lost, lost

    edit()


def _used(ledger: FileLedger) -> None:
    ledger.health()
    ledger.verify()
    for state in S:
        if state is not S.PREPARED:
            assert not sends_again(ledger, state, feed(state.value.replace("_", "-"))), state
    try:
        answer = ledger.reserve(feed("new"), PINS, key="run-9")
        if not hasattr(answer, "code"):
            ledger.settle(granted(ledger, feed("new")), delivered(RECEIPT))
    except OpsGuardError:
        pass
    ledger.repair()
    ledger.verify()

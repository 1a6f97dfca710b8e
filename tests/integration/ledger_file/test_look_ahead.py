"""What the next in line reads while another process has the lock: only what is published, and it concludes nothing from it."""

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from guards.delivery.refusal import LedgerCode as C
from resources.ledger.file.anchor import SLOT_BYTES
from resources.ledger.file.line import line_of, split_line
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import code, feed, granted, reserved
from tests.patience import until


def read_ahead(ledger: FileLedger) -> int:
    """The sequence of the last row that it knows afterwards."""
    ledger._core.look_ahead()
    return ledger._core.index.head.sequence


def test_published_rows_are_known_before_it_is_ones_turn(root: Path) -> None:
    with FileLedger.open(root, seal_rows=2) as one, FileLedger.open(root, seal_rows=2) as other:
        for number in range(3):
            granted(one, feed(number))
        assert read_ahead(other) == 6, "over the ends of segments"
        assert other.head() == one.head()
        granted(other, feed(3))
        assert one.head() == other.head()
        assert one.verify().faults == other.verify().faults == ()


def test_a_row_that_is_not_published_is_not_taken(root: Path) -> None:
    """Its writer may still take it back."""
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        reserved(one, feed(1))
        published = (root / "anchor").read_bytes()
        reserved(one, feed(2))
        (root / "anchor").write_bytes(published)
        assert read_ahead(other) == 1
        assert other.head() == one.head(), "the look under the lock reads everything"


@pytest.mark.parametrize(("slot", "known"), [(0, 0), (1, 3)])
def test_a_half_written_anchor_is_passed_over_and_not_remembered(root: Path, slot: int, known: int) -> None:
    """Reserving writes slot 0 and leaves slot 1, which was synced last."""
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        for number in range(3):
            reserved(one, feed(number))
        whole = (root / "anchor").read_bytes()
        (root / "anchor").write_bytes(
            whole[: slot * SLOT_BYTES + 100].ljust((slot + 1) * SLOT_BYTES) + whole[(slot + 1) * SLOT_BYTES :]
        )
        assert read_ahead(other) == known
        (root / "anchor").write_bytes(whole)
        granted(other, feed(3))
        assert other.verify().faults == one.verify().faults == ()


def test_rows_that_were_read_ahead_and_are_gone_when_it_is_ones_turn_are_missed(root: Path) -> None:
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        held = reserved(one, feed(1))
        files = {path: path.read_bytes() for path in (root / "anchor", root / "segments" / "000001.jsonl")}
        granted(one, feed(2))
        assert read_ahead(other) == 3
        for path, content in files.items():
            path.write_bytes(content)
        assert code(other.grant(held.reservation_id, holder="run-9")) is C.RECOVERY_REQUIRED


@pytest.mark.parametrize(
    "gone", [lambda root: (root / "anchor").write_bytes(b""), lambda root: (root / "segments" / "000001.jsonl").unlink()]
)
def test_what_cannot_be_read_ahead_is_left_to_the_look_under_the_lock(root: Path, gone: Callable[[Path], object]) -> None:
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        held = reserved(one, feed(1))
        gone(root)
        read_ahead(other)
        assert code(other.grant(held.reservation_id, holder="run-9")) is C.RECOVERY_REQUIRED


@pytest.mark.parametrize("name", ["sequence", "customer", "state", "reservation", "event"])
def test_what_has_its_digest_and_is_no_row_is_left_to_the_look_under_the_lock(root: Path, name: str) -> None:
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        reserved(other, feed(1))
        held = reserved(one, feed(2))
        path = root / "segments" / "000001.jsonl"
        first, last = path.read_bytes().splitlines(keepends=True)
        parts = split_line(last[:-1])
        assert parts is not None
        row = parts[1].replace(b'"' + name.encode() + b'":', b'"x":')
        path.write_bytes(first + line_of(hashlib.sha256(row).hexdigest(), row))
        assert read_ahead(other) == 1
        assert code(other.grant(held.reservation_id, holder="run-9")) is C.RECOVERY_REQUIRED


def test_the_next_in_line_reads_ahead_and_then_has_its_turn(root: Path) -> None:
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        known: list[int] = []
        look = other._core.look_ahead
        other._core.look_ahead = lambda: (look(), known.append(other._core.index.head.sequence))[0]  # type: ignore[method-assign]
        heads = []
        with one._core.locked():
            reserved(one, feed(1))
            waiting = threading.Thread(target=lambda: heads.append(other.head()))
            waiting.start()
            until(lambda: known, "the next in line")
            assert heads == []
        waiting.join()
        assert (known, heads) == ([1], [one.head()])


def test_who_is_interrupted_while_it_waits_keeps_nobody_out(root: Path) -> None:
    with FileLedger.open(root) as one, FileLedger.open(root) as other:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        core = one._core
        known = core.disk.status_of_root
        core.disk.status_of_root = interrupted  # type: ignore[method-assign, assignment]
        with pytest.raises(KeyboardInterrupt):
            one.head()
        core.disk.status_of_root = known  # type: ignore[method-assign]
        granted(other, feed(1))
        assert one.head() == other.head()

"""A glance at a store's files: equal marks mean that nobody wrote. What it misses, nobody would look for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from guards.delivery.outcome import delivered
from resources.ledger.file.peek import NO_MARK, mark_of
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import RECEIPT, feed, granted, reserved, told


def a_reservation(root: Path) -> None:
    with FileLedger.open(root) as ledger:
        reserved(ledger, feed("second"))


def a_row_whose_writer_died_before_the_anchor(root: Path) -> None:
    anchor = (root / "anchor").read_bytes()
    a_reservation(root)
    (root / "anchor").write_bytes(anchor)


def a_cut(root: Path) -> None:
    segment = root / "segments" / "000001.jsonl"
    segment.write_bytes(segment.read_bytes()[:-1])


def a_fence_that_says_no(root: Path) -> None:
    with FileLedger.open(root) as ledger:
        ledger.retire(note="moved")


def an_older_copy_of_the_anchor(root: Path) -> None:
    stored = (root / "anchor").read_bytes()
    (root / "anchor").write_bytes(stored[512:] + stored[:512])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One message was sent from it."""
    with FileLedger.open(tmp_path / "ledger") as ledger:
        grant = granted(ledger, feed("first"))
        told(ledger.settle(grant, delivered(RECEIPT)))
    return tmp_path / "ledger"


def test_opening_and_looking_leave_the_mark(root: Path) -> None:
    before = mark_of(root)

    with FileLedger.open(root) as ledger:
        ledger.verify()
        ledger.health()
        ledger.unfinished()

    assert before
    assert mark_of(root) == before


@pytest.mark.parametrize(
    "change",
    [
        a_reservation,
        a_row_whose_writer_died_before_the_anchor,
        a_cut,
        a_fence_that_says_no,
        an_older_copy_of_the_anchor,
    ],
)
def test_whatever_is_written_changes_the_mark(root: Path, change: Callable[[Path], None]) -> None:
    before = mark_of(root)

    change(root)

    assert mark_of(root) != before


def test_every_transition_changes_the_mark(root: Path) -> None:
    with FileLedger.open(root) as ledger:
        marks = [mark_of(root)]
        reserved(ledger, feed("second"))
        marks.append(mark_of(root))
        grant = granted(ledger, feed("second"))
        marks.append(mark_of(root))
        told(ledger.settle(grant, delivered(RECEIPT)))
        marks.append(mark_of(root))

    assert len(set(marks)) == 4


def test_where_no_store_is_nothing_can_be_told(tmp_path: Path) -> None:
    assert mark_of(tmp_path / "nowhere") == NO_MARK
    assert mark_of(tmp_path) == NO_MARK

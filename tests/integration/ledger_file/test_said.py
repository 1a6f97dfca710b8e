"""What a person reads about a store that may not send: the right cause, and the command that works."""

import pytest

from guards.delivery.replay import FaultKind
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import feed, reserved


@pytest.fixture
def name(root) -> str:
    """Of a store with a row in each of two segments."""
    with FileLedger.open(root, seal_rows=1) as ledger:
        reserved(ledger, feed(1))
        reserved(ledger, feed(2))
        return ledger.health().store


@pytest.mark.parametrize("gone", [{1}, {2}, {1, 2}])
def test_every_missing_segment_is_named(root, name, gone):
    """The only segment was removed: verify spoke of a head, and not of the file."""
    for number in gone:
        (root / f"segments/{number:06d}.jsonl").unlink()
    with FileLedger.open(root, seal_rows=1) as ledger:
        named = {fault.why for fault in ledger.verify().faults if fault.kind is FaultKind.MISSING_SEGMENT}
    assert named == {f"segments/{number:06d}.jsonl is gone" for number in gone}


def test_a_lost_anchor_is_not_called_lost_rows(root, name):
    (root / "anchor").write_bytes(b"")
    with FileLedger.open(root, seal_rows=1) as ledger:
        said = ledger.health().recovery
    assert "the head's anchor is gone" in said
    assert "rows that were there are gone" not in said
    assert "repair --accept-loss --yes" in said


def test_without_a_fence_document_the_store_keeps_its_name_and_says_what_works(root, name):
    (root / "fence.json").unlink()
    with FileLedger.open(root, seal_rows=1) as ledger:
        assert ledger.health().store == name
        assert "`opsguard ledger repair --accept-copy --yes`" in ledger.health().recovery
        assert ledger.repair(accept_copy=True).left == ()
        assert (ledger.health().recovery, ledger.health().store) == ("", name)

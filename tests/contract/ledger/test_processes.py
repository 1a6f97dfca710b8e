"""Exclusion by real processes: one slot, many who want it, one who may."""

import itertools

import pytest

from guards.delivery.outcome import delivered
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.reservation import ReservationState as S
from tests.ledgers.builders import RECEIPT, code, feed, imagined, reserved, told
from tests.ledgers.children import SLOTS, Child, together
from tests.ledgers.worlds import PostgresWorld

pytestmark = pytest.mark.parametrize("world", ["file", "postgres"], indirect=True)
"""The model lives in one process."""


def test_one_of_six_processes_may_send(world, ledger):
    assert sorted(together("send_one", world, 6)) == [False] * 5 + [True]
    assert (ledger.head().sequence, len(ledger.of(feed("race")))) == (3, 1)
    assert told(ledger.of(feed("race"))[0]).state is S.DELIVERED
    assert ledger.verify().faults == ()


def test_every_slot_that_four_processes_race_for_is_sent_by_exactly_one(world, ledger):
    won = [number for numbers in together("send_many", world, 4) for number in numbers]
    assert sorted(won) == list(range(SLOTS))
    assert dict(ledger.counts()) == {"delivered": SLOTS}
    assert ledger.verify().faults == ()


def test_nothing_of_what_four_processes_write_at_once_is_lost(world, ledger):
    reserved(ledger, feed("before"))
    assert list(itertools.chain(*together("append", world, 4))) == [True] * 4 * SLOTS
    found = ledger.verify()
    assert (found.rows, found.slots, found.faults) == (1 + 12 * SLOTS, 1 + 4 * SLOTS, ())
    assert len(list(ledger.rows())) == found.rows


def test_a_holder_that_is_killed_is_expired_by_one_of_many_and_stays_in_doubt(world, ledger):
    held = reserved(ledger, feed("race"))
    holder = Child("hold", world, 0)
    holder.wait_until_ready()
    assert code(ledger.expire(held.reservation_id)) is C.LIVE
    assert code(ledger.grant(held.reservation_id, holder="run-1")) is C.BUSY
    holder.kill()
    if isinstance(world, PostgresWorld):
        world.time_passes()
    assert together("expire", world, 3) == [True] * 3
    (after,) = ledger.of(feed("race"))
    assert (after.state, after.fence, ledger.head().sequence) == (S.UNKNOWN, 1, 3)
    late = ledger.settle(imagined(feed("race"), holder="run-0"), delivered(RECEIPT))
    assert code(late) is C.STALE_GRANT


def test_pages_taken_while_other_processes_write_are_each_whole(world, ledger):
    """Every page in slot order, no slot twice, every prefix of the chain without a hole, and no token for two contents."""
    children = [Child("append", world, number) for number in range(2)]
    for child in children:
        child.wait_until_ready()
    for child in children:
        child.go()
    contents: dict[str, tuple[object, ...]] = {}
    while any(child.process.poll() is None for child in children):
        page = ledger.snapshot()
        slots = [each.slot for each in page.reservations]
        assert slots == sorted(set(slots))
        shown = tuple((each.slot, each.attempt, each.state) for each in page.reservations)
        assert contents.setdefault(page.revision, shown) == shown
        sequences = [row.sequence for row in ledger.rows()]
        assert sequences == list(range(1, len(sequences) + 1))
    assert [child.answer() for child in children] == [[True] * SLOTS] * 2
    assert len(ledger.snapshot().reservations) == 2 * SLOTS
    assert ledger.verify().faults == ()

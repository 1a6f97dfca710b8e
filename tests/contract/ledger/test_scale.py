"""100,000 rows, two years of a thousand customers: taken over, gone on with, and verified, in each store."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from guards.delivery.outcome import delivered
from guards.delivery.reservation import ReservationState as S
from guards.delivery.row import GENESIS, parse_row
from guards.delivery.slot import Grant, Slot
from resources.ledger.interface import StoredRow, Verification
from resources.ledger.memory import MemoryLedger
from tests.ledgers.builders import PINS, RECEIPT, feed, granted, told

ROWS = 100_000
PER_SLOT = 3


def slot_of(number: int) -> Slot:
    return Slot("partner-1", f"p-{number:06}", "feed")


@pytest.fixture(scope="module")
def many() -> list[StoredRow]:
    return list(rows(ROWS))


def rows(count: int) -> Iterator[StoredRow]:
    """Reserved, granted, delivered, slot after slot; the last slot is left being sent. Spelt from three real rows: ten times as quick."""
    model = MemoryLedger(clock=lambda: datetime(2026, 11, 30, tzinfo=UTC))
    told(model.settle(granted(model, slot_of(0)), delivered(RECEIPT)))
    spelt = [stored.row for stored in model.rows()]
    names = (slot_of(0).period.encode(), slot_of(0).reservation_id(1).encode())
    before = [parse_row(row).previous.encode() for row in spelt]
    previous = GENESIS
    for sequence in range(1, count + 1):
        number, place = divmod(sequence - 1, PER_SLOT)
        slot = slot_of(number)
        row = spelt[place].replace(names[0], slot.period.encode()).replace(names[1], slot.reservation_id(1).encode())
        row = row.replace(before[place], previous.encode()).replace(b'"sequence":%d,' % (place + 1), b'"sequence":%d,' % sequence)
        previous = hashlib.sha256(row).hexdigest()
        yield StoredRow(sequence, previous, row)


@pytest.mark.timeout(600)
def test_a_ledger_of_100_000_rows_is_taken_over_and_goes_on(world, many):
    ledger = world.open()
    found = ledger.adopt(many)
    assert isinstance(found, Verification), found
    assert (found.rows, found.slots, found.faults) == (ROWS, -(-ROWS // PER_SLOT), ())
    assert (found.head.sequence, found.head.digest) == (ROWS, many[-1].digest)
    last = slot_of(ROWS // PER_SLOT)
    assert ROWS % PER_SLOT == 1
    assert told(ledger.of(last)[0]).state is S.PREPARED
    grant = ledger.grant(last.reservation_id(1), holder="run-9")
    assert isinstance(grant, Grant)
    assert told(ledger.settle(grant, delivered(RECEIPT))).state is S.DELIVERED
    assert told(ledger.reserve(slot_of(0), PINS, key="run-9")).state is S.DELIVERED
    assert told(ledger.settle(granted(ledger, feed("new")), delivered(RECEIPT))).state is S.DELIVERED
    page = ledger.snapshot(after=slot_of(30_000), limit=500)
    assert [each.slot for each in page.reservations] == [slot_of(30_001 + number) for number in range(500)]
    assert len(ledger.history_of("partner-1", ["p-00000", "p-03333"])) == 10 + 4
    assert ledger.extends(found.head)
    verified = ledger.verify()
    assert (verified.rows, verified.faults, verified.head) == (ROWS + 5, (), ledger.head())

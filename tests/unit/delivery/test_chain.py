"""Rows and their chain: every byte is covered, and verification names what was done to it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.canonical import canonical_json
from guards.delivery import transition
from guards.delivery.entry import Reservation
from guards.delivery.outcome import delivered
from guards.delivery.pins import Pins
from guards.delivery.replay import FaultKind, Replay
from guards.delivery.reservation import ReservationState as S
from guards.delivery.row import GENESIS, Head, NotARow, Row, append, parse_row
from guards.delivery.slot import Slot
from tests.unit.delivery.entries import KIM, LEE, NOW, RECEIPT, carried_out, grant_of

pytestmark = pytest.mark.fast
SLOT = Slot("acme-1", "2026-11", "feed")
OTHER = Slot("acme-2", "2026-11", "feed")


class Book:
    """The smallest store there can be: a list of rows."""

    def __init__(self) -> None:
        self.head = Head()
        self.rows: list[Row] = []

    def write(self, current: Reservation | None, ruling: transition.Ruling) -> Reservation:
        new = append(self.head, ruling.entries, at=NOW)
        self.rows.extend(new)
        self.head = new[-1].head if new else self.head
        return carried_out(current, ruling)

    def deliver(self, slot: Slot, pins: Pins) -> Reservation:
        held = self.write(None, transition.reserve(None, slot=slot, pins=pins, key="run-1", now=NOW, approval=KIM))
        held = self.write(held, transition.grant(held, holder="run-1"))
        return self.write(held, transition.settle(held, grant=grant_of(held), outcome=delivered(RECEIPT)))

    def stored(self) -> list[tuple[int, str, bytes]]:
        return [(row.sequence, row.digest, row.bytes) for row in self.rows]


def verified(stored, head):
    replay = Replay()
    replay.feed(stored)
    replay.finish(head)
    return replay


@pytest.fixture
def book() -> Book:
    made = Book()
    made.deliver(SLOT, Pins({"name": "a\udc80\0\n"}))
    made.deliver(OTHER, Pins({"name": "b"}))
    return made


def test_an_untouched_chain_verifies_and_amounts_to_what_was_done(book):
    replay = verified(book.stored(), book.head)
    assert replay.faults == []
    assert replay.rows == 6
    assert {slot: [each.state for each in attempts] for slot, attempts in replay.attempts.items()} == {
        SLOT: [S.DELIVERED],
        OTHER: [S.DELIVERED],
    }


def test_an_empty_ledger_verifies():
    assert verified([], Head()).faults == []


def test_a_second_attempt_stands_beside_the_first():
    book = Book()
    held = book.write(None, transition.reserve(None, slot=SLOT, pins=Pins({"a": 1}), key="k", now=NOW, approval=KIM))
    held = book.write(held, transition.grant(held, holder="run-1"))
    held = book.write(held, transition.expire(held))
    held = book.write(held, transition.resolve(held, was_sent=False, evidence={"seen": 0}, approval=KIM))
    book.write(held, transition.replace(held, approval=LEE, key="k2"))
    replay = verified(book.stored(), book.head)
    assert replay.faults == []
    assert [each.state for each in replay.attempts[SLOT]] == [S.RESOLVED_NOT_SENT, S.PREPARED]


def test_the_first_row_names_no_row_before_it(book):
    assert book.rows[0].previous == GENESIS


def test_a_row_is_read_back_byte_for_byte(book):
    for row in book.rows:
        assert parse_row(row.bytes) == row
        assert parse_row(row.bytes).digest == row.digest


@given(st.data())
def test_one_changed_byte_anywhere_is_noticed(data):
    book = Book()
    book.deliver(SLOT, Pins({"name": "a"}))
    stored = book.stored()
    number = data.draw(st.integers(0, len(stored) - 1))
    sequence, digest, content = stored[number]
    place = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != content[place]))
    stored[number] = (sequence, digest, content[:place] + bytes([byte]) + content[place + 1 :])
    faults = verified(stored, book.head).faults
    assert faults
    assert faults[0].sequence == sequence


def faults_of(stored, head) -> set[tuple[FaultKind, int]]:
    return {(fault.kind, fault.sequence) for fault in verified(stored, head).faults}


def test_a_row_changed_together_with_its_digest_breaks_the_next(book):
    changed = replace(book.rows[0], entry=replace(book.rows[0].entry, key="run-666"))
    stored = [(1, changed.digest, changed.bytes), *book.stored()[1:]]
    assert faults_of(stored, book.head) == {(FaultKind.CHAIN, 2)}


def test_a_digest_changed_alone_is_named(book):
    stored = book.stored()
    stored[5] = (6, "f" * 64, stored[5][2])
    assert faults_of(stored, book.head) == {(FaultKind.DIGEST, 6), (FaultKind.HEAD, 6)}


def test_a_missing_row_is_named(book):
    stored = book.stored()
    del stored[1]
    assert {(FaultKind.SEQUENCE, 3), (FaultKind.CHAIN, 3), (FaultKind.ILLEGAL_ENTRY, 3)} <= faults_of(stored, book.head)


def test_a_lost_tail_is_named_by_the_anchor(book):
    assert faults_of(book.stored()[:4], book.head) == {(FaultKind.HEAD, 6)}


def test_a_row_that_could_not_have_followed_is_named_with_its_slot(book):
    forged = Row(7, book.head.digest, NOW, replace(book.rows[1].entry, slot=SLOT))
    replay = verified([*book.stored(), (7, forged.digest, forged.bytes)], forged.head)
    assert [(fault.kind, fault.sequence, fault.slot) for fault in replay.faults] == [(FaultKind.ILLEGAL_ENTRY, 7, SLOT)]


def test_one_unreadable_row_does_not_hide_the_other_slots(book):
    stored = book.stored()
    stored[0] = (1, stored[0][1], b"{}")
    replay = verified(stored, book.head)
    assert (replay.faults[0].kind, replay.faults[0].sequence) == (FaultKind.NOT_A_ROW, 1)
    assert [each.state for each in replay.attempts[OTHER]] == [S.DELIVERED]
    assert {fault.slot for fault in replay.faults} == {None, SLOT}


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{}", b"1", b"\xff", b'{"sequence": 1}', b"[" * 100_000])
def test_other_bytes_are_no_row(content):
    with pytest.raises(NotARow):
        parse_row(content)


def test_a_row_in_another_spelling_is_no_row(book):
    loose = json.dumps(json.loads(book.rows[0].bytes)).encode()
    with pytest.raises(NotARow):
        parse_row(loose)


def test_an_unknown_event_state_or_kind_is_no_row(book):
    fields = json.loads(book.rows[0].bytes)
    for name in ("event", "state", "kind", "reason"):
        with pytest.raises(NotARow):
            parse_row(canonical_json({**fields, name: "else"}))


def test_a_row_larger_than_its_bound_is_not_written():
    ruling = transition.reserve(None, slot=SLOT, pins=Pins({"a": "x" * 40_000}), key="k", now=NOW)
    bloated = replace(ruling.entries[0], evidence={"x": "y" * 30_000})
    with pytest.raises(NotARow):
        append(Head(), (bloated,), at=NOW)

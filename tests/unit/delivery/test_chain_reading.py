"""Reading rows: exactly the bytes this program writes, whatever an older copy, an editor or another program made of them."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.canonical import canonical_json
from guards.delivery import row as row_module
from guards.delivery import transition
from guards.delivery.outcome import Reason
from guards.delivery.pins import AUTHORITY, MAY_FAIL_KNOWN, Pins
from guards.delivery.replay import Replay
from guards.delivery.row import MOST_ROW_BYTES, Head, NotARow, Row, append, parse_row
from tests.unit.delivery.entries import FEED, KIM, LEE, NOW, RECEIPT, WEEKLY, carried_out, grant_of
from tests.unit.delivery.test_chain import Book, verified

pytestmark = pytest.mark.fast
WHOLE = {name: "7" if name in ("feature_epoch", "canonical_sequence") else "a" * 64 for name in AUTHORITY}


PINS = Pins({"name": "a"}, WHOLE)


def opening_row(pins: Pins = PINS) -> Row:
    ruling = transition.reserve(None, slot=FEED, pins=pins, key="run-1", now=NOW, approval=KIM)
    return append(Head(), ruling.entries, at=NOW)[0]


def with_field(name: str, value: object) -> bytes:
    fields: dict[str, Any] = json.loads(opening_row().bytes)
    return canonical_json({**fields, name: value})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", True),
        ("version", 2),
        ("sequence", "1"),
        ("sequence", True),
        ("attempt", "1"),
        ("fence", None),
        ("previous", 0),
        ("holder", []),
        ("key", 1),
        ("note", None),
        ("pins_digest", 7),
        ("receipt", []),
        ("evidence", None),
        ("approval", ""),
        ("reservation", "0" * 32),
        ("customer", 5),
        ("customer", "Acme"),
        ("reason", None),
        ("state", []),
        ("pins", {}),
        ("pins", {"facts": {"a": 1}, "authority": {}, "more": 1}),
        ("pins", {"facts": [["a", 1]], "authority": {}}),
        ("pins", {"facts": {"a": 1}, "authority": []}),
        ("pins", {"facts": {"A": 1}, "authority": {}}),
        ("pins", {"facts": {"a": 1}, "authority": {"owner": "a" * 64}}),
        ("at", 5),
        ("at", "2026-11-30"),
        ("at", "2026-11-30T03:00:00.000000"),
        ("at", "2026-11-30T03:00:00+00:00"),
        ("at", "2026-11-30T12:00:00.000000+09:00"),
        ("at", "2026-11-30T03:00:00.000000Z"),
        ("surplus", 1),
    ],
)
def test_a_field_of_another_form_makes_it_no_row(name, value):
    with pytest.raises(NotARow):
        parse_row(with_field(name, value))


def test_a_field_that_is_missing_makes_it_no_row():
    fields = json.loads(opening_row().bytes)
    for name in fields:
        with pytest.raises(NotARow):
            parse_row(canonical_json({key: value for key, value in fields.items() if key != name}))


@pytest.mark.parametrize("number", ["1.0", "1e3", "NaN", "Infinity", "-Infinity", "-0", "01", "1" * 5000])
def test_numbers_that_two_programs_would_spell_differently_are_refused(number):
    stored = opening_row(Pins({"name": 12345678})).bytes.replace(b"12345678", number.encode())
    with pytest.raises(NotARow):
        parse_row(stored)


def test_a_name_twice_in_one_object_is_no_row():
    """A reader that takes the first and one that takes the last would see two different messages."""
    stored = opening_row(Pins({"name": "a"})).bytes
    with pytest.raises(NotARow):
        parse_row(stored.replace(b'{"name":"a"}', b'{"name":"b","name":"a"}'))


def test_text_in_another_spelling_is_no_row():
    stored = opening_row(Pins({"name": "é"})).bytes
    for spelling in (b"\\u00E9", "é".encode(), b"\xe9"):
        with pytest.raises(NotARow):
            parse_row(stored.replace(b"\\u00e9", spelling))


def test_more_than_a_row_may_take_is_no_row():
    row = opening_row(Pins({"name": "a" * 40_000}))
    bloated = Row(1, row.previous, NOW, replace(row.entry, evidence={"x": "y" * 30_000}))
    assert len(bloated.bytes) > MOST_ROW_BYTES
    with pytest.raises(NotARow):
        parse_row(bloated.bytes)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), json_values, min_size=1, max_size=4))
def test_whatever_is_pinned_is_read_back_with_its_digests(facts):
    row = opening_row(Pins(facts))
    again = parse_row(row.bytes)
    assert again.digest == row.digest
    assert again.bytes == row.bytes
    assert again.entry.pins_digest == Pins(facts).digest
    assert canonical_json(again.as_json()) == row.bytes


OTHERS = b'0a"\\{}[]:, \x7f\xff'


def read(stored: bytes) -> Row | str:
    try:
        return parse_row(stored)
    except NotARow as problem:
        return str(problem)


def read_by_decoding(stored: bytes) -> Row | str:
    with patch.object(row_module, "_by_form", return_value=None):
        return read(stored)


def test_rows_are_read_the_same_by_their_form_and_by_decoding_whatever_byte_of_them_changes():
    stored = [row.bytes for row in long_history().rows if len(row.bytes) < 2000] + [opening_row().bytes]
    for whole in stored:
        assert read(whole) == read_by_decoding(whole)
        assert row_module._by_form(whole.decode())
    for whole in (stored[-1], stored[-2], stored[0]):
        for at in range(len(whole)):
            for other in (OTHERS[at % len(OTHERS)], whole[at] ^ 1):
                changed = whole[:at] + bytes((other,)) + whole[at + 1 :]
                assert read(changed) == read_by_decoding(changed)
            shorter = whole[:at] + whole[at + 1 :]
            assert read(shorter) == read_by_decoding(shorter)


@given(st.text(max_size=20), st.dictionaries(st.text(max_size=5), json_values, max_size=3))
def test_notes_and_evidence_of_any_text_are_read_the_same_by_form_and_by_decoding(note, evidence):
    opened = opening_row()
    stored = replace(opened, entry=replace(opened.entry, note=note, evidence=evidence)).bytes
    again = read(stored)
    assert again == read_by_decoding(stored)
    assert not isinstance(again, Row) or (again.entry.note, canonical_json(again.as_json())) == (note, stored)


@pytest.mark.parametrize(
    "pins", ['{"authority":{},"facts":{"b":1,"a":1}}', '{"authority":{},"facts":{"a":1.5}}', '{"authority":{},"facts":{}}']
)
def test_pins_of_the_usual_form_are_still_read_exactly(pins):
    stored = opening_row(Pins({"name": "a"})).bytes.replace(b'{"authority":{},"facts":{"name":"a"}}', pins.encode())
    assert isinstance(read(stored), str)
    assert read(stored) == read_by_decoding(stored)


def test_thin_pins_keep_digest_and_rules():
    pins = Pins({"body": "x" * 30_000, MAY_FAIL_KNOWN: True}, WHOLE)
    assert (pins.thin().digest, pins.thin().may_fail_known) == (pins.digest, True)
    assert len(pins.thin().facts) == 1
    assert pins.thin().thin() is not pins
    assert not Pins({"body": "x"}).thin().may_fail_known
    bare = Pins({MAY_FAIL_KNOWN: True})
    assert bare.thin() is bare


def long_history() -> Book:
    """A weekly slot that may fail known: failed, replaced, delivered, audited; a feed resolved and contradicted."""
    book = Book()
    pins = Pins({"body": "b" * 20_000, MAY_FAIL_KNOWN: True})
    held = book.write(None, transition.reserve(None, slot=WEEKLY, pins=pins, key="run-1", now=NOW, approval=KIM))
    held = book.write(held, transition.grant(held, holder="run-1"))
    held = book.write(held, transition.expire(held))
    first = grant_of(held)
    held = book.write(held, transition.resolve(held, was_sent=False, evidence={"seen": 0}, approval=KIM))
    held = book.write(held, transition.replace(held, approval=LEE, key="run-2"))
    held = book.write(held, transition.grant(held, holder="run-2"))
    held = book.write(held, transition.reconcile(held, receipt=RECEIPT))
    held = book.write(held, transition.audit(held))
    late = transition.settle(held, grant=first, outcome=transition.Outcome(held.state.UNKNOWN, reason=Reason.NO_ANSWER))
    new = append(book.head, late.entries, at=NOW)
    book.rows.extend(new)
    book.head = new[-1].head
    carried_out(held, late)
    return book


def test_a_lean_replay_judges_as_the_whole_one_does_and_keeps_no_body():
    book = long_history()
    whole, lean = verified(book.stored(), book.head), Replay(is_lean=True)
    lean.feed(book.stored())
    lean.finish(book.head)
    assert whole.faults == lean.faults == []
    (kept,), attempts = lean.attempts[WEEKLY], whole.attempts[WEEKLY]
    assert len(attempts) == 2
    assert (kept.state, kept.attempt, kept.fence, kept.holder) == (
        attempts[-1].state,
        attempts[-1].attempt,
        attempts[-1].fence,
        attempts[-1].holder,
    )
    assert kept.pins.digest == attempts[-1].pins.digest
    assert kept.is_contradicted == attempts[-1].is_contradicted
    assert "b" * 100 not in repr(kept)


def test_what_nobody_asks_for_any_more_is_forgotten_and_later_rows_still_follow():
    book = long_history()
    replay = Replay()
    for stored in book.stored():
        replay.take(*stored)
        replay.forget_bodies(WEEKLY)
    replay.finish(book.head)
    assert replay.faults == []
    assert len(replay.attempts[WEEKLY]) == 2


def test_a_lean_replay_names_a_changed_receipt_in_an_audit():
    book = long_history()
    stored = book.stored()
    forged = replace(book.rows[7], entry=replace(book.rows[7].entry, receipt={"other": 1}))
    stored[7] = (8, forged.digest, forged.bytes)
    lean = Replay(is_lean=True)
    lean.feed(stored)
    assert lean.faults[0].why == "an audit replaced the receipt"

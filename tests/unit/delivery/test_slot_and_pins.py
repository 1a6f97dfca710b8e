"""Slots and pins: closed grammars, so that nothing from outside can end up in a key or brick a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.canonical import Json
from guards.decision import Decision, DecisionKind
from guards.delivery.outcome import Approval
from guards.delivery.pins import AUTHORITY, MOST_BYTES, NotPins, Pins
from guards.delivery.slot import Kind, NotASlot, Slot, parse_slot
from guards.gate import Authorized, Flags, Fresh, Lease, gate
from guards.plan import Plan
from guards.requirement import Requirement
from tests.unit.delivery.entries import NOW

pytestmark = pytest.mark.fast
WHOLE = {name: "7" if name in ("feature_epoch", "canonical_sequence") else "a" * 64 for name in AUTHORITY}


@dataclass(frozen=True, slots=True)
class Book:
    subject: str
    size_bytes: int = 7
    action: str = "fetch"
    requirements: tuple[Requirement[None], ...] = ()

    def as_json(self) -> Mapping[str, Json]:
        return {"subject": self.subject}


def test_a_slot_key_is_read_back_as_it_was_written():
    slot = Slot("partner-0123456789abcdef", "0011223344556677-" + "ab" * 32, "feed")
    assert parse_slot(slot.key) == slot


@given(st.text(max_size=80))
def test_text_from_outside_is_a_slot_key_only_when_it_is_exactly_one(text):
    try:
        slot = parse_slot(text)
    except NotASlot:
        return
    assert slot.key == text


@pytest.mark.parametrize(
    "parts",
    [
        ("", "2026", "feed"),
        ("ab", "2026", "feed"),
        ("a" * 65, "2026", "feed"),
        ("Acme", "2026", "feed"),
        ("acme\n", "2026", "feed"),
        ("acme:1", "2026", "feed"),
        ("acme", "", "feed"),
        ("acme", "2026/../x", "feed"),
        ("acme", "2026\n", "feed"),
        ("acme", "p" * 129, "feed"),
        ("acme", "2026", "letter"),
        ("acme", "2026", ""),
    ],
)
def test_a_slot_outside_its_grammar_is_refused(parts):
    with pytest.raises(NotASlot):
        Slot(*parts)


@pytest.mark.parametrize("key", ["", "acme-1", "acme-1:2026", "acme-1:2026:feed:x"])
def test_a_key_has_three_parts(key):
    with pytest.raises(NotASlot):
        parse_slot(key)


def test_a_reservation_has_the_same_number_wherever_the_ledger_is_kept():
    slot = Slot("acme-1", "2026-W48", "weekly")
    assert slot.reservation_id(1) == Slot("acme-1", "2026-W48", "weekly").reservation_id(1)
    assert len({slot.reservation_id(1), slot.reservation_id(2), Slot("acme-2", "2026-W48", "weekly").reservation_id(1)}) == 3


@pytest.mark.parametrize("kind", list(Kind))
def test_only_kinds_that_can_prove_a_failure_are_replaceable(kind):
    assert kind.may_fail_known == (kind in (Kind.REMINDER, Kind.FEED))
    assert Slot("acme-1", "2026", kind).rules is kind


def test_equal_facts_in_any_order_are_equal_pins():
    assert Pins({"a": 1, "b": 2}).digest == Pins({"b": 2, "a": 1}).digest
    assert Pins({"a": 1}).digest != Pins({"a": 2}).digest


def test_undecodable_names_are_told_apart():
    assert Pins({"name": "x\udc80"}).digest != Pins({"name": "x\udc81"}).digest


@pytest.mark.parametrize("facts", [{}, {"Name": 1}, {"a b": 1}, {"": 1}, {"1a": 1}, {"n" * 65: 1}])
def test_pins_are_named_facts(facts):
    with pytest.raises(NotPins):
        Pins(facts)


def test_pins_that_would_not_fit_a_row_are_refused():
    Pins({"body": "b" * (MOST_BYTES - 100)})
    with pytest.raises(NotPins):
        Pins({"body": "b" * MOST_BYTES})


@pytest.mark.parametrize(
    "authority",
    [
        {"owner": "a" * 64},
        {**WHOLE, "other": "a" * 64},
        {**WHOLE, "owner": "A" * 64},
        {**WHOLE, "owner": "a" * 64 + "\n"},
        {**WHOLE, "feature_epoch": "a" * 64},
        {**WHOLE, "canonical_sequence": "-1"},
        {**WHOLE, "canonical_sequence": "٣"},
        {**WHOLE, "canonical_sequence": "1" * 19},
    ],
)
def test_an_authority_is_whole_and_exact_or_absent(authority):
    Pins({"a": 1}, WHOLE)
    with pytest.raises(NotPins):
        Pins({"a": 1}, authority)


def test_an_approval_is_that_of_the_authorization_it_is_written_under():
    proposed = Plan(guard="shelf", watch="one", scope={}, policy={}, targets=(Book("a"),))
    verdict = gate(
        flags=Flags(dry_run=False, auto_remediate=True),
        plan=proposed,
        decision=Decision(4, proposed.digest, DecisionKind.APPROVED, "Kim", "", NOW, NOW + timedelta(hours=1)),
        current=proposed,
        fresh=Fresh(None),
        lease=Lease("shelf/one", "run-1", 1, NOW + timedelta(hours=1)),
        now=NOW,
    )
    assert isinstance(verdict, Authorized)
    assert Approval.of(verdict.authorization) == Approval(4, "Kim", proposed.digest)

"""Input outside the closed form: refused, said where, and the store byte for byte as it was."""

import sys
from dataclasses import replace

import pytest

from guards.canonical import NotCanonical
from guards.delivery.outcome import Approval, Outcome, Reason, delivered, known_failure, unknown
from guards.delivery.pins import NotPins, Pins
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.reservation import ReservationState as S
from guards.delivery.row import MOST_ROW_BYTES
from guards.delivery.slot import NotASlot, Slot
from tests.ledgers.builders import EVIDENCE, KIM, PINS, RECEIPT, brought_to, code, feed, granted, reserved, told

FREE_TEXT = ("free text", "a\nb", "a\0b", "\udc80", "", "x" * 129, "ключ", " run-1")


@pytest.mark.parametrize("text", FREE_TEXT, ids=ascii)
def test_free_text_where_a_name_belongs_is_refused_and_nothing_changes(world, ledger, text):
    """A space in a reason once made every later start of a store fail."""
    held = reserved(ledger)
    failed = brought_to(ledger, S.KNOWN_FAILURE, feed(2))
    before = world.content()
    assert code(ledger.reserve(feed(1), PINS, key=text)) is C.INVALID
    assert code(ledger.grant(held.reservation_id, holder=text)) is C.INVALID
    assert code(ledger.replace(failed.slot, approval=KIM, key=text)) is C.INVALID
    for make in (lambda: Slot(text, "p", "feed"), lambda: Slot("abc", text, "feed"), lambda: Slot("abc", "p", text)):
        with pytest.raises(NotASlot):
            make()
    with pytest.raises(NotPins):
        Pins({text: 1})
    assert world.content() == before


@pytest.mark.parametrize(
    "outcome",
    [
        delivered({}),
        delivered({"body": "b" * 13_000}),
        delivered({"body": "가" * 3_000}),
        known_failure(Reason.REJECTED, "n" * 501),
        unknown(Reason.NO_ANSWER, "n" * 40_000),
        Outcome(S.UNKNOWN),
        Outcome(S.UNKNOWN, receipt=RECEIPT, reason=Reason.NO_ANSWER),
        *(Outcome(state, receipt=RECEIPT) for state in (S.PREPARED, S.SENDING, S.SENT_AUDITED, S.RESOLVED_SENT)),
    ],
    ids=lambda outcome: f"{outcome.state}-{len(outcome.note)}",
)
def test_an_outcome_outside_its_form_is_refused_and_the_grant_still_holds(world, ledger, outcome):
    grant = granted(ledger)
    before = world.content()
    assert code(ledger.settle(grant, outcome)) is C.INVALID
    assert world.content() == before
    assert told(ledger.settle(grant, unknown(Reason.NO_ANSWER))).state is S.UNKNOWN


def test_evidence_and_approvals_outside_their_form_are_refused(world, ledger):
    grant = brought_to(ledger, S.UNKNOWN, feed())
    held = reserved(ledger, feed(1))
    before = world.content()
    for evidence in ({}, {"body": "b" * 13_000}):
        answers = (
            ledger.resolve(grant.reservation_id, was_sent=True, evidence=evidence, approval=KIM),
            ledger.reconcile(grant.reservation_id, receipt=evidence),
        )
        assert {code(answer) for answer in answers} == {C.INVALID}
    for approval in (
        Approval(1, ""),
        Approval(1, "  "),
        Approval(1, "K\0m"),
        Approval(1, "K" * 121),
        Approval(1, "K", "", "c" * 501),
    ):
        assert code(ledger.resolve(grant.reservation_id, was_sent=True, evidence=EVIDENCE, approval=approval)) is C.APPROVAL
        assert code(ledger.reserve(feed(2), PINS, key="k", approval=approval)) is C.APPROVAL
    assert code(ledger.abandon(held.reservation_id, reason=Reason.WITHDRAWN, note="n" * 501)) is C.INVALID
    assert world.content() == before


@pytest.mark.parametrize("value", [1.5, float("nan"), b"bytes", {1: 2}, {"a": {2.5}}], ids=repr)
def test_a_value_that_no_digest_is_defined_for_is_an_error_and_nothing_changes(world, ledger, value):
    grant = granted(ledger)
    unresolved = brought_to(ledger, S.UNKNOWN, feed(1))
    before = world.content()
    with pytest.raises(NotCanonical):
        ledger.settle(grant, delivered({"x": value}))
    with pytest.raises(NotCanonical):
        ledger.resolve(unresolved.reservation_id, was_sent=True, evidence={"x": value}, approval=KIM)
    with pytest.raises(NotCanonical):
        ledger.reconcile(unresolved.reservation_id, receipt={"x": value})
    with pytest.raises(NotCanonical):
        Pins({"x": value})
    assert world.content() == before
    assert told(ledger.settle(grant, delivered(RECEIPT))).state is S.DELIVERED


@pytest.mark.parametrize("text", ["a\0b", "\udc80", "가나다", "line\nbreak", "\u2028", '"}', "\x1b[2J"], ids=ascii)
def test_hostile_text_where_free_text_is_allowed_is_kept_exactly(world, ledger, text):
    """File names are bytes; a note is what a provider said. Neither may break a line, a digest or another slot."""
    pins = Pins({"name": text})
    grant = granted(ledger, feed(), pins)
    told(ledger.settle(grant, known_failure(Reason.REJECTED, text)))
    other = brought_to(ledger, S.UNKNOWN, feed(1))
    told(ledger.resolve(other.reservation_id, was_sent=True, evidence={"said": text}, approval=KIM))
    looking = world.open()
    kept = told(looking.get(grant.reservation_id))
    assert (kept.pins, kept.note) == (pins, text)
    assert dict(told(looking.get(other.reservation_id)).evidence) == {"said": text}
    assert looking.verify().faults == ()


def test_the_largest_pins_with_the_largest_evidence_fit_a_row(world, ledger):
    grant = granted(ledger, feed(), Pins({"body": "b" * 49_000}))
    told(ledger.settle(grant, delivered({"body": "b" * 12_000})))
    with pytest.raises(NotPins):
        Pins({"body": "b" * 50_000})
    assert max(len(row.row) for row in ledger.rows()) <= MOST_ROW_BYTES
    assert world.open().verify().faults == ()


def test_what_is_nested_too_deep_to_be_read_back_is_refused(world, ledger):
    """Evidence nested as deep as the writer's stack allowed could not be parsed by a caller further down: the store was bricked."""
    grant = granted(ledger)
    unresolved = brought_to(ledger, S.UNKNOWN, feed(1))
    before = world.content()
    for depth in (33, 100, 400, 900, 5_000):
        with pytest.raises(NotPins):
            Pins(nested(depth))
        assert code(ledger.settle(grant, delivered(nested(depth)))) is C.INVALID
        assert code(ledger.settle(replace(grant, fence=7), delivered(nested(depth)))) is C.INVALID
        assert code(ledger.reconcile(unresolved.reservation_id, receipt=nested(depth))) is C.INVALID
        answer = ledger.resolve(unresolved.reservation_id, was_sent=True, evidence=nested(depth), approval=KIM)
        assert code(answer) is C.INVALID
    assert world.content() == before
    told(ledger.settle(grant, delivered(nested(32))))
    assert below(sys.getrecursionlimit() // 2, lambda: world.open().verify().faults) == ()


def nested(depth: int) -> dict[str, object]:
    """So many objects, one inside the other."""
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    assert isinstance(value, dict)
    return value


def below(calls: int, act):
    return below(calls - 1, act) if calls else act()

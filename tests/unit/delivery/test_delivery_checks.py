"""The six checks: each says count, cause and next step, and passes only on what was read afresh."""

from dataclasses import replace
from datetime import timedelta

import pytest

from guards.check import CheckOutcome, Severity
from guards.delivery.checks import (
    chain_valid,
    claims_paired,
    every_delivered_has_a_receipt,
    head_extends_last_published,
    no_stale_sending,
    one_delivery_per_slot,
)
from guards.delivery.message import key_for
from guards.delivery.pins import Pins
from guards.delivery.replay import Fault, FaultKind
from guards.delivery.reservation import ReservationState as S
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from tests.unit.delivery.owing import DUE, NOW, WATCH, contradicted, customer, held, owed, reminder

pytestmark = pytest.mark.fast

ROW = Fault(FaultKind.DIGEST, 7, "its content was altered", owed().slot)
CLAIM = Fault(FaultKind.CLAIM, 0, "a claim without a row\n")
HERE, THERE = Head(9, "ab" * 32), Head(7, "cd" * 32)


def failed(outcome: CheckOutcome, *words: str, severity: Severity = Severity.ERROR) -> None:
    assert not outcome.passed
    assert outcome.severity is severity
    assert all(word in outcome.message for word in words), outcome.message


def test_a_chain_without_faults_passes_and_says_how_much_was_read() -> None:
    assert chain_valid(1_204, []) == CheckOutcome(
        "chain_valid", True, "All 1,204 rows read again: each continues the one before it."
    )
    assert chain_valid(3, [CLAIM]).passed


def test_a_fault_in_the_chain_names_its_slot_and_what_to_type() -> None:
    failed(chain_valid(9, [ROW, CLAIM]), "1 fault", "acme-1:2026-11-30:daily", "opsguard ledger verify")


def test_many_faults_are_counted_and_a_few_are_named() -> None:
    faults = [replace(ROW, sequence=number, slot=None) for number in range(8)]

    failed(chain_valid(9, faults), "8 faults", "row 4", "and 3 more")


def test_claims_have_a_check_of_their_own_and_hostile_words_are_shown_as_escapes() -> None:
    assert claims_paired(4, [ROW]).passed
    failed(claims_paired(4, [CLAIM]), "1 claim", "a claim without a row\\n", "unknown")


def test_a_head_that_was_published_must_still_be_in_the_chain() -> None:
    assert head_extends_last_published(published=None, head=HERE, extends=False).passed
    assert head_extends_last_published(published=THERE, head=HERE, extends=True).passed
    failed(head_extends_last_published(published=HERE, head=THERE, extends=False), "row 9", "row 7", "older copy", "send nothing")


def test_messages_left_in_their_call_are_counted_and_named() -> None:
    assert no_stale_sending([], oldest_sending_at=None, now=NOW).message == "No message is left in the middle of its call."
    assert "60 minutes" in no_stale_sending([], oldest_sending_at=DUE, now=NOW).message
    failed(no_stale_sending([owed().slot], oldest_sending_at=DUE, now=NOW), "1 message", "2026-11-30 00:00 UTC", "not sent again")
    failed(no_stale_sending([owed().slot], oldest_sending_at=None, now=NOW), "acme-1:2026-11-30:daily")


def test_what_is_proven_sent_has_a_receipt_about_itself() -> None:
    ours = held(owed(), S.DELIVERED)
    feed = replace(ours, slot=Slot("partner-1", "x", "feed"), pins=Pins({"name": "a.csv"}), receipt={"size_bytes": 7})
    by_hand = replace(held(owed(), S.RESOLVED_SENT), receipt={}, evidence={"asked": "the customer"})

    assert every_delivered_has_a_receipt([ours, feed, by_hand]).message == "3 messages proven sent, each with its evidence."


@pytest.mark.parametrize(
    ("receipt", "problem"),
    [
        ({}, "no receipt and no evidence"),
        ({"key": "0" * 32}, "a receipt for another key"),
        ({"key": key_for(WATCH, owed().slot.reservation_id(1)), "body_sha256": "0" * 64}, "a receipt for another body"),
    ],
)
def test_a_receipt_that_is_missing_or_about_something_else_is_named(receipt: dict[str, object], problem: str) -> None:
    wrong = replace(held(owed(), S.DELIVERED), receipt=receipt)

    failed(every_delivered_has_a_receipt([held(reminder(), S.DELIVERED), wrong]), "1 of 2 messages", problem)


def test_a_message_that_this_installation_called_and_has_no_receipt_about_is_named() -> None:
    """The ledger held a receipt; the state database, which auditors ask, did not."""
    ours, theirs = held(owed(), S.DELIVERED), held(owed(customer("beta-2")), S.DELIVERED)

    found = every_delivered_has_a_receipt(
        [ours, theirs], without_receipt={(ours.reservation_id, ours.holder), ("ab" * 16, "run-1")}
    )

    failed(found, "1 of 2 messages", "acme-1:2026-11-30:daily (no receipt in the state database: recovery writes it)")


def test_one_slot_is_delivered_once() -> None:
    one = owed(customer("beta-2"))
    tried = [held(one, S.KNOWN_FAILURE), replace(held(one, S.DELIVERED), attempt=2)]

    assert "1 slot took more than one attempt" in one_delivery_per_slot({one.slot: tried}, slots=5).message
    assert one_delivery_per_slot({}, slots=1).message == "1 slot, none sent more than once."


def test_a_slot_sent_twice_is_an_error_and_late_evidence_about_a_replaced_attempt_a_warning() -> None:
    one = owed()
    failure = held(one, S.KNOWN_FAILURE)
    again = replace(held(one, S.DELIVERED), attempt=2)

    failed(one_delivery_per_slot({one.slot: [contradicted(failure), again]}, slots=1), "1 of 1 slot sent more than once")
    pending = replace(held(one, S.PREPARED), attempt=2)
    failed(one_delivery_per_slot({one.slot: [contradicted(failure), pending]}, slots=1), "late evidence", severity=Severity.WARN)


def test_an_attempt_that_is_open_beside_a_failed_one_is_no_double() -> None:
    one = reminder()
    tried = [held(one, S.KNOWN_FAILURE), replace(held(one, S.UNKNOWN), attempt=2, changed_at=DUE + timedelta(hours=1))]

    assert one_delivery_per_slot({one.slot: tried}, slots=1).passed

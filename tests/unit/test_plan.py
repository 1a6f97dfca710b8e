"""The plan and its digest: what is approved is exactly what decides the write."""

from typing import Any

import pytest

from guards.canonical import digest
from guards.finding import Finding, counts_by_verdict
from guards.plan import plan_scope_key
from guards.receipt import Receipt
from guards.refusal import RefusalCode
from guards.requirement import Mismatch, mismatches
from tests.unit.plans import Change, plan
from tests.unit.tiny_guard import ShelfVerdict

pytestmark = pytest.mark.fast


def test_the_digest_covers_guard_watch_scope_policy_and_targets_and_nothing_else() -> None:
    assert plan().signed() == {
        "guard": "numbers",
        "watch": "main",
        "scope": {"host": "here"},
        "policy": {"limit": 3},
        "targets": [{"subject": "a", "number": 0}, {"subject": "b", "number": 0}],
    }
    assert plan().digest == digest(plan().signed())
    assert plan().short == plan().digest[:12]


@pytest.mark.parametrize(
    "changes",
    [
        {"guard": "others"},
        {"watch": "other"},
        {"scope": {"host": "there"}},
        {"scope": {}},
        {"policy": {"limit": 4}},
        {"policy": {"limit": 3, "more": None}},
        {"targets": (Change("a"),)},
        {"targets": (Change("b"), Change("a"))},
        {"targets": (Change("a"), Change("b", number=1))},
    ],
)
def test_any_one_changed_part_is_another_plan(changes: dict[str, Any]) -> None:
    assert plan(**changes).digest != plan().digest


def test_what_changes_by_itself_does_not_change_the_digest() -> None:
    aged = plan(findings=(Finding("a", ShelfVerdict.LOW, "It is 7 h old."),), observation="cut")
    assert aged.digest == plan().digest


def test_a_plan_counts_its_gaps_and_what_is_outstanding() -> None:
    findings = (
        Finding("a", ShelfVerdict.LOW, ""),
        Finding("b", ShelfVerdict.FULL, ""),
        Finding("c", ShelfVerdict.LOW, ""),
    )
    made = plan(findings=findings)
    assert made.counts == counts_by_verdict(findings) == {"low": 2, "full": 1}
    assert [one.subject for one in made.gaps] == ["a", "c"]
    assert made.outstanding_bytes == 10
    assert plan_scope_key("numbers", "main") == "numbers/main"


def test_a_finding_has_a_json_form_of_its_own() -> None:
    facts = {"size_bytes": None}
    finding = Finding("a", ShelfVerdict.LOW, "Why.", facts)
    assert finding.as_json() == {"subject": "a", "verdict": "low", "note": "Why.", "facts": {"size_bytes": None}}
    assert finding.as_json()["facts"] is not facts


def test_every_mismatch_is_found_in_plan_order_and_is_a_sentence() -> None:
    found = mismatches(plan().targets, {"b": 2})
    assert found == (Mismatch("a", "0", "None"), Mismatch("b", "0", "2"))
    assert found[1].sentence() == "b: expected 0, found 2"
    assert mismatches(plan().targets, {"a": 0, "b": 0}) == ()


def test_refusal_codes_never_change() -> None:
    assert [code.value for code in RefusalCode] == [
        "dry_run",
        "remediation_disabled",
        "nothing_to_do",
        "not_approved",
        "declined",
        "expired",
        "already_used",
        "stale",
        "busy",
        "observation_incomplete",
        "policy_changed",
    ]


def test_a_receipt_has_no_time_until_the_store_records_it() -> None:
    receipt = Receipt(
        guard="numbers",
        watch="main",
        plan_digest=plan().digest,
        approval_id=1,
        approved_by="ada",
        run_id="run-1",
        subject="a",
        action="change",
        size_bytes=5,
        sha256="0" * 64,
        evidence={},
    )
    assert receipt.recorded_at is None

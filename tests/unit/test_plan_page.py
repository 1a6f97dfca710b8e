"""The pages people decide on: the answer first, bounded, and no file name can act in them."""

import re
from datetime import UTC, datetime

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.launchpad_link import LINK_LIMIT
from assets.plan_alert import gaps_key, plan_alert
from assets.plan_page import (
    DECISION_CHECK,
    IN_PLACE_LIMIT,
    MOST_ROWS,
    decision_check,
    decision_evaluation,
    findings_table,
    plan_metadata,
    receipts_in_place,
    receipts_markdown,
    report_markdown,
)
from assets.plan_words import STATE_WORDS, command, headline, next_step, proposal, rows
from guards.decision import Decision, DecisionKind
from guards.finding import Finding
from guards.receipt import Receipt
from guards.spool.verdict import SpoolVerdict
from resources.state.plan_state import PlanState
from tests.unit.pages import BASE_URL, EVIL, Feed, missing, page, plan

pytestmark = pytest.mark.fast

DIVERGED = Finding("returns.csv", SpoolVerdict.DIVERGED, "The partner's copy is larger than ours: somebody else wrote it.")
FINE = Finding("stock.csv", SpoolVerdict.DELIVERED_VERIFIED, "Both copies have the same bytes.")
AT = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
SEND_TWO = plan(DIVERGED, missing("b.csv"), missing("a.csv"), FINE, targets=("a.csv", "b.csv"))


def decision(kind: DecisionKind, comment: str = "") -> Decision:
    return Decision(7, SEND_TWO.digest, kind, "Kim", comment, AT, AT)


def test_plan_metadata_says_the_answer_first_and_the_numbers_after_it() -> None:
    """Seen: a wide entry at the top pushes every value out of view; the order is kept by the UI."""
    shown = plan_metadata(page(SEND_TWO, oldest_gap_minutes=372, numbers={"delivered": 22}))
    assert list(shown) == [
        "state",
        "approve",
        "report",
        "plan_digest",
        "gaps",
        "targets",
        "outstanding_bytes",
        "oldest_gap_minutes",
        "delivered",
        "findings",
    ]
    assert shown["state"] == "waiting for approval"
    assert (shown["gaps"], shown["targets"], shown["outstanding_bytes"], shown["oldest_gap_minutes"]) == (3, 2, 2000, 372)
    assert shown["plan_digest"] == SEND_TWO.short
    assert shown["approve"].md_str.startswith(
        "**[Open the approval form, filled in](<http://127.0.0.1:3000/locations/opsguard/jobs/"
    )
    assert shown["approve"].md_str.endswith(f"or run `opsguard approve {SEND_TWO.short} --by YOU`")
    assert "\n" not in shown["approve"].md_str


def test_a_plan_without_gaps_has_no_oldest_gap() -> None:
    assert "oldest_gap_minutes" not in plan_metadata(page(plan(FINE), "nothing_to_do"))


def test_the_report_has_a_headline_and_bullets_in_the_plans_order() -> None:
    lines = report_markdown(page(SEND_TWO, oldest_gap_minutes=372)).splitlines()
    assert lines[0] == (
        "**3 feeds never reached the partner (the oldest is 6 h 12 min old)**. "
        f"Plan {SEND_TWO.short} would send 2 feeds (2,000 bytes); 1 feed needs a person."
    )
    assert lines[2] == f"- **send** `a.csv`: missing. {LATE_SHOWN}"
    assert lines[3].startswith("- **send** `b.csv`")
    assert lines[4].startswith("- **person** `returns.csv`: diverged.")


LATE_SHOWN = "The partner has no copy; ours is 6 h 12 min old (limit 60 min)."


def test_many_gaps_are_cut_to_six_bullets_and_counted() -> None:
    many = plan(*(missing(f"feed_{n:02}.csv", "No copy.") for n in range(20)))
    lines = report_markdown(page(many)).splitlines()
    assert sum(line.startswith("- **") for line in lines) == 6
    assert lines[-1] == "- and 14 more"


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=255) | st.just(EVIL * 3), min_size=1, max_size=12))
def test_the_report_stays_in_place_whatever_the_names_are(names: list[str]) -> None:
    """Markdown of 1,000 characters or more is hidden behind a button."""
    hostile = plan(*(missing(name, f"{name} is late") for name in names), targets=(names[0],))
    shown = page(hostile)
    assert len(report_markdown(shown)) < IN_PLACE_LIMIT
    assert len(plan_metadata(shown)["approve"].md_str) < IN_PLACE_LIMIT
    assert len(shown.link) <= LINK_LIMIT
    for record in findings_table(hostile):
        assert all(str(cell).isprintable() for cell in record.data.values())


def test_a_hostile_name_cannot_act_in_the_check() -> None:
    hostile = plan(missing(EVIL, EVIL), targets=(EVIL,))
    result = decision_check(page(hostile, done=EVIL))
    outside_spans = re.sub(r"(`+).*?\1", "", result.description or "")
    assert "![" not in outside_spans.replace("!\\[", "")
    assert "](http://evil" not in result.description
    assert "\u202e" not in result.description


def test_the_check_fails_while_something_waits_and_says_how_to_answer() -> None:
    result = decision_check(page(SEND_TWO), asset_key=["spool", "acme", "plan"])
    assert not result.passed
    assert result.check_name == DECISION_CHECK
    assert result.severity is dg.AssetCheckSeverity.WARN
    assert result.description.startswith("**3 feeds never reached the partner**: 2 missing, 1 diverged. Plan ")
    assert f"`opsguard approve {SEND_TWO.short} --by YOU`" in result.description
    assert f"To refuse: `opsguard decline {SEND_TWO.short} --by YOU`." in result.description
    table = result.metadata["findings"]
    assert [record.data["subject"] for record in table.records] == ["a.csv", "b.csv", "returns.csv"]
    assert [column.name for column in table.schema.columns] == ["subject", "verdict", "action", "why"]


def test_the_check_passes_when_nothing_is_owed_and_nobody_is_asked() -> None:
    result = decision_check(page(plan(FINE), "nothing_to_do"))
    assert result.passed
    assert result.description == "**Of 1 entry seen, none is a gap**. Nothing would be written.\n\nThere is nothing to approve."
    assert "findings" not in result.metadata


@pytest.mark.parametrize(
    ("made", "state"),
    [
        (plan(DIVERGED), "nothing_to_do"),
        (plan(FINE, targets=(Feed("stock.csv", "archive", 0),)), "waiting"),
        (plan(FINE, observation="the partner's listing may be cut"), "incomplete"),
        (SEND_TWO, "declined"),
    ],
)
def test_the_check_does_not_pass_on_a_gap_a_question_or_a_doubt(made, state: str) -> None:
    assert not decision_check(page(made, state)).passed


def test_the_check_is_evaluated_again_after_a_repair() -> None:
    """Seen: without it the lineage graph keeps saying "4 gaps" after they were repaired."""
    event = decision_evaluation(
        page(plan(DIVERGED), "nothing_to_do", done="2 feeds were sent and proven."), asset_key=["spool", "acme", "plan"]
    )
    assert event.asset_key == dg.AssetKey(["spool", "acme", "plan"])
    assert event.check_name == DECISION_CHECK
    assert event.description.startswith("2 feeds were sent and proven.\n\n**1 feed never reached the partner**: 1 diverged.")


def test_a_table_of_many_gaps_is_cut_and_says_so() -> None:
    many = plan(*(missing(f"{n}.csv") for n in range(60)))
    table = findings_table(many)
    assert len(table) == MOST_ROWS + 1
    assert table[-1].data["subject"] == "and 10 more"


def test_a_gap_that_no_target_covers_is_for_later_or_for_a_person() -> None:
    beyond = Finding("c.csv", SpoolVerdict.OVER_CEILING, "The next plan has room for it.")
    assert [row.action for row in rows(plan(beyond, DIVERGED, missing("a.csv"), targets=("a.csv",)))] == [
        "send",
        "person",
        "later",
    ]


@pytest.mark.parametrize(
    ("state", "typed"),
    [
        ("waiting", f"opsguard approve {SEND_TWO.short} --by YOU"),
        ("expired", f"opsguard approve {SEND_TWO.short} --by YOU"),
        ("approved", f"opsguard apply {SEND_TWO.short}"),
        ("used", "opsguard report spool/acme"),
        ("superseded", "opsguard report spool/acme"),
        ("incomplete", "opsguard report spool/acme"),
        ("declined", "opsguard report spool/acme"),
        ("nothing_to_do", ""),
    ],
)
def test_every_state_has_its_command(state: str, typed: str) -> None:
    assert command(page(SEND_TWO, state)) == typed


def test_every_state_of_the_store_has_its_words() -> None:
    assert set(STATE_WORDS) == {state.value for state in PlanState}
    for state in PlanState:
        assert next_step(page(SEND_TWO, state)).endswith(".")


def test_who_decided_is_said() -> None:
    approved = page(SEND_TWO, "approved", decision=decision(DecisionKind.APPROVED))
    assert next_step(approved) == "Approved by Kim until 2026-11-30 06:00 UTC: apply it."
    assert plan_metadata(approved)["approve"].md_str.endswith(f" `opsguard apply {SEND_TWO.short}`")
    declined = page(SEND_TWO, "declined", decision=decision(DecisionKind.DECLINED, "the partner is down"))
    assert next_step(declined) == "Declined by Kim: the partner is down."
    assert next_step(page(SEND_TWO, "declined", decision=decision(DecisionKind.DECLINED))) == "Declined by Kim."


def test_without_decisions_in_the_ui_only_the_command_is_offered() -> None:
    shown = plan_metadata(page(SEND_TWO, link=""))["approve"].md_str
    assert shown == f"Run `opsguard approve {SEND_TWO.short} --by YOU`"


def test_two_kinds_of_action_are_both_said() -> None:
    both = plan(missing("a.csv"), FINE, targets=("a.csv", Feed("stock.csv", "archive", 0)))
    assert proposal(page(both)) == f"Plan {both.short} would send 1 feed and archive 1 feed (1,000 bytes)."
    assert proposal(page(plan(DIVERGED))) == "Nothing would be written; 1 feed needs a person."
    assert headline(page(plan(missing("a.csv")), oldest_gap_minutes=5)) == "1 feed never reached the partner (5 min old)"


def receipt(subject: str, run_id: str = "0a1b2c3d-0000") -> Receipt:
    return Receipt("spool", "acme", "f" * 64, 7, "Kim | Co", run_id, subject, "send", 178_535, "ab" * 32, {})


def test_receipts_link_to_their_runs() -> None:
    lines = receipts_markdown([receipt("a|b.csv")], base_url=BASE_URL).splitlines()
    assert lines[2] == (
        "| `a\\x7cb.csv` | `send` | 178,535 | `abababababab` | `Kim \\x7c Co` "
        "| [`0a1b2c3d`](<http://127.0.0.1:3000/runs/0a1b2c3d-0000>) |"
    )


def test_no_receipts_and_too_many_are_said() -> None:
    assert receipts_markdown([], base_url=BASE_URL) == "Nothing was written."
    assert receipts_markdown([receipt("a")] * 101, base_url=BASE_URL).endswith("and 1 more: `opsguard receipts`")


def test_what_was_written_is_shown_in_place_however_long_the_names_are() -> None:
    assert receipts_in_place([]) == "Nothing was written."
    assert receipts_in_place([receipt("a.csv")]) == "- **send** `a.csv`: 178,535 bytes, SHA-256 `abababababab`"
    many = receipts_in_place([receipt("n" * 250)] * 40)
    assert len(many) < 1000
    assert many.endswith(" more: `opsguard receipts`")


def test_an_alert_has_the_gaps_the_command_and_the_links() -> None:
    message = plan_alert(page(SEND_TWO), base_url=BASE_URL, run_id="r1", asset_key=["spool", "acme", "plan"])
    assert message is not None
    header, sentence, items, action = (block["text"]["text"] for block in message.blocks)
    assert header == "spool/acme: 3 feeds never reached the partner"
    assert sentence.startswith("2 missing, 1 diverged. Plan ")
    assert items.splitlines()[0].startswith("\N{BULLET} send a.csv: missing.")
    assert f"`opsguard approve {SEND_TWO.short} --by YOU`" in action
    assert "|Open the approval form, filled in>" in action
    assert f"<{BASE_URL}/assets/spool/acme/plan?view=checks&amp;checkDetail={DECISION_CHECK}|The plan>" in action
    assert f"<{BASE_URL}/runs/r1|The run>" in action


def test_a_clean_plan_is_no_alert_and_a_doubtful_one_is() -> None:
    assert plan_alert(page(plan(FINE), "nothing_to_do"), base_url=BASE_URL, run_id="r", asset_key=["p"]) is None
    doubtful = page(plan(observation="the partner could not be listed"), "incomplete")
    message = plan_alert(doubtful, base_url=BASE_URL, run_id="r", asset_key=["p"])
    assert message is not None
    assert message.text.splitlines()[0] == "spool/acme could not be observed"
    assert "the partner could not be listed" in message.text


def test_plans_without_targets_are_told_apart_by_their_gaps() -> None:
    """Two nights, two different diverged feeds, nothing to send: one digest, and the second alert would have been swallowed."""
    other = Finding("other.csv", SpoolVerdict.DIVERGED, "larger")
    assert plan(DIVERGED).digest == plan(other).digest
    assert gaps_key(page(plan(DIVERGED))) != gaps_key(page(plan(other)))
    assert gaps_key(page(plan(DIVERGED, other))) == gaps_key(page(plan(other, DIVERGED)))

"""What may not change does not, whoever asks; and what may be forgotten is."""

import psycopg
import pytest

from resources.errors import ConfigurationError
from tests.contract.state.worlds import by_hand, decide, plan, report

APPEND_ONLY = (
    "decisions",
    "approval_uses",
    "journal",
    "journal_outcomes",
    "receipts",
    "ledger_rows",
    "standing_approvals",
    "standing_revocations",
    "published_heads",
)


@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize(
    "statement", ["UPDATE opsguard.{} SET {} = {}", "DELETE FROM opsguard.{}", "TRUNCATE opsguard.{} CASCADE"]
)
def test_an_append_only_table_refuses_every_change(filled, database_url, table, statement):
    column = {
        "approval_uses": "used_by",
        "ledger_rows": "digest",
        "journal_outcomes": "detail",
        "standing_revocations": "comment",
    }.get(table, "id")
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        connection.execute(statement.format(table, column, column))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE opsguard.plans SET targets = '[]'",
        "UPDATE opsguard.reports SET gaps = 0",
        "DELETE FROM opsguard.reports",
        "DELETE FROM opsguard.ledger_slots",
        "DELETE FROM opsguard.ledger_reservations",
        "DELETE FROM opsguard.ledger_head",
        "DELETE FROM opsguard.leases",
        "TRUNCATE opsguard.plans CASCADE",
    ],
)
def test_what_was_decided_on_and_what_was_claimed_is_not_removed(filled, database_url, statement):
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.errors.RaiseException):
        connection.execute(statement)


def aged(database_url, days):
    ago = f"- interval '{days} days'"
    by_hand(
        database_url,
        f"UPDATE opsguard.reports SET reported_at = reported_at {ago}",
        f"UPDATE opsguard.plans SET recorded_at = recorded_at {ago}",
        f"UPDATE opsguard.first_seen SET asked_at = asked_at {ago}, seen_at = seen_at {ago}",
        f"UPDATE opsguard.outbox SET settled_at = settled_at {ago}, queued_at = queued_at {ago}",
    )


def test_pruning_forgets_what_nobody_decided_on_and_keeps_the_rest(filled, database_url):
    undecided, latest = plan("old-1"), plan("old-2")
    for proposed in (undecided, latest):
        report(filled, proposed)
    (alert,) = filled.outbox.claim(1)
    filled.outbox.sent(alert.outbox_id, "1.1")
    filled.outbox.enqueue("waiting", {})
    aged(database_url, 91)
    fresh = filled.first_seen("shelf", "one", ["fresh"])
    pruned = filled.prune(90)
    assert (pruned.reports, pruned.plans, pruned.alerts, pruned.first_seen) == (1, 1, 1, 2)
    kept = [each.digest for each in filled.plans()]
    assert kept == [latest.digest, plan("a.csv").digest], "the newest of the watch, and the decided one"
    assert len(filled.receipts()) == len(filled.journal(guard="shelf", watch="one")) == 1
    assert filled.ledger.verify().faults == ()
    assert filled.first_seen("shelf", "one", ["fresh"]) == fresh
    assert [row.key for row in filled.outbox.pending()] == ["waiting"]


def test_what_is_young_enough_stays(filled, database_url):
    report(filled, plan("old-1"))
    report(filled, plan("old-2"))
    aged(database_url, 89)
    pruned = filled.prune(90)
    assert (pruned.reports, pruned.plans, pruned.first_seen) == (0, 0, 0)


def test_a_plan_reported_again_keeps_its_row(filled, database_url):
    proposed = plan("again")
    report(filled, proposed)
    aged(database_url, 91)
    report(filled, proposed)
    report(filled, plan("newest"))
    assert filled.prune(90).plans == 0
    assert filled.find_plan(proposed.digest).gaps == 1


def test_an_old_plan_that_was_pruned_can_be_reported_and_approved_again(filled, database_url):
    proposed = plan("again")
    report(filled, proposed)
    report(filled, plan("newest"))
    aged(database_url, 91)
    assert filled.prune(90).plans == 1
    report(filled, proposed)
    assert decide(filled, proposed.digest).plan_digest == proposed.digest


def test_the_first_report_of_a_day_prunes_and_the_others_do_not(state_store, database_url):
    """Nothing pruned by itself, and a year of reports every five minutes filled the disk."""
    for name in ("old-1", "old-2"):
        report(state_store, plan(name), run_id=name)
    aged(database_url, 91)
    report(state_store, plan("today"), run_id="first")
    report(state_store, plan("today"), run_id="second")
    assert state_store.prune_daily(90, run_id="second") is None
    assert len(state_store.plans()) == 3
    pruned = state_store.prune_daily(90, run_id="first")
    assert (pruned.reports, pruned.plans) == (2, 2)
    assert [each.digest for each in state_store.plans()] == [plan("today").digest]


def test_the_first_report_of_all_prunes_too(state_store):
    report(state_store, plan("only"), run_id="first")
    assert state_store.prune_daily(90, run_id="first").reports == 0


def test_retention_is_a_day_or_more(state_store):
    with pytest.raises(ConfigurationError):
        state_store.prune(0)


def test_a_name_still_asked_about_is_not_forgotten(state_store, database_url):
    seen = state_store.first_seen("shelf", "one", ["stays"])
    by_hand(
        database_url,
        "UPDATE opsguard.first_seen SET asked_at = now() - interval '2 days', seen_at = seen_at - interval '99 days'",
    )
    again = state_store.first_seen("shelf", "one", ["stays"])
    assert state_store.prune(1).first_seen == 0
    assert again["stays"] < seen["stays"]

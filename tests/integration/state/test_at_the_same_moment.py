"""Real processes at the same moment: one winner each time, and nobody is told a lie."""

from datetime import timedelta

from guards.decision import DecisionKind
from resources.state import StateStore
from tests.contract.state.worlds import plan, report
from tests.integration.state.children import SLOT, together


def test_eight_first_opens_at_once_migrate_once_and_all_work(empty_database_url):
    answers = together("open", empty_database_url, 8)
    assert set(answers) == {plan("a").digest}
    with StateStore.open(empty_database_url) as store:
        assert len(store.plans()) == 1


def test_one_of_two_acquires_the_lease(database_url):
    assert sorted(together("lease", database_url, 2)) == [False, True]


def test_one_approval_is_used_by_one_of_three_runs_that_all_passed_the_gate(state_store, database_url):
    """All three read the approval while it was unused; the store lets one through."""
    report(state_store, plan("a"))
    state_store.decide(
        plan("a").digest, kind=DecisionKind.APPROVED, by="Kim", comment="", valid_for=timedelta(hours=1), channel="cli"
    )
    assert sorted(together("use", database_url, 3)) == [False, False, True]


def test_a_key_is_queued_once_and_each_alert_is_claimed_by_one(state_store, database_url):
    assert sorted(together("enqueue", database_url, 4)) == [False, False, False, True]
    for number in range(7):
        state_store.outbox.enqueue(f"more-{number}", {})
    claimed = [key for keys in together("claim", database_url, 4) for key in keys]
    assert sorted(claimed) == sorted(["the-one-key", *(f"more-{number}" for number in range(7))])


def test_the_same_approval_from_four_windows_is_one_decision(state_store, database_url):
    report(state_store, plan("a"))
    assert len(set(together("decide", database_url, 4))) == 1


def test_four_reports_of_one_plan_at_once_are_one_plan(state_store, database_url):
    assert set(together("report", database_url, 4)) == {plan("a").digest}
    assert len(state_store.plans()) == 1


def test_overlapping_names_are_remembered_by_all(state_store, database_url):
    assert together("seen", database_url, 4) == [2000] * 4
    assert len(state_store.first_seen("shelf", "one", [str(name) for name in range(2003)])) == 2003


def test_one_of_six_may_send_what_is_owed_once(state_store, database_url):
    assert sorted(together("send", database_url, 6)) == [False] * 5 + [True]
    assert state_store.ledger.head().sequence == 2
    assert state_store.ledger.verify().faults == ()
    assert len(state_store.ledger.of(SLOT)) == 1

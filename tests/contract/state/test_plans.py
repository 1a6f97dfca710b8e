"""Plans in the store: what was proposed, found by a prefix, its state, and nothing believed that was altered."""

from dataclasses import replace as changed
from datetime import timedelta

import pytest

from guards.decision import DecisionKind
from guards.finding import Finding
from guards.refusal import RefusalCode, Refused
from resources.state import PlanState, StateStore, StoredPlan
from tests.contract.state.worlds import (
    SCOPE,
    ShelfVerdict,
    approved_and_leased,
    authorize,
    by_hand,
    decide,
    leased,
    plan,
    report,
)

HOSTILE_NAMES = (
    "line\nbreak.csv",
    "bell\a and \x1b[31mred",
    "nul\0inside",
    "undecodable\udc80\udcff",
    "lone\ud800",
    "\u2028separator\u2029",
    "right\u202eto left",
    "back\\slash\\u0000 \\\\",
    "<b>&`*_[x](javascript:1)",
    "x" * 255,
    "é" * 127,
    "🐘" * 63,
    " ",
    "..",
    "-rf",
    "'; DROP TABLE opsguard.plans; --",
    "%s %(x)s :name {0}",
)


def test_a_report_is_found_again_whole(state_store):
    proposed = plan("a.csv", "b.csv", fine=("c.csv",))
    stored = state_store.record_report(proposed, run_id="run-1", overrides={"sla_minutes": 5})
    assert stored == state_store.find_plan(proposed.digest)
    assert (stored.digest, stored.guard, stored.watch) == (proposed.digest, "shelf", "one")
    assert (stored.scope, stored.policy, stored.overrides) == ({"room": "east"}, {"limit": 1}, {"sla_minutes": 5})
    assert [target["subject"] for target in stored.targets] == ["a.csv", "b.csv"]
    assert list(stored.findings) == [finding.as_json() for finding in proposed.findings]
    assert (stored.counts, stored.gaps, stored.run_id, stored.observation) == ({"lost": 2, "fine": 1}, 2, "run-1", "")
    assert stored.first_reported_at == stored.last_reported_at <= state_store.now()


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_a_hostile_name_comes_back_as_it_was(state_store, name):
    """PostgreSQL text refuses NUL and lone surrogates; a feed with such a name must not stop the report of all the others."""
    proposed = changed(plan(name), findings=(Finding(name, ShelfVerdict.LOST, name, {"name": name}),), observation=name)
    stored = state_store.record_report(proposed, run_id=name, overrides={"n": name})
    found = state_store.find_plan(proposed.digest)
    assert found == stored
    assert found.findings == ({"subject": name, "verdict": "lost", "note": name, "facts": {"name": name}},)
    assert (found.targets[0]["subject"], found.observation, found.run_id) == (name, name, name)


def test_the_same_world_reported_twice_is_one_plan(state_store):
    first = report(state_store, plan("a"), run_id="run-1")
    second = report(state_store, plan("a", fine=("z",)), run_id="run-2")
    assert first.digest == second.digest
    assert (second.run_id, second.counts) == ("run-2", {"lost": 1, "fine": 1})
    assert second.first_reported_at == first.first_reported_at < second.last_reported_at
    assert len(state_store.plans()) == 1


def test_plans_come_newest_report_first_and_can_be_narrowed(state_store):
    for watch, name in (("one", "a"), ("two", "b"), ("one", "c")):
        report(state_store, plan(name, watch=watch))
    report(state_store, plan("b", watch="two"))
    assert [each.digest for each in state_store.plans()] == [
        plan("b", watch="two").digest,
        plan("c").digest,
        plan("a").digest,
    ]
    assert [each.digest for each in state_store.plans(watch="one", limit=1)] == [plan("c").digest]
    assert state_store.plans(guard="other") == []


def colliding_plans():
    """Two plans whose digests agree in the first two digits, by search: eight would take hours."""
    seen = {}
    for number in range(1000):
        proposed = plan(f"feed-{number}")
        if proposed.digest[:2] in seen:
            return seen[proposed.digest[:2]], proposed
        seen[proposed.digest[:2]] = proposed
    raise AssertionError


def test_a_prefix_of_two_plans_is_refused_as_ambiguous(state_store):
    first, second = colliding_plans()
    report(state_store, first)
    report(state_store, second)
    refused = state_store.find_plan(first.digest[:2], fewest=2)
    assert isinstance(refused, Refused)
    assert (refused.code, "ambiguous" in refused.message) == (RefusalCode.NOT_APPROVED, True)
    assert isinstance(state_store.find_plan(first.digest[:8]), StoredPlan)


@pytest.mark.parametrize(
    "prefix", ["", "abc", "ffffffff", "%", "________", "g" * 8, "a" * 65, "ab'; --", "\0" * 8, "ａａａａａａａａ", "12345678\n9"]
)
def test_what_is_no_unambiguous_prefix_is_refused(state_store, prefix):
    report(state_store, plan("a"))
    refused = state_store.find_plan(prefix)
    assert isinstance(refused, Refused)
    assert refused.code is RefusalCode.NOT_APPROVED


def test_a_prefix_is_forgiven_its_case_and_blanks(state_store):
    proposed = plan("a")
    report(state_store, proposed)
    assert state_store.find_plan(f"  {proposed.digest[:12].upper()} ").digest == proposed.digest


def test_the_launchpad_needs_twelve_digits(state_store):
    proposed = plan("a")
    report(state_store, proposed)
    assert isinstance(state_store.find_plan(proposed.digest[:11], fewest=12), Refused)
    assert isinstance(state_store.find_plan(proposed.digest[:12], fewest=12), StoredPlan)


def state_of(store: StateStore, proposed) -> PlanState:
    return store.find_plan(proposed.digest).state


def test_a_plan_waits_is_approved_and_is_used(state_store):
    proposed = plan("a")
    report(state_store, proposed)
    assert state_of(state_store, proposed) is PlanState.WAITING
    decide(state_store, proposed.digest)
    assert state_of(state_store, proposed) is PlanState.APPROVED
    state_store.use_approval(authorize(state_store, proposed, leased(state_store)))
    assert state_of(state_store, proposed) is PlanState.USED
    report(state_store, proposed)
    assert state_of(state_store, proposed) is PlanState.WAITING, "reported again after the use: the world still looks like that"


def test_a_plan_without_targets_has_nothing_to_do_and_an_incomplete_one_says_so(state_store):
    assert report(state_store, plan(fine=("x",))).state is PlanState.NOTHING_TO_DO
    assert report(state_store, plan("a", observation="the partner closed the connection")).state is PlanState.INCOMPLETE


def test_a_declined_plan_is_declined_while_that_stands(state_store):
    proposed = plan("a")
    report(state_store, proposed)
    decide(state_store, proposed.digest, kind=DecisionKind.DECLINED)
    assert state_of(state_store, proposed) is PlanState.DECLINED


def test_an_approval_that_lapsed_says_so(state_store):
    proposed = plan("a")
    report(state_store, proposed)
    decide(state_store, proposed.digest, valid_for=timedelta(microseconds=1))
    assert state_of(state_store, proposed) is PlanState.EXPIRED


def test_a_later_report_of_the_watch_supersedes_what_nobody_approved(state_store):
    older, newer = plan("a"), plan("a", "b")
    report(state_store, older)
    report(state_store, newer)
    assert (state_of(state_store, older), state_of(state_store, newer)) == (PlanState.SUPERSEDED, PlanState.WAITING)
    report(state_store, plan("z", watch="two"))
    assert state_of(state_store, newer) is PlanState.WAITING, "another watch's report supersedes nothing here"
    decide(state_store, older.digest)
    assert state_of(state_store, older) is PlanState.APPROVED


@pytest.mark.parametrize(
    "change",
    [
        "guard = 'spool'",
        "watch = 'two'",
        "scope = '{}'",
        "policy = replace(policy, '1', '2')",
        "targets = replace(targets, 'a.csv', 'b.csv')",
    ],
)
def test_a_plan_altered_by_hand_is_not_believed(state_store, database_url, change):
    """Somebody edits the targets of an approved plan in psql: the digest that was approved no longer is the plan's."""
    proposed = plan("a.csv")
    report(state_store, proposed)
    by_hand(database_url, "UPDATE opsguard.plans SET " + change)
    refused = state_store.find_plan(proposed.digest)
    assert isinstance(refused, Refused)
    assert (refused.code, "altered" in refused.message) == (RefusalCode.STALE, True)
    (listed,) = state_store.plans()
    assert (listed.state, listed.targets) == (PlanState.INCOMPLETE, ())


def test_a_report_onto_an_altered_plan_is_an_error(state_store, database_url):
    from resources.state import Altered

    report(state_store, plan("a"))
    by_hand(database_url, "UPDATE opsguard.plans SET policy = '{}'")
    with pytest.raises(Altered):
        report(state_store, plan("a"))


def test_a_report_of_twenty_thousand_findings_is_kept_whole(state_store):
    proposed = plan(*(f"lost-{n}" for n in range(1000)), fine=tuple(f"fine-{n}" for n in range(19_000)))
    stored = report(state_store, proposed)
    assert len(stored.findings) == 20_000
    assert state_store.find_plan(stored.digest[:8]).findings[-1] == proposed.findings[-1].as_json()
    assert state_store.plans()[0].counts == {"lost": 1000, "fine": 19_000}


def test_the_scope_of_a_plan_is_the_scope_of_its_lease(state_store):
    assert approved_and_leased(state_store).scope == SCOPE

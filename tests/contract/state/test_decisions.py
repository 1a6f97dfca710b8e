"""Decisions in the store: single use, expiry by the database clock, declined beats approved, recorded once, never edited."""

from datetime import timedelta

import psycopg
import pytest

from guards.decision import Decision, DecisionKind
from guards.refusal import RefusalCode, Refused
from resources.errors import ConfigurationError
from resources.state import Altered, LeaseLost
from tests.contract.state.worlds import approved_and_leased, authorize, by_hand, decide, leased, plan, report

DECLINED = DecisionKind.DECLINED


@pytest.fixture
def proposed(state_store):
    made = plan("a.csv")
    report(state_store, made)
    return made


def code(answer):
    assert isinstance(answer, Refused), answer
    return answer.code


def test_a_decision_says_who_why_and_until_when_by_the_database_clock(state_store, proposed):
    before = state_store.now()
    made = decide(state_store, proposed.digest, by="Kim Þór", comment="checked\nwith them \udc80", valid_for=timedelta(hours=2))
    assert isinstance(made, Decision)
    assert before <= made.decided_at <= state_store.now()
    assert made.valid_until - made.decided_at == timedelta(hours=2)
    assert state_store.decisions(proposed.digest) == (made,)
    assert state_store.decision(proposed.digest) == made
    assert (made.decided_by, made.comment, made.channel, made.used_by) == ("Kim Þór", "checked\nwith them \udc80", "cli", "")


def test_the_same_approval_again_is_the_one_already_recorded(state_store, proposed):
    """An operator's double click, and a command repeated after its answer was lost, are one decision."""
    assert decide(state_store, proposed.digest) == decide(state_store, proposed.digest, comment="again")
    assert len(state_store.decisions(proposed.digest)) == 1


def test_another_person_or_another_answer_is_another_decision(state_store, proposed):
    first = decide(state_store, proposed.digest)
    second = decide(state_store, proposed.digest, by="Lee")
    declined = decide(state_store, proposed.digest, kind=DECLINED, by="Lee")
    assert [first, second, declined] == list(state_store.decisions(proposed.digest))
    assert state_store.decision(proposed.digest) == declined


def test_an_approval_that_lapsed_can_be_given_again(state_store, proposed):
    first = decide(state_store, proposed.digest, valid_for=timedelta(microseconds=1))
    second = decide(state_store, proposed.digest)
    assert second.decision_id > first.decision_id


def test_a_standing_decline_refuses_approvals_and_a_lapsed_one_does_not(state_store, proposed):
    decide(state_store, proposed.digest, kind=DECLINED, by="Lee", valid_for=timedelta(hours=1))
    assert code(decide(state_store, proposed.digest)) is RefusalCode.DECLINED
    other = plan("b.csv")
    report(state_store, other)
    decide(state_store, other.digest, kind=DECLINED, valid_for=timedelta(microseconds=1))
    assert isinstance(decide(state_store, other.digest), Decision)


def test_a_short_decline_does_not_hide_a_long_one(state_store, proposed):
    decide(state_store, proposed.digest, kind=DECLINED, by="Lee", valid_for=timedelta(hours=9))
    decide(state_store, proposed.digest, kind=DECLINED, by="Kim", valid_for=timedelta(microseconds=1))
    assert code(decide(state_store, proposed.digest)) is RefusalCode.DECLINED


def test_there_is_nothing_to_approve_in_a_plan_without_targets(state_store):
    empty = plan(fine=("x",))
    report(state_store, empty)
    assert code(decide(state_store, empty.digest)) is RefusalCode.NOTHING_TO_DO


def test_a_plan_from_an_incomplete_observation_is_not_approved(state_store):
    doubtful = plan("a", observation="the listing stopped at 1000 rows")
    report(state_store, doubtful)
    assert code(decide(state_store, doubtful.digest)) is RefusalCode.OBSERVATION_INCOMPLETE
    assert isinstance(decide(state_store, doubtful.digest, kind=DECLINED), Decision)


def test_what_nobody_reported_is_not_approved(state_store):
    assert code(decide(state_store, "f" * 64)) is RefusalCode.NOT_APPROVED


@pytest.mark.parametrize("by", ["", " ", "K" * 121, "a\nb", "a\0", "\udc80", "a\u202eb", "\u2028"])
def test_who_decides_is_up_to_120_printable_characters(state_store, proposed, by):
    with pytest.raises(ConfigurationError):
        decide(state_store, proposed.digest, by=by)
    assert state_store.decisions(proposed.digest) == ()


@pytest.mark.parametrize("valid_for", [timedelta(0), timedelta(seconds=-1), timedelta(days=91)])
def test_a_decision_is_valid_for_a_bounded_time(state_store, proposed, valid_for):
    with pytest.raises(ConfigurationError):
        decide(state_store, proposed.digest, valid_for=valid_for)


def test_a_comment_has_a_bound(state_store, proposed):
    with pytest.raises(ConfigurationError):
        decide(state_store, proposed.digest, comment="c" * 2001)


def test_an_approval_is_used_once_and_its_own_run_may_ask_again(state_store):
    authorization = approved_and_leased(state_store, holder="run-2")
    assert state_store.use_approval(authorization) is None
    assert state_store.use_approval(authorization) is None
    (used,) = state_store.decisions(authorization.plan_digest)
    assert used.used_by == "run-2"
    assert used.used_at <= state_store.now()


def test_another_run_does_not_use_a_used_approval(state_store, proposed):
    decide(state_store, proposed.digest)
    first = leased(state_store, holder="run-2")
    mine = authorize(state_store, proposed, first)
    state_store.release(first)
    other = authorize(state_store, proposed, leased(state_store, holder="run-3"))
    assert state_store.use_approval(other) is None
    state_store.release(leased(state_store, holder="run-3"))
    leased(state_store, holder="run-2")
    assert code(state_store.use_approval(mine)) is RefusalCode.BUSY, "its fence is not the newest"
    again = plan("a.csv")
    assert code(decide(state_store, again.digest, by="Lee")) is RefusalCode.ALREADY_USED


def test_a_used_plan_is_approved_again_only_after_it_was_reported_again(state_store):
    authorization = approved_and_leased(state_store, "a.csv")
    state_store.use_approval(authorization)
    assert code(decide(state_store, authorization.plan_digest)) is RefusalCode.ALREADY_USED
    report(state_store, plan("a.csv"))
    again = decide(state_store, authorization.plan_digest)
    assert isinstance(again, Decision)
    assert state_store.decision(authorization.plan_digest) == again


def test_an_approval_declined_after_the_gate_was_passed_is_not_used(state_store):
    authorization = approved_and_leased(state_store)
    decide(state_store, authorization.plan_digest, kind=DECLINED, by="Lee")
    assert code(state_store.use_approval(authorization)) is RefusalCode.DECLINED


def test_an_approval_that_lapsed_after_the_gate_was_passed_is_not_used(state_store, proposed, database_url):
    decide(state_store, proposed.digest, valid_for=timedelta(hours=1))
    authorization = authorize(state_store, proposed, leased(state_store))
    with psycopg.connect(database_url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM opsguard.decisions")
    assert code(state_store.use_approval(authorization)) is RefusalCode.NOT_APPROVED


def test_a_lease_that_ended_before_the_use_refuses_and_after_it_is_lost(state_store):
    authorization = approved_and_leased(state_store)
    state_store.release(leased(state_store, holder="run-2"))
    assert code(state_store.use_approval(authorization)) is RefusalCode.BUSY

    second = approved_and_leased(state_store, "b.csv")
    assert state_store.use_approval(second) is None
    leased(state_store, holder="run-2")
    with pytest.raises(LeaseLost):
        state_store.use_approval(second)


@pytest.mark.parametrize(
    "change",
    [
        "decided_by = 'Mallory'",
        "kind = 'declined'",
        "valid_until = valid_until + interval '1 hour'",
        "decided_at = decided_at - interval '1 microsecond'",
        "comment = 'fine'",
        "channel = 'launchpad'",
    ],
)
def test_a_decision_altered_by_hand_is_not_believed(state_store, proposed, database_url, change):
    decide(state_store, proposed.digest)
    by_hand(database_url, "UPDATE opsguard.decisions SET " + change)
    with pytest.raises(Altered, match="altered"):
        state_store.decision(proposed.digest)

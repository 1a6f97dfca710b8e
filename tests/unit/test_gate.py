"""The gate: every refusal with its sentence, the order they are asked in, and a predicate written another way."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guards.decision import DecisionKind
from guards.gate import Authorized, Flags, Fresh, NotAuthorized, gate, precheck
from guards.plan import Plan, plan_scope_key
from guards.refusal import RefusalCode, Refused
from tests.unit.plans import HOUR, NOW, WRITE, Change, World, decision, lease, plan

pytestmark = pytest.mark.fast

GOOD: dict[str, Any] = {
    "flags": WRITE,
    "plan": plan(),
    "decision": decision(),
    "current": plan(),
    "fresh": Fresh({"a": 0, "b": 0}),
    "lease": lease(),
    "now": NOW,
}
SHORT = plan().short


def asked(**changes: Any) -> Authorized | Refused:
    return gate(**{**GOOD, **changes})


def refused(**changes: Any) -> tuple[RefusalCode, str]:
    outcome = asked(**changes)
    assert isinstance(outcome, Refused), outcome
    return outcome.code, outcome.message


def test_when_everything_holds_the_write_may_happen() -> None:
    assert isinstance(asked(), Authorized)


REFUSALS: list[tuple[dict[str, Any], RefusalCode, str]] = [
    ({"flags": Flags()}, RefusalCode.DRY_RUN, f"dry_run is on: nothing of plan {SHORT} was written"),
    (
        {"flags": Flags(dry_run=False)},
        RefusalCode.REMEDIATION_DISABLED,
        f"auto_remediate is off: nothing of plan {SHORT} was written",
    ),
    (
        {"plan": plan(observation="half was hidden")},
        RefusalCode.OBSERVATION_INCOMPLETE,
        f"plan {SHORT} rests on an incomplete observation: half was hidden",
    ),
    (
        {"plan": plan(targets=())},
        RefusalCode.NOTHING_TO_DO,
        f"plan {plan(targets=()).short} has no targets: there is nothing to write",
    ),
    ({"decision": None}, RefusalCode.NOT_APPROVED, f"nobody has approved plan {SHORT}: `opsguard approve {SHORT} --by YOU`"),
    (
        {"decision": decision(plan_digest="f" * 64)},
        RefusalCode.NOT_APPROVED,
        f"nobody has approved plan {SHORT}: `opsguard approve {SHORT} --by YOU`",
    ),
    (
        {"decision": decision(kind=DecisionKind.DECLINED)},
        RefusalCode.DECLINED,
        f"plan {SHORT} was declined by ada: report again and ask again",
    ),
    (
        {"decision": decision(used_by="run-0")},
        RefusalCode.ALREADY_USED,
        f"the approval of plan {SHORT} was used by run run-0: report again, and approve what is still open",
    ),
    (
        {"decision": decision(valid_until=NOW)},
        RefusalCode.EXPIRED,
        f"the approval of plan {SHORT} ended at 2026-03-02 05:30 UTC: approve again",
    ),
    (
        {"current": plan(policy={"limit": 4})},
        RefusalCode.POLICY_CHANGED,
        f"policy limit changed since plan {SHORT} was made: report again and approve the new plan",
    ),
    (
        {"current": plan(policy={}, scope={"host": "there", "port": 1})},
        RefusalCode.POLICY_CHANGED,
        f"scope host, scope port, policy limit changed since plan {SHORT} was made: report again and approve the new plan",
    ),
    (
        {"current": plan(policy={"limit": 3, "more": None})},
        RefusalCode.POLICY_CHANGED,
        f"policy more changed since plan {SHORT} was made: report again and approve the new plan",
    ),
    (
        {"current": plan(watch="other")},
        RefusalCode.POLICY_CHANGED,
        f"the watch (numbers/main is not numbers/other) changed since plan {SHORT} was made: report again and approve the new plan",
    ),
    (
        {"current": plan(guard="others")},
        RefusalCode.POLICY_CHANGED,
        f"the watch (numbers/main is not others/main) changed since plan {SHORT} was made: report again and approve the new plan",
    ),
    ({"lease": None}, RefusalCode.BUSY, "another run is writing numbers/main: wait for it, then report again"),
    (
        {"lease": lease(scope="numbers/other")},
        RefusalCode.BUSY,
        "another run is writing numbers/main: wait for it, then report again",
    ),
    ({"lease": lease(expires_at=NOW)}, RefusalCode.BUSY, "another run is writing numbers/main: wait for it, then report again"),
    (
        {"fresh": Fresh({"a": 0, "b": 0}, incomplete="half was hidden")},
        RefusalCode.OBSERVATION_INCOMPLETE,
        "could not observe completely: half was hidden",
    ),
    (
        {"fresh": Fresh({"a": 0, "b": 1})},
        RefusalCode.STALE,
        f"plan {SHORT} is stale, nothing was written. b: expected 0, found 1. Report again",
    ),
    (
        {"fresh": Fresh({})},
        RefusalCode.STALE,
        f"plan {SHORT} is stale, nothing was written. a: expected 0, found None (and 1 more). Report again",
    ),
]


@pytest.mark.parametrize(("changes", "code", "message"), REFUSALS)
def test_each_condition_alone_refuses_with_its_own_sentence(changes: dict[str, Any], code: RefusalCode, message: str) -> None:
    assert refused(**changes) == (code, message)


ORDER: list[tuple[str, dict[str, Any]]] = [
    ("dry_run", {"flags": Flags()}),
    ("observation_incomplete", {"plan": plan(observation="hidden")}),
    ("nothing_to_do", {"plan": plan(targets=(), observation="")}),
    ("not_approved", {"decision": None}),
    ("policy_changed", {"current": plan(policy={})}),
    ("busy", {"lease": None}),
    ("observation_incomplete", {"fresh": Fresh({}, incomplete="hidden")}),
    ("stale", {"fresh": Fresh({})}),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_when_several_conditions_fail_the_earliest_is_told(first: int) -> None:
    changes: dict[str, Any] = {}
    for _, later in reversed(ORDER[first:]):
        changes.update(later)
    assert refused(**changes)[0].value == ORDER[first][0]


def test_an_approval_holds_until_the_instant_it_ends() -> None:
    assert isinstance(asked(decision=decision(valid_until=NOW + timedelta(microseconds=1))), Authorized)
    assert isinstance(asked(lease=lease(expires_at=NOW + timedelta(microseconds=1))), Authorized)


def test_the_later_ops_of_the_run_that_used_the_approval_may_go_on_even_when_it_has_ended() -> None:
    """A long write must not be cut in half by the clock: the approval was used in time, by this run, under its lease."""
    used = decision(used_by="run-1", valid_until=NOW - HOUR)
    assert isinstance(asked(decision=used), Authorized)
    assert refused(decision=used, lease=lease(holder="run-2"))[0] is RefusalCode.ALREADY_USED
    assert refused(decision=used, lease=None)[0] is RefusalCode.ALREADY_USED


def test_a_declined_approval_is_declined_whoever_used_it() -> None:
    assert refused(decision=decision(kind=DecisionKind.DECLINED, used_by="run-1"))[0] is RefusalCode.DECLINED


def test_what_has_become_eligible_since_does_not_matter() -> None:
    assert isinstance(asked(fresh=Fresh({"a": 0, "b": 0, "c": 9}), current=plan(targets=(Change("c"),))), Authorized)


def test_a_later_op_of_the_run_is_asked_only_for_what_is_still_to_be_written() -> None:
    """The first target was written by this run, so its facts have changed since; the second must still be as approved."""
    written = Fresh({"a": 9, "b": 0})
    assert refused(fresh=written)[0] is RefusalCode.STALE
    assert isinstance(asked(fresh=written, remaining=(Change("b"),)), Authorized)
    assert refused(fresh=Fresh({"a": 9, "b": 1}), remaining=(Change("b"),)) == (
        RefusalCode.STALE,
        f"plan {SHORT} is stale, nothing was written. b: expected 0, found 1. Report again",
    )
    assert isinstance(asked(fresh=Fresh({}), remaining=()), Authorized)


def test_the_precheck_refuses_before_the_world_is_looked_at_again() -> None:
    early = {"flags": WRITE, "plan": plan(), "decision": decision(), "now": NOW}
    assert precheck(**early) is None
    used = precheck(**{**early, "decision": decision(used_by="run-1")})
    assert used is not None
    assert used.code is RefusalCode.ALREADY_USED
    assert precheck(**{**early, "decision": decision(used_by="run-1")}, holder="run-1") is None
    assert precheck(**{**early, "decision": decision(used_by="run-1")}, holder="run-2") is not None


def test_the_default_flags_cannot_write() -> None:
    assert Flags() == Flags(dry_run=True, auto_remediate=False)


PLANS = st.builds(
    lambda observation, targets, watch: plan(observation=observation, targets=targets, watch=watch),
    st.sampled_from(["", "", "", "hidden"]),
    st.sampled_from([(), (Change("a"),), (Change("a"), Change("b"))]),
    st.sampled_from(["main", "main", "other"]),
)
TIMES = st.sampled_from([NOW - HOUR, NOW, NOW + HOUR])


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    made: Plan[World] = draw(PLANS)
    current = draw(
        st.sampled_from([made, made, made, replace(made, policy={}), replace(made, scope={}), replace(made, watch="x")])
    )
    answer = draw(
        st.none()
        | st.builds(
            decision,
            plan_digest=st.sampled_from([made.digest, made.digest, made.digest, "f" * 64]),
            kind=st.sampled_from([DecisionKind.APPROVED, DecisionKind.APPROVED, DecisionKind.DECLINED]),
            used_by=st.sampled_from(["", "", "run-1", "run-2"]),
            valid_until=TIMES,
        )
    )
    return {
        "flags": draw(
            st.builds(Flags, dry_run=st.sampled_from([False, False, True]), auto_remediate=st.sampled_from([True, True, False]))
        ),
        "plan": made,
        "decision": answer,
        "current": current,
        "fresh": Fresh(
            draw(st.sampled_from([{"a": 0, "b": 0}, {"a": 0, "b": 0}, {"a": 0}, {}])),
            incomplete=draw(st.sampled_from(["", "", "hidden"])),
        ),
        "lease": draw(
            st.none()
            | st.builds(
                lease,
                scope=st.sampled_from([plan_scope_key("numbers", made.watch), "numbers/main"]),
                holder=st.sampled_from(["run-1", "run-2", ""]),
                expires_at=TIMES,
            )
        ),
        "now": NOW,
    }


def may_write(q: dict[str, Any]) -> bool:
    """The rule as one conjunction, from the design's words rather than from the code."""
    made, answer, held, fresh = q["plan"], q["decision"], q["lease"], q["fresh"]
    return bool(
        not q["flags"].dry_run
        and q["flags"].auto_remediate
        and made.targets
        and made.observation == fresh.incomplete == ""
        and answer is not None
        and held is not None
        and answer.kind == "approved"
        and answer.plan_digest == made.digest
        and (answer.valid_until > NOW if not answer.used_by else answer.used_by == held.holder)
        and {**q["current"].signed(), "targets": 0} == {**made.signed(), "targets": 0}
        and held.scope == f"{made.guard}/{made.watch}"
        and held.expires_at > NOW
        and all(fresh.seen.get(target.subject) == 0 for target in made.targets)
    )


@settings(max_examples=200, deadline=None)
@given(questions())
def test_authorized_if_and_only_if_every_condition_holds(question: dict[str, Any]) -> None:
    outcome = gate(**question)
    assert isinstance(outcome, Authorized) == may_write(question)
    if isinstance(outcome, Authorized):
        real = outcome.authorization
        assert (real.plan_digest, real.scope) == (question["plan"].digest, question["lease"].scope)
        assert (real.approval_id, real.approved_by) == (question["decision"].decision_id, "ada")
        assert (real.holder, real.fence) == (question["lease"].holder, 7)
    else:
        assert outcome.message


@given(questions())
def test_the_precheck_never_refuses_what_the_gate_allows(question: dict[str, Any]) -> None:
    if isinstance(gate(**question), Authorized):
        early = {name: question[name] for name in ("flags", "plan", "decision", "now")}
        assert precheck(**early, holder=question["lease"].holder) is None


def test_what_remains_must_be_part_of_the_approved_plan() -> None:
    """A later op of a run passes what is left to write; it must not be able to smuggle in what nobody approved."""
    stranger = replace(plan().targets[0], subject="stranger")
    with pytest.raises(NotAuthorized, match="part of the approved plan"):
        asked(remaining=(stranger,))

"""A decision from the Launchpad: one flat form, sentences for mistakes, recorded once, visible as an asset."""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest

from assets.config_fields import NotLaunched, config_fields
from assets.state_resource import StateResource
from guards.decision import DecisionKind
from jobs.decisions import JOB, DecideConfig, NotRecorded, answer_of, decide_plan_job
from resources.state import StateStore
from tests.unit.pages import missing, plan

PLAN = plan(missing("a.csv"), targets=("a.csv",))
ANSWER = {"plan_digest": PLAN.digest[:12], "decision": "approved", "decided_by": "Kim", "comment": "*go*\nnow"}


@pytest.fixture
def state(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateResource:
    monkeypatch.setenv("OPSGUARD_STATE_URL", database_url)
    return StateResource(home=str(tmp_path))


def launch(
    state: StateResource, form: Mapping[str, object], *, approve_in_ui: bool = True, instance: dg.DagsterInstance | None = None
) -> dg.ExecuteInProcessResult:
    defs = dg.Definitions(jobs=[decide_plan_job(approve_in_ui=approve_in_ui)], resources={"state": state})
    return defs.get_job_def(JOB).execute_in_process(run_config=dict(form), instance=instance)


def test_an_approval_is_recorded_and_becomes_the_latest_decision(state: StateResource, state_store: StateStore) -> None:
    state_store.record_report(PLAN, run_id="r", overrides={})
    result = launch(state, ANSWER)
    decision = state_store.decision(PLAN.digest)
    assert decision is not None
    assert (decision.kind, decision.decided_by, decision.channel) == (DecisionKind.APPROVED, "Kim", "launchpad")
    assert round((decision.valid_until - decision.decided_at).total_seconds() / 60) == 720, "the policy names no time here"
    (event,) = [each for each in result.all_events if each.is_step_materialization]
    shown = event.step_materialization_data.materialization
    assert shown.asset_key == dg.AssetKey(["spool", "acme", "decision"])
    assert shown.description.startswith(f"**Approved** by `Kim`: \\*go\\*\\\\nnow (plan `{PLAN.short}`, until ")
    assert shown.metadata["outcome"].value == "approved"


def test_the_same_answer_twice_is_recorded_once(state: StateResource, state_store: StateStore) -> None:
    state_store.record_report(PLAN, run_id="r", overrides={})
    launch(state, ANSWER)
    launch(state, ANSWER)
    assert len(state_store.decisions(PLAN.digest)) == 1


def test_a_decline_holds_as_long_as_it_says(state: StateResource, state_store: StateStore) -> None:
    state_store.record_report(PLAN, run_id="r", overrides={})
    launch(state, {**ANSWER, "decision": "declined", "valid_for_minutes": 30})
    decision = state_store.decision(PLAN.digest)
    assert decision is not None
    assert decision.kind is DecisionKind.DECLINED
    assert round((decision.valid_until - decision.decided_at).total_seconds() / 60) == 30


def test_an_answer_that_is_not_recorded_fails_the_run_and_says_why(state: StateResource, state_store: StateStore) -> None:
    """A green run would let a person believe that the plan is approved."""
    with pytest.raises(NotRecorded, match="no recorded plan begins with"):
        launch(state, ANSWER)
    nothing = plan(missing("b.csv"))
    state_store.record_report(nothing, run_id="r", overrides={})
    with pytest.raises(NotRecorded, match="there is nothing to decide"):
        launch(state, {**ANSWER, "plan_digest": nothing.digest})


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"plan_digest": ""}, "plan_digest is empty"),
        ({"plan_digest": PLAN.digest[:8]}, "plan_digest"),
        ({"plan_digest": PLAN.digest[:12] + "\n"}, "plan_digest"),
        ({"decision": ""}, "decision is empty: write approved or declined"),
        ({"decision": "yes"}, "decision"),
        ({"decided_by": " "}, "decided_by is empty"),
        ({"decided_by": "Kim\nLee"}, "decided_by must be printable"),
        ({"decided_by": "K" * 121}, "decided_by"),
        ({"valid_for_minutes": -1}, "valid_for_minutes"),
        ({"valid_for_minutes": 10**6}, "valid_for_minutes"),
    ],
)
def test_a_wrong_form_launches_nothing_and_says_which_field(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(NotLaunched) as refused:
        answer_of({**ANSWER, **wrong})
    assert str(refused.value).startswith("Nothing was launched.")
    assert sentence in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_where_decisions_come_from_the_command_line_only_the_form_says_so(state: StateResource, state_store: StateStore) -> None:
    state_store.record_report(PLAN, run_id="r", overrides={})
    with pytest.raises(dg.DagsterConfigMappingFunctionError) as refused:
        launch(state, ANSWER, approve_in_ui=False)
    assert "opsguard approve DIGEST --by YOU" in str(refused.value.__cause__)
    assert state_store.decisions(PLAN.digest) == ()


def test_the_form_is_flat_every_field_is_described_and_no_other_is_taken(state: StateResource) -> None:
    fields = config_fields(DecideConfig, DecideConfig())
    assert set(fields) == {"comment", "decided_by", "decision", "plan_digest", "valid_for_minutes"}
    assert all(field.description for field in fields.values())
    with pytest.raises(dg.DagsterInvalidConfigError, match="approved_by"):
        launch(state, {**ANSWER, "approved_by": "Kim"})


def test_the_form_cannot_read_the_servers_environment(
    state: StateResource, state_store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster resolves `{env: NAME}` in any text field: a comment would have carried a password into the decision."""
    monkeypatch.setenv("OPSGUARD_SPOOL_ACME_PARTNER_PASSWORD", "canary-5c1e")
    state_store.record_report(PLAN, run_id="r", overrides={})
    with pytest.raises(dg.DagsterInvalidConfigError, match="comment") as refused:
        launch(state, {**ANSWER, "comment": {"env": "OPSGUARD_SPOOL_ACME_PARTNER_PASSWORD"}})
    assert "canary-5c1e" not in str(refused.value)
    assert state_store.decisions(PLAN.digest) == ()

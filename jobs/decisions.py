"""The job `decide_plan`: a person's answer to one plan, given in the Launchpad. It records, and writes nothing else anywhere."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field

from assets.config_fields import NotLaunched, checked, config_fields
from assets.state_resource import State, StateResource
from guards.decision import Decision, DecisionKind
from guards.plan import SHORT_DIGITS
from guards.refusal import Refused
from guards.text import SENTENCE_LIMIT, code_span, markdown_text, one_line
from resources.errors import ConfigurationError
from resources.state.plans import StoredPlan

JOB: Final = "decide_plan"
LONGEST_VALIDITY_MINUTES: Final = 90 * 24 * 60
FALLBACK_MINUTES: Final = 720
COMMAND_LINE_ONLY: Final = (
    "Decisions are accepted from the command line only (approve_in_ui = false): "
    "`opsguard approve DIGEST --by YOU` or `opsguard decline DIGEST --by YOU`."
)


class DecideConfig(BaseModel):
    """One answer to one plan. The Launchpad shows the fields in alphabetical order.

    No `dg.Config`: that offers `{env: NAME}` for every field, and would put a secret of the server on a receipt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    comment: str = Field(default="", description="Why, for the record (optional).", max_length=2000)
    decided_by: str = Field(
        default="", description="Your name or e-mail. It goes on the receipt; it is a claim, nobody checks it.", max_length=120
    )
    decision: str = Field(default="", description="approved or declined.", pattern=r"^(?:approved|declined)?$")
    plan_digest: str = Field(
        default="",
        description="Digest of the plan that you decide on: 12 or more hex digits, from the plan asset.",
        pattern=r"^(?:[0-9a-f]{12,64})?$",
    )
    valid_for_minutes: int = Field(
        default=0,
        description="How long the answer holds, in minutes. 0: as long as the watch's policy says.",
        ge=0,
        le=LONGEST_VALIDITY_MINUTES,
    )


class NotRecorded(Exception):
    """The run fails with this sentence: a person must not believe that an answer was given."""


def decide_plan_job(*, approve_in_ui: bool) -> dg.JobDefinition:
    """Needs the resource `state`. With `approve_in_ui` off it refuses every launch, and says what to type instead."""

    def config_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
        if not approve_in_ui:
            raise NotLaunched(f"Nothing was launched. {COMMAND_LINE_ONLY}")
        return {"ops": {"decide": {"config": answer_of(values).model_dump()}}}

    @dg.op(
        description="Records the answer; the plan's next report or apply run reads it.",
        config_schema=config_fields(DecideConfig, DecideConfig()),
    )
    def decide(context: dg.OpExecutionContext, state: State) -> None:
        if not approve_in_ui:  # a run may be launched around the form
            raise NotRecorded(COMMAND_LINE_ONLY)
        answer = record(checked(DecideConfig, context.op_config), state, run_id=context.run_id)
        context.log_event(answer)
        context.log.info(answer.description)

    @dg.graph
    def decide_plan_graph() -> None:
        decide()

    return decide_plan_graph.to_job(
        name=JOB,
        description="Approve or decline exactly one plan. It records your answer and writes nothing else: "
        "the apply job, or its sensor, does what was approved.",
        config=dg.ConfigMapping(config_schema=config_fields(DecideConfig, DecideConfig()), config_fn=config_of),
        tags={"opsguard/kind": "decision"},
        executor_def=dg.in_process_executor,
    )


def answer_of(values: Mapping[str, Any]) -> DecideConfig:
    """Raises `NotLaunched` with one sentence per wrong field."""
    config = checked(DecideConfig, values)
    missing = {
        "plan_digest": (config.plan_digest, "put the plan's digest between the quotes, 12 digits or more"),
        "decision": (config.decision, "write approved or declined"),
        "decided_by": (config.decided_by.strip(), "put your name or e-mail between the quotes"),
    }
    for field, (value, what_to_do) in missing.items():
        if not value:
            raise NotLaunched(f"Nothing was launched. {field} is empty: {what_to_do}.")
    if not config.decided_by.isprintable():
        raise NotLaunched("Nothing was launched. decided_by must be printable, on one line.")
    return config


def record(config: DecideConfig, state: StateResource, *, run_id: str) -> dg.AssetMaterialization:
    """Raises `NotRecorded` with the refusal's sentence."""
    with state.open() as store:
        plan = store.find_plan(config.plan_digest, fewest=SHORT_DIGITS)
        if isinstance(plan, Refused):
            raise NotRecorded(f"Nothing was recorded: {plan.message}.")
        try:
            decision = store.decide(
                plan.digest,
                kind=DecisionKind(config.decision),
                by=config.decided_by,
                comment=config.comment,
                valid_for=timedelta(minutes=config.valid_for_minutes or policy_minutes(plan)),
                channel="launchpad",
                run_id=run_id,
            )
        except ConfigurationError as error:
            raise NotRecorded(f"Nothing was recorded: {error}.") from None
    if isinstance(decision, Refused):
        raise NotRecorded(f"Nothing was recorded: {decision.message}.")
    return decision_event(plan, decision)


def decision_event(plan: StoredPlan, decision: Decision) -> dg.AssetMaterialization:
    """The decision as the latest materialisation of `<guard>/<watch>/decision`."""
    next_step = f" `opsguard apply {plan.short}` applies it." if decision.kind is DecisionKind.APPROVED else ""
    comment = f": {markdown_text(decision.comment)}" if decision.comment else ""
    return dg.AssetMaterialization(
        asset_key=[plan.guard, plan.watch, "decision"],
        description=f"**{decision.kind.value.capitalize()}** by {code_span(decision.decided_by)}{comment} "
        f"(plan `{plan.short}`, until {decision.valid_until:%Y-%m-%d %H:%M} UTC).{next_step}",
        metadata={
            "outcome": decision.kind.value,
            "decided_by": decision.decided_by,
            "comment": one_line(decision.comment, limit=SENTENCE_LIMIT) or "none",
            "valid_until": decision.valid_until.isoformat(timespec="seconds"),
            "plan_digest": plan.short,
            "decision_id": decision.decision_id,
        },
    )


def policy_minutes(plan: StoredPlan) -> int:
    """How long an answer to this plan holds unless it says otherwise."""
    minutes = plan.policy.get("approval_timeout_minutes")
    return minutes if isinstance(minutes, int) and 0 < minutes <= LONGEST_VALIDITY_MINUTES else FALLBACK_MINUTES

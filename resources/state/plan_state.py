"""Where a plan stands: one word, computed from what was recorded and the database clock; never stored."""

from datetime import datetime
from enum import StrEnum

from guards.decision import Decision, DecisionKind


class PlanState(StrEnum):
    NOTHING_TO_DO = "nothing_to_do"
    WAITING = "waiting"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    USED = "used"
    SUPERSEDED = "superseded"
    INCOMPLETE = "incomplete"

    @property
    def awaits_a_person(self) -> bool:
        return self in (PlanState.WAITING, PlanState.EXPIRED)


def plan_state(
    *,
    has_targets: bool,
    observation: str,
    decision: Decision | None,
    is_newest: bool,
    last_reported_at: datetime,
    now: datetime,
) -> PlanState:
    """`decision` is the governing one; `is_newest`: no later report of the watch has another digest.

    A used approval, a lapsed decline and a lapsed approval are answers to an earlier report: when the same plan was reported
    again after the use, it waits for a person anew.
    """
    if observation:
        return PlanState.INCOMPLETE
    if not has_targets:
        return PlanState.NOTHING_TO_DO
    if decision is not None and decision.used_by:
        if not was_reported_since_use(decision, last_reported_at):
            return PlanState.USED
    elif decision is not None and now < decision.valid_until:
        return PlanState.APPROVED if decision.kind is DecisionKind.APPROVED else PlanState.DECLINED
    if not is_newest:
        return PlanState.SUPERSEDED
    if decision is not None and decision.kind is DecisionKind.APPROVED and not decision.used_by:
        return PlanState.EXPIRED
    return PlanState.WAITING


def was_reported_since_use(decision: Decision, last_reported_at: datetime) -> bool:
    return decision.used_at is not None and last_reported_at > decision.used_at

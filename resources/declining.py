"""A person's "no" to a plan that is being carried out: from the next target on."""

from guards.decision import DecisionKind
from guards.gate import Authorization
from resources.state import StateStore


def stopped_by(state: StateStore, authorization: Authorization) -> str:
    """Who declined the plan since its approval was given, or ""."""
    for decision in state.decisions(authorization.plan_digest):
        if decision.kind is DecisionKind.DECLINED and decision.decision_id > authorization.approval_id:
            return decision.decided_by
    return ""

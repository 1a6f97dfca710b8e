"""A stored plan of the spool guard, as a plan again."""

from typing import Any

from guards.plan import Plan
from guards.spool.planning import SpoolTarget, load_plan
from guards.spool.world import SpoolWorld
from resources.state.plans import StoredPlan


def restored(stored: StoredPlan) -> Plan[SpoolWorld]:
    """With its targets, without findings. The state store has compared its digest already."""
    return load_plan(
        watch=stored.watch,
        scope=stored.scope,
        policy=stored.policy,
        targets=list(stored.targets),
        observation=stored.observation,
    )


def spool_targets(plan: Plan[Any]) -> tuple[SpoolTarget, ...]:
    return tuple(target for target in plan.targets if isinstance(target, SpoolTarget))

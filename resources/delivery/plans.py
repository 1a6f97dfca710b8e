"""A stored plan of the delivery guard, as a plan again."""

from typing import Any

from guards.delivery.planning import DeliveryTarget, load_plan
from guards.delivery.world import DeliveryWorld
from guards.plan import Plan
from resources.state.plans import StoredPlan


def restored(stored: StoredPlan) -> Plan[DeliveryWorld]:
    """With its targets, without findings. The state store has compared its digest already."""
    return load_plan(
        watch=stored.watch,
        scope=stored.scope,
        policy=stored.policy,
        targets=list(stored.targets),
        observation=stored.observation,
    )


def delivery_targets(plan: Plan[Any]) -> tuple[DeliveryTarget, ...]:
    return tuple(target for target in plan.targets if isinstance(target, DeliveryTarget))

"""One report of one delivery watch: observe, judge, plan. Whoever asked records it."""

from dataclasses import dataclass
from datetime import datetime

from guards.delivery.planning import make_plan
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.world import DeliveryWorld
from guards.plan import Plan
from resources.delivery.observe import Observer, scope_of
from resources.delivery.route import DeliveryRoute
from resources.ledger.interface import Ledger
from resources.progress import Progress, silent
from resources.providers.chosen import open_providers
from resources.state import StateStore


@dataclass(frozen=True, slots=True)
class Observed:
    world: DeliveryWorld
    plan: Plan[DeliveryWorld]


def look(
    route: DeliveryRoute,
    state: StateStore,
    ledger: Ledger,
    *,
    policy: DeliveryPolicy,
    at: datetime | None = None,
    asking: bool = True,
    progress: Progress = silent,
) -> Observed:
    """As of now; with `at` what would be due then, which is a plan without targets and is not to be recorded. Sends nothing: providers
    are only asked about messages in doubt, for which a look may have to wait; not without `asking`."""
    world = Observer(route, state, ledger, policy=policy, progress=progress).world(
        at=at, providers=open_providers(route.providers) if asking else None
    )
    return Observed(world, make_plan(world, scope=scope_of(route, ledger, world.registry), policy=policy))

"""The state store: plans, decisions, leases, journals, receipts and the reservation ledger, in one PostgreSQL database.

    from resources.state import StateStore, state_url
    with StateStore.open(state_url(home)) as store: ...

Names are loaded when they are first asked for: the keeper of the embedded server runs from this package and must stay small.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from resources.state.embedded import state_url as state_url
    from resources.state.errors import Altered as Altered
    from resources.state.errors import LeaseLost as LeaseLost
    from resources.state.journal import JournalRow as JournalRow
    from resources.state.outbox import OutboxRow as OutboxRow
    from resources.state.plan_state import PlanState as PlanState
    from resources.state.plans import PlanSummary as PlanSummary
    from resources.state.plans import StoredPlan as StoredPlan
    from resources.state.store import StateStore as StateStore

_HOME_OF: Final = {
    "state_url": "resources.state.embedded",
    "Altered": "resources.state.errors",
    "LeaseLost": "resources.state.errors",
    "JournalRow": "resources.state.journal",
    "OutboxRow": "resources.state.outbox",
    "PlanState": "resources.state.plan_state",
    "PlanSummary": "resources.state.plans",
    "StoredPlan": "resources.state.plans",
    "StateStore": "resources.state.store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)

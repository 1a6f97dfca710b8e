"""What every guard's report run does around its own look: who is told, what it overrides, and what is forgotten with it."""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from assets.plan_words import PlanPage
from guards.canonical import Json
from resources.errors import OpsGuardError
from resources.state import StateStore

Tell = Callable[[PlanPage, StateStore, str, logging.Logger], None]
"""Called with the page of a new report, before the run ends."""


class Policy(Protocol):
    def as_json(self) -> dict[str, Json]: ...


def overrides_of(policy: Policy, base: Policy) -> dict[str, Json]:
    """The fields that this run sets otherwise than the watch does: an apply run needs them to know what "unchanged" means."""
    usual = base.as_json()
    return {name: value for name, value in policy.as_json().items() if usual[name] != value}


def counted(counts: Mapping[str, int]) -> str:
    """ "24 within_sla, 3 missing" for one log line."""
    return ", ".join(f"{number:,} {verdict}" for verdict, number in counts.items()) or "nothing"


def forget_what_is_old(store: StateStore, days: int, run_id: str, log: logging.Logger) -> None:
    """With the first report of a day. The report is recorded: a database that cannot prune now is asked again tomorrow."""
    try:
        gone = store.prune_daily(days, run_id=run_id)
    except OpsGuardError as error:
        log.warning("what is older than %d days could not be forgotten: %s", days, error)
        return
    if gone is not None:
        log.info("forgotten: %d reports, %d plans, %d alerts older than %d days", gone.reports, gone.plans, gone.alerts, days)

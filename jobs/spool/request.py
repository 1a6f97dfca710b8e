"""From a launch to an approved plan: what the config asks for, the decision in it, and the plan it names."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

import dagster as dg

from assets.site import Site
from guards.decision import DecisionKind
from guards.gate import Flags
from guards.plan import SHORT_DIGITS
from guards.refusal import RefusalCode, Refused
from guards.spool.policy import SpoolPolicy
from jobs.spool.config import RedeliverConfig
from resources.errors import ConfigurationError
from resources.progress import watched
from resources.spool.apply import SpoolApply
from resources.spool.route import SpoolRoute
from resources.state import StateStore, StoredPlan


class Request(TypedDict):
    """What travels between the ops: never an authorization."""

    plan: str
    dry_run: bool
    auto_remediate: bool


def request_of(config: RedeliverConfig) -> Request:
    return Request(plan=config.approved_plan, dry_run=config.dry_run, auto_remediate=config.auto_remediate)


def applying(
    context: dg.OpExecutionContext, store: StateStore, request: Mapping[str, Any], *, route: SpoolRoute, site: Site
) -> SpoolApply | Refused:
    """The plan that the request names, ready to be written by this run, if it is one of this watch."""
    stored = _plan_of_watch(store, request["plan"], route)
    if isinstance(stored, Refused):
        return stored
    return SpoolApply(
        route,
        store,
        stored,
        flags=Flags(dry_run=request["dry_run"], auto_remediate=request["auto_remediate"]),
        run_id=context.run_id,
        lease_seconds=site.lease_seconds,
        progress=watched(),
    )


def decided(
    context: dg.OpExecutionContext, config: RedeliverConfig, store: StateStore, *, route: SpoolRoute, site: Site
) -> Refused | None:
    """`approved_plan` with `approved_by` in the config of a launch is a decision, and is recorded as one; nothing is in a dry run."""
    if config.dry_run:
        return Refused(RefusalCode.DRY_RUN, "dry_run is on: nothing was written")
    if not config.auto_remediate:
        return Refused(RefusalCode.REMEDIATION_DISABLED, "auto_remediate is off: nothing was written")
    stored = _plan_of_watch(store, config.approved_plan, route)
    if isinstance(stored, Refused):
        return stored
    if not config.approved_by:
        return None
    if not site.approve_in_ui:
        return Refused(
            RefusalCode.NOT_APPROVED,
            f"decisions are accepted from the command line only: `opsguard approve {stored.short} --by YOU`",
        )
    try:
        decision = store.decide(
            stored.digest,
            kind=DecisionKind.APPROVED,
            by=config.approved_by,
            comment=config.approval_comment,
            valid_for=timedelta(minutes=SpoolPolicy.model_validate(dict(stored.policy)).approval_timeout_minutes),
            channel="run_config",
            run_id=context.run_id,
        )
    except ConfigurationError as error:
        return Refused(RefusalCode.NOT_APPROVED, str(error))
    return decision if isinstance(decision, Refused) else None


def _plan_of_watch(store: StateStore, digest: str, route: SpoolRoute) -> StoredPlan | Refused:
    stored = store.find_plan(digest, fewest=SHORT_DIGITS)
    if isinstance(stored, Refused) or (stored.guard, stored.watch) == ("spool", route.name):
        return stored
    return Refused(
        RefusalCode.NOT_APPROVED,
        f"plan {stored.short} is for {stored.guard}/{stored.watch}, not for spool/{route.name}: apply it there",
    )

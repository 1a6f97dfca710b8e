"""From a launch to an approved plan: what the config asks for, the decision in it, and the plan it names."""

from datetime import timedelta
from typing import TypedDict

import dagster as dg

from assets.config_fields import NotLaunched, checked
from assets.known_guards import Names
from assets.site import Site
from guards.decision import DecisionKind
from guards.gate import Flags
from guards.plan import SHORT_DIGITS
from guards.refusal import RefusalCode, Refused
from jobs.apply.config import ApplyConfig
from jobs.decisions import policy_minutes
from resources.errors import ConfigurationError
from resources.state import StateStore, StoredPlan


class Request(TypedDict):
    """What travels between the ops: never an authorization."""

    plan: str
    dry_run: bool
    auto_remediate: bool


def request_of(config: ApplyConfig) -> Request:
    return Request(plan=config.approved_plan, dry_run=config.dry_run, auto_remediate=config.auto_remediate)


def flags_of(request: Request) -> Flags:
    """Checked as the form is, `ConfigurationError`: an op's input can be typed in by hand, and the text "false" would count as true."""
    values = {"approved_plan": request["plan"], "dry_run": request["dry_run"], "auto_remediate": request["auto_remediate"]}
    try:
        config = checked(ApplyConfig, values)
    except NotLaunched as error:
        raise ConfigurationError(f"this op's input is none that the form makes, nothing was written. {error}") from None
    return Flags(dry_run=config.dry_run, auto_remediate=config.auto_remediate)


def plan_of_watch(store: StateStore, digest: str, names: Names) -> StoredPlan | Refused:
    """The plan that begins so, if it is one of this watch."""
    stored = store.find_plan(digest, fewest=SHORT_DIGITS)
    if isinstance(stored, Refused) or (stored.guard, stored.watch) == (names.guard.name, names.watch):
        return stored
    return Refused(
        RefusalCode.NOT_APPROVED,
        f"plan {stored.short} is for {stored.guard}/{stored.watch}, not for {names.label}: apply it there",
    )


def decided(
    context: dg.OpExecutionContext, config: ApplyConfig, store: StateStore, *, names: Names, site: Site
) -> Refused | None:
    """`approved_plan` with `approved_by` in the config of a launch is a decision, and is recorded as one; nothing is in a dry run."""
    if config.dry_run:
        return Refused(RefusalCode.DRY_RUN, "dry_run is on: nothing was written")
    if not config.auto_remediate:
        return Refused(RefusalCode.REMEDIATION_DISABLED, "auto_remediate is off: nothing was written")
    stored = plan_of_watch(store, config.approved_plan, names)
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
            valid_for=timedelta(minutes=policy_minutes(stored)),
            channel="run_config",
            run_id=context.run_id,
        )
    except ConfigurationError as error:
        return Refused(RefusalCode.NOT_APPROVED, str(error))
    return decision if isinstance(decision, Refused) else None

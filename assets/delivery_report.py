"""One report of one delivery watch: observe, judge, plan, record. The asset, the apply run and the command line all make it here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from assets.known_guards import DELIVERY, Names
from assets.plan_page import approval_link
from assets.plan_words import PlanPage
from assets.report_run import overrides_of
from assets.site import Site
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.verdict import DeliveryVerdict
from guards.delivery.world import DeliveryWorld
from guards.finding import Finding
from guards.plan import Plan
from resources.delivery.ledger import remember
from resources.delivery.report import Observed, look
from resources.delivery.route import DeliveryRoute
from resources.ledger.interface import Ledger
from resources.progress import Progress, silent
from resources.state import StateStore
from resources.state.plans import StoredPlan


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    world: DeliveryWorld
    plan: Plan[DeliveryWorld]
    stored: StoredPlan


def make_report(
    route: DeliveryRoute, state: StateStore, ledger: Ledger, *, policy: DeliveryPolicy, run_id: str, progress: Progress = silent
) -> DeliveryReport:
    """Asks providers about what is in doubt, sends nothing, and writes only to the state store.

    Raises `ConfigurationError` for a registry that cannot be used, `Unreachable` and its kinds for a store that cannot be read.
    """
    seen = look(route, state, ledger, policy=policy, progress=progress)
    return recorded(seen, route, state, ledger, policy=policy, run_id=run_id)


def recorded(
    seen: Observed, route: DeliveryRoute, state: StateStore, ledger: Ledger, *, policy: DeliveryPolicy, run_id: str
) -> DeliveryReport:
    """A look of just now, made under `policy`, as a report."""
    remember(route, state, ledger, seen.world.registry, run_id=run_id)
    stored = state.record_report(seen.plan, run_id=run_id, overrides=overrides_of(policy, route.policy))
    return DeliveryReport(world=seen.world, plan=seen.plan, stored=stored)


def plan_page(report: DeliveryReport, *, route: DeliveryRoute, site: Site, state: StateStore, done: str = "") -> PlanPage:
    plan, stored = report.plan, report.stored
    job = Names(DELIVERY, route.name).apply_job
    link = approval_link(plan, base_url=site.base_url, job=job) if site.approve_in_ui else ""
    return PlanPage(
        plan=plan,
        state=stored.state.value,
        wording=DELIVERY.wording,
        link=link,
        decision=state.decision(plan.digest),
        oldest_gap_minutes=oldest_gap_minutes(plan, report.world),
        numbers=numbers(plan),
        done=done,
    )


def numbers(plan: Plan[DeliveryWorld]) -> dict[str, int]:
    """Fixed names: they become plots. Every verdict has one, so that a line does not end where nothing is wrong any more."""
    counts = plan.counts
    verdicts = {f"verdict_{verdict.value}": counts.get(verdict.value, 0) for verdict in DeliveryVerdict}
    return {"slots": len(plan.findings), **verdicts}


def oldest_gap_minutes(plan: Plan[DeliveryWorld], world: DeliveryWorld) -> int | None:
    """Since the longest-owed gap was due; None without gaps that are still owed."""
    due = {owed.slot.key: owed.due_at for owed in world.owed}
    since = [due[gap.subject] for gap in plan.gaps if gap.subject in due]
    return max(0, int((world.now - min(since)).total_seconds() // 60)) if since else None


def by_day(findings: tuple[Finding, ...], zone: str) -> Mapping[date, tuple[Finding, ...]]:
    """By the date in the registry's default zone on which each was due. What is owed no more has no date and is left out."""
    there = ZoneInfo(zone)
    days: dict[date, list[Finding]] = {}
    for finding in findings:
        due_at = finding.facts.get("due_at")
        if isinstance(due_at, str):
            days.setdefault(datetime.fromisoformat(due_at).astimezone(there).date(), []).append(finding)
    return {day: tuple(found) for day, found in sorted(days.items())}

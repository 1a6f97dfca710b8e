"""One report of one spool watch: observe, judge, plan, record. The asset, the apply run and the command line all make it here."""

from dataclasses import dataclass
from datetime import datetime

from assets.known_guards import SPOOL, Names
from assets.plan_page import approval_link
from assets.plan_words import PlanPage
from assets.report_run import overrides_of
from assets.site import Site
from guards.canonical import Json
from guards.plan import Plan
from guards.spool.planning import plan_of
from guards.spool.policy import SpoolPolicy
from guards.spool.world import SpoolWorld
from resources.progress import Progress, silent
from resources.spool.observe import Observed, observe
from resources.spool.route import SpoolRoute
from resources.spool.sides import OpenSides, Sides, observing, sides_of
from resources.state import StateStore
from resources.state.plans import StoredPlan


@dataclass(frozen=True, slots=True)
class SpoolReport:
    world: SpoolWorld
    plan: Plan[SpoolWorld]
    stored: StoredPlan


def make_report(
    route: SpoolRoute,
    state: StateStore,
    *,
    policy: SpoolPolicy,
    run_id: str,
    progress: Progress = silent,
    sides: Sides | None = None,
) -> SpoolReport:
    """Reads both servers, writes only to the state store. Raises `Unreachable` and its kinds when a side cannot be observed."""

    def look(opened: OpenSides) -> tuple[Observed, dict[str, Json]]:
        return observe(opened, state, policy=policy, progress=progress), opened.scope()

    observed, scope = observing(sides or sides_of(route), look)
    plan = plan_of(observed.judged, bench=observed.bench, watch=route.name, scope=scope)
    stored = state.record_report(plan, run_id=run_id, overrides=overrides_of(policy, route.policy))
    return SpoolReport(world=observed.world, plan=plan, stored=stored)


def plan_page(report: SpoolReport, *, route: SpoolRoute, site: Site, state: StateStore, done: str = "") -> PlanPage:
    plan, stored = report.plan, report.stored
    link = approval_link(plan, base_url=site.base_url, job=Names(SPOOL, route.name).apply_job) if site.approve_in_ui else ""
    return PlanPage(
        plan=plan,
        state=stored.state.value,
        wording=SPOOL.wording,
        link=link,
        decision=state.decision(plan.digest),
        oldest_gap_minutes=oldest_gap_minutes(plan, report.world),
        numbers=numbers(plan),
        done=done,
    )


def numbers(plan: Plan[SpoolWorld]) -> dict[str, int]:
    """Fixed names: they become plots. `spared`: entries that are no gap and no target."""
    targets = {target.subject for target in plan.targets}
    delivered = sum(count for verdict, count in plan.counts.items() if verdict.startswith("delivered_"))
    spared = sum(1 for finding in plan.findings if not finding.verdict.is_gap and finding.subject not in targets)
    return {
        "seen": len(plan.findings),
        "delivered": delivered,
        "spared": spared,
        **{f"verdict_{verdict}": count for verdict, count in sorted(plan.counts.items())},
    }


def oldest_gap_minutes(plan: Plan[SpoolWorld], world: SpoolWorld) -> int | None:
    """Age of the oldest feed that is a gap, by its time in the spool or our first sight of it; None without gaps."""
    since = [at for gap in plan.gaps if (at := _since(gap.subject, world)) is not None]
    return max(0, int((world.observed_at - min(since)).total_seconds() // 60)) if since else None


def _since(name: str, world: SpoolWorld) -> datetime | None:
    entry = world.outbound.get(name)
    known = [at for at in (entry.modified_at if entry else None, world.first_seen.get(name)) if at is not None]
    return min(known) if known else None

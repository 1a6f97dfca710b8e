"""What Slack says about a plan: the headline, the gaps, the command, and links to where people decide."""

from collections.abc import Sequence

from assets.launchpad_link import check_link, run_link
from assets.plan_page import DECISION_CHECK
from assets.plan_words import ASKS_FOR_A_DECISION, PlanPage, breakdown, command, headline, next_step, proposal, rows
from guards.canonical import digest
from resources.slack.message import Message, alert


def gaps_key(page: PlanPage) -> str:
    """One alert per plan and set of gaps. The digest alone is not enough: plans without targets share one, whatever needs a person."""
    gaps = sorted([finding.subject, finding.verdict.value] for finding in page.plan.gaps)
    return f"gaps:{page.plan.digest}:{digest([*gaps, page.plan.observation])[:16]}"


def plan_alert(page: PlanPage, *, base_url: str, run_id: str, asset_key: Sequence[str]) -> Message | None:
    """None when the plan has nothing to tell: no gap, and everything was observed."""
    plan = page.plan
    if not plan.gaps and not plan.observation:
        return None
    forms = [("Open the approval form, filled in", page.link)] if page.link and page.state in ASKS_FOR_A_DECISION else []
    counted = f"{breakdown(plan)}. " if plan.gaps else ""
    return alert(
        key=gaps_key(page),
        event_type="opsguard_gaps",
        title=f"{plan.guard}/{plan.watch}: {headline(page)}" if plan.gaps else f"{plan.guard}/{plan.watch} could not be observed",
        sentence=f"{counted}{proposal(page)} {next_step(page)}",
        items=[f"{row.action} {row.subject}: {row.verdict}. {row.why}" for row in rows(plan)],
        command=command(page) or f"opsguard plans show {plan.short}",
        links=[*forms, ("The plan", check_link(base_url, asset_key, DECISION_CHECK)), ("The run", run_link(base_url, run_id))],
    )

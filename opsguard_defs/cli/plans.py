"""`opsguard plans`: what was proposed, what became of it, and what it would write."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from guards.decision import governing
from guards.refusal import Refused
from guards.text import count_words, size_words
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit, exit_of
from opsguard_defs.cli.options import AsJson, Digest, GuardOption
from opsguard_defs.cli.output import emit, line, say, table
from opsguard_defs.cli.state_store import open_state

if TYPE_CHECKING:
    from guards.decision import Decision
    from resources.state import StoredPlan

plans = typer.Typer(help="What was proposed, its state and its targets.", no_args_is_help=False)


@plans.callback(invoke_without_command=True, epilog="Example: opsguard plans list --guard spool")
def default(context: typer.Context, guard: GuardOption = "", as_json: AsJson = False) -> int:
    """What was proposed, its state and its targets. Without a word after it: the list."""
    return _list(guard=guard, limit=50, as_json=as_json) if context.invoked_subcommand is None else Exit.DONE


@plans.command("list", epilog="Example: opsguard plans list --guard spool")
def list_(
    guard: GuardOption = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many, newest first.")] = 50,
    as_json: AsJson = False,
) -> int:
    """Plans, the most lately reported first."""
    return _list(guard=guard, limit=limit, as_json=as_json)


@plans.command(epilog="Example: opsguard plans show 3f9c2a10")
def show(digest: Digest, as_json: AsJson = False) -> int:
    """One plan: where, by which policy, its targets, its findings and every decision on it."""
    from opsguard_defs.settings import load_settings

    with open_state(load_settings()) as store:
        plan = store.find_plan(digest)
        decisions = () if isinstance(plan, Refused) else store.decisions(plan.digest)
    if isinstance(plan, Refused):
        say(f"{plan.code}: {plan.message}")
        return exit_of(plan)
    emit(_whole(plan, decisions)) if as_json else _show(plan, decisions)
    return Exit.DONE


def _list(*, guard: str, limit: int, as_json: bool) -> int:
    from opsguard_defs.settings import load_settings

    with open_state(load_settings()) as store:
        found = store.plans(guard=guard or None, limit=limit)
    if as_json:
        for plan in found:
            emit(words.plan_json(plan))
    elif not found:
        line("no plans yet: `opsguard report GUARD[/WATCH]` makes one")
    else:
        rows = [
            (words.short(p.digest), f"{p.guard}/{p.watch}", p.state, p.gaps, len(p.targets), words.utc(p.last_reported_at))
            for p in found
        ]
        table(("plan", "watch", "state", "gaps", "targets", "last reported"), rows, right=("gaps", "targets"))
    return Exit.DONE


def _whole(plan: "StoredPlan", decisions: "tuple[Decision, ...]") -> dict[str, Any]:
    return {
        **words.plan_json(plan),
        "scope": dict(plan.scope),
        "policy": dict(plan.policy),
        "overrides": dict(plan.overrides),
        "findings": list(plan.findings),
        "decisions": [words.decision_json(decision) for decision in decisions],
    }


def _show(plan: "StoredPlan", decisions: "tuple[Decision, ...]") -> None:
    line(f"plan      {plan.digest}")
    line(f"watch     {plan.guard}/{plan.watch}")
    line(f"state     {plan.state}")
    line(f"reported  {words.utc(plan.first_reported_at)}, last {words.utc(plan.last_reported_at)} (run {plan.run_id})")
    if plan.observation:
        line(f"observed  incompletely: {plan.observation}")
    if plan.overrides:
        line(f"set       {', '.join(f'{name}={value}' for name, value in plan.overrides.items())}")
    line(
        f"writes    {size_words(sum(words.size_of(target) for target in plan.targets))} in {count_words(len(plan.targets), 'target')}"
    )
    if plan.targets:
        rows = [
            (words.subject_of(t), t.get("action", ""), f"{int(t.get('size_bytes') or 0):,}", words.sha256_of(t))
            for t in plan.targets
        ]
        table(("target", "action", "bytes", "sha256"), rows, right=("bytes",))
    if plan.findings:
        action_of = words.actions(plan.guard, plan.findings, plan.targets)
        rows_of_findings = [(f["subject"], f["verdict"], action_of[f["subject"]], f["note"]) for f in plan.findings]
        table(("entry", "verdict", "action", "why"), rows_of_findings)
    for decision in decisions:
        used = f", used by run {decision.used_by}" if decision.used_by else f", until {words.utc(decision.valid_until)}"
        why = f": {decision.comment}" if decision.comment else ""
        line(f"{decision.kind} by {decision.decided_by} at {words.utc(decision.decided_at)} ({decision.channel}{used}){why}")
    if step := words.next_step(plan, governing(decisions)):
        line(step)

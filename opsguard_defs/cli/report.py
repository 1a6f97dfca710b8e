"""`opsguard report`: look, judge, and say what would be written. Cannot write."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from assets.known_guards import GUARDS
from guards.text import count_words as counted
from guards.text import size_words
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit, worst
from opsguard_defs.cli.options import AsJson, Where, assignments
from opsguard_defs.cli.output import emit, line, say, table
from opsguard_defs.cli.progress import progress

if TYPE_CHECKING:
    from opsguard_defs.runs import ReportResult
    from resources.errors import OpsGuardError

INCOMPLETE = "observation_incomplete"
_MOST_ROWS = 50


def report(
    where: Where,
    overrides: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="Another policy value for this run; may be repeated.")
    ] = [],  # noqa: B006 - typer reads the default, nobody changes it
    partition: Annotated[
        str, typer.Option("--partition", metavar="DAY", help="Show one day of a calendar, for example 2026-11-30. Makes no plan.")
    ] = "",
    at: Annotated[
        str, typer.Option("--at", metavar="MOMENT", help="Show what would be due then: 2026-12-31T09:00:00+09:00. Makes no plan.")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="Show every entry, not only gaps and targets.")] = False,
    as_json: AsJson = False,
) -> int:
    """Look at the watches, say for every entry what is wrong and why, and record the plan. Writes nothing to any server.

    Exit code 0: observed completely (gaps or not). 5: a side could not be reached or observed completely.
    """
    from opsguard_defs.settings import load_settings
    from opsguard_defs.settings.overrides import override_policy
    from resources.errors import OpsGuardError

    settings = load_settings()
    watches = settings.select(where)
    changed = assignments(overrides)
    for watch in watches:
        override_policy(watch.policy, changed)
        watch.require_complete()
    if partition or at:
        from opsguard_defs.cli.report_views import view

        return view(settings, watches, partition=partition, at=at, overrides=changed, every=every, as_json=as_json)

    from opsguard_defs import runs

    codes = []
    for watch in watches:
        try:
            with progress(f"report {watch.guard}/{watch.name}") as step:
                result = runs.report(settings, watch, overrides=changed, progress=step)
        except OpsGuardError as error:
            if as_json:
                emit(failed_json(watch.guard, watch.name, error))
            incomplete = isinstance(error, runs.ObservationIncomplete)
            say(f"{watch.guard}/{watch.name}: {f'{INCOMPLETE}: ' if incomplete else ''}{error}")
            codes.append(error.exit_code)
            continue
        emit(report_json(result)) if as_json else show_report(result, every=every)
        codes.append(_exit_of(result))
    return worst(codes)


def report_json(result: "ReportResult") -> dict[str, Any]:
    return {
        "guard": result.guard,
        "watch": result.watch,
        "plan": {
            "digest": result.stored.digest,
            "state": str(result.stored.state),
            "targets": list(result.stored.targets),
        },
        "findings": [{key: finding[key] for key in ("subject", "verdict", "note", "facts")} for finding in result.findings],
        "counts": dict(result.counts),
        "gaps": result.gaps,
        **_incompletely(result),
        "run_id": result.run_id,
    }


def _incompletely(result: "ReportResult") -> dict[str, Any]:
    """Only where somebody has to look: a complete report has no such key."""
    observation = result.stored.observation
    return {"error": {"code": INCOMPLETE, "message": observation}} if observation else {}


def failed_json(guard: str, watch: str, error: "OpsGuardError") -> dict[str, Any]:
    """A report of the same shape that found out nothing, and why."""
    from opsguard_defs.runs import ObservationIncomplete

    code = INCOMPLETE if isinstance(error, ObservationIncomplete) else words.error_code(error)
    found: dict[str, Any] = {"plan": None, "findings": [], "counts": {}, "gaps": 0}
    return {"guard": guard, "watch": watch, **found, "error": {"code": code, "message": str(error)}, "run_id": ""}


def show_report(result: "ReportResult", *, every: bool) -> None:
    plan = result.stored
    findings = list(result.findings)
    outstanding = sum(words.size_of(target) for target in plan.targets)
    line(
        f"{result.guard}/{result.watch}: {counted(result.gaps, 'gap')}, {counted(len(plan.targets), 'target')}, "
        f"{size_words(outstanding)} to send; plan {words.short(plan.digest)} is {plan.state}"
    )
    action_of = words.actions(result.guard, findings, plan.targets)
    planned = {words.subject_of(target) for target in plan.targets}
    chosen = [f for f in findings if every or words.is_gap(result.guard, f["verdict"]) or f["subject"] in planned]
    if chosen:
        limit = len(chosen) if every else _MOST_ROWS
        rows = [(f["subject"], f["verdict"], action_of[f["subject"]], f["note"]) for f in chosen[:limit]]
        table((GUARDS[result.guard].entry, "verdict", "action", "why"), rows)
        if len(chosen) > limit:
            line(f"and {len(chosen) - limit} more: --all shows them")
    line(f"seen: {words.count_words(result.counts)}")
    if step := words.next_step(plan, result.decision):
        line(step)


def _exit_of(result: "ReportResult") -> Exit:
    if not result.stored.observation:
        return Exit.DONE
    say(f"{result.guard}/{result.watch}: {INCOMPLETE}: {result.stored.observation}")
    return Exit.NOT_OBSERVED

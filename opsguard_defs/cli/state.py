"""`opsguard state`: a copy of everything that is remembered, and forgetting what nobody decided on."""

from pathlib import Path
from typing import Annotated

import typer

from guards.text import count_words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line
from opsguard_defs.cli.state_store import open_state

state = typer.Typer(
    help="Back up, restore and prune the state database.",
    no_args_is_help=True,
    epilog="Example: opsguard state backup opsguard-state.jsonl",
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines.")]


@state.command(epilog="Example: opsguard state backup opsguard-state.jsonl")
def backup(file: File, as_json: AsJson = False) -> int:
    """Write every row, as of now, into a new file that only you may read. A file that exists is not replaced."""
    from opsguard_defs.settings import load_settings

    with open_state(load_settings()) as store:
        made = store.backup(file.absolute())
    if as_json:
        emit({"file": str(file), "taken_at": made.taken_at, "counts": made.counts, "sha256": made.sha256})
    else:
        line(f"{file}: {count_words(sum(made.counts.values()), 'row')}, sha256 {made.sha256}")
    return Exit.DONE


@state.command(epilog="Example: opsguard state restore opsguard-state.jsonl")
def restore(file: File, as_json: AsJson = False) -> int:
    """Read a backup into an empty state database, all of it or nothing."""
    from opsguard_defs.settings import load_settings

    with open_state(load_settings()) as store:
        made = store.restore(file.absolute())
    if as_json:
        emit({"file": str(file), "taken_at": made.taken_at, "counts": made.counts, "sha256": made.sha256})
    else:
        line(
            f"{file}: {count_words(sum(made.counts.values()), 'row')} restored. Its ledger may be older than what was sent: next, "
            "`opsguard ledger repair --accept-copy --store postgres`"
        )
    return Exit.DONE


@state.command(epilog="Example: opsguard state prune --days 30")
def prune(
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Keep this many days; unset: retention_days of the settings.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Forget reports that nobody decided on and that are older. Decisions, receipts and the ledger stay for ever."""
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    with open_state(settings) as store:
        gone = store.prune(days or settings.retention_days)
    if as_json:
        emit({"days": days or settings.retention_days, "reports": gone.reports, "plans": gone.plans, "alerts": gone.alerts})
    else:
        line(
            f"forgotten: {count_words(gone.reports, 'report')}, {count_words(gone.plans, 'plan')}, {count_words(gone.alerts, 'alert')}"
        )
    return Exit.DONE

"""`opsguard spool sweep`: temporary copies that a run of ours left at a partner when it died."""

import getpass
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from guards.refusal import Refused
from guards.text import count_words
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit, exit_of, worst
from opsguard_defs.cli.options import AsJson, person
from opsguard_defs.cli.output import emit, line, say, table
from opsguard_defs.cli.state_store import open_state

if TYPE_CHECKING:
    from opsguard_defs.settings import Settings, SpoolWatch
    from resources.spool.sweep import StaleName
    from resources.state import StateStore

spool = typer.Typer(help="What only guard spool needs.", no_args_is_help=True)


@spool.callback(epilog="Example: opsguard spool sweep acme")
def group() -> None:
    """What only guard spool needs."""


@spool.command(epilog="Example: opsguard spool sweep acme --yes --by Ada")
def sweep(
    watch: Annotated[str, typer.Argument(metavar="[WATCH]", help="One watch; without it all of guard spool.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Remove what was found; without it nothing is changed.")] = False,
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who wants it removed; unset: your login name.")] = "",
    as_json: AsJson = False,
) -> int:
    """Our own temporary copies that a run left in a partner's inbox when it died, asked for by name from the journal.

    An apply run sweeps by itself; this is for an inbox that should be tidy before the next one.
    """
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    watches = settings.select(f"spool/{watch}" if watch else "spool")
    who = person(by or getpass.getuser()) if yes else ""
    for one in watches:
        one.require_complete()
    with open_state(settings) as store:
        return worst([_sweep(settings, store, one, who=who, as_json=as_json) for one in watches])


def _sweep(settings: "Settings", store: "StateStore", watch: "SpoolWatch", *, who: str, as_json: bool) -> int:
    from resources.spool.sweep_run import SpoolSweep, look_for_stale

    route = watch.route()
    stale = look_for_stale(route, store)
    if not who or not stale:
        _show_found(watch, stale, as_json=as_json)
        return Exit.DONE
    run_id = str(uuid.uuid4())
    done = SpoolSweep(route, store, by=who, run_id=run_id, lease_seconds=settings.lease_seconds).remove(stale)
    if isinstance(done, Refused):
        if as_json:
            emit({"guard": "spool", "watch": watch.name, "removed": [], "refusal": words.refusal_json(done)})
        say(f"spool/{watch.name}: {done.code}: {done.message}")
        return exit_of(done)
    if as_json:
        removed = [receipt.subject for receipt in done.removed]
        emit({"guard": "spool", "watch": watch.name, "removed": removed, "kept": done.kept, "refusal": None})
    else:
        line(f"spool/{watch.name}: {count_words(len(done.removed), 'temporary copy', 'temporary copies')} removed")
    for name, why in done.kept.items():
        say(f"spool/{watch.name}: {name} stays: {why}")
    return Exit.UNPROVEN if done.kept else Exit.DONE


def _show_found(watch: "SpoolWatch", stale: "list[StaleName]", *, as_json: bool) -> None:
    if as_json:
        found = [{"temp": s.temp, "feed": s.feed, "run_id": s.run_id, "size_bytes": s.size_bytes} for s in stale]
        emit({"guard": "spool", "watch": watch.name, "found": found})
        return
    line(f"spool/{watch.name}: {count_words(len(stale), 'temporary copy', 'temporary copies')} of ours in the inbox")
    if stale:
        rows = [(s.temp, s.feed, "unknown" if s.size_bytes is None else f"{s.size_bytes:,}", s.run_id) for s in stale]
        table(("temporary copy", "feed", "bytes", "run"), rows, right=("bytes",))
        line("--yes removes them")

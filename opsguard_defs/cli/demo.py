"""`opsguard demo`: one night that went wrong, repaired in front of you."""

import os
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, program, say, table
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from opsguard_defs.demo import Played, Step
    from opsguard_defs.settings import Settings

_GUARDS = ("spool",)
_COLUMNS = 100


def demo(
    guard: Annotated[str, typer.Option("--guard", metavar="GUARD", help="Only this guard's demo.")] = "",
    every_route: Annotated[bool, typer.Option("--all-routes", help="Also FTP to SFTP and FTPS to FTPS.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the sandbox running afterwards.")] = False,
    as_json: AsJson = False,
) -> int:
    """Start the sandbox, lose feeds, find them, approve, repair, and prove it; ends with a table of what happened.

    Exit code 0 only when every step was as described.
    """
    if guard not in {"", *_GUARDS}:
        raise ConfigurationError(f"no demo for guard {guard[:40]!a}: there is one for {', '.join(_GUARDS)}")
    from opsguard_defs.demo import USUAL_WATCHES, SpoolDemo
    from opsguard_defs.sandbox import Sandbox
    from opsguard_defs.sandbox.set_aside import set_aside
    from opsguard_defs.settings import load_settings

    box = Sandbox()
    with box.running():
        os.environ.update(box.env())
        os.environ.pop("DAGSTER_HOME", None)  # the demo's runs do not belong into somebody's own instance
        settings = load_settings(box.config)
        watches = box.watches if every_route else USUAL_WATCHES
        played = []
        for watch in watches:
            if not as_json:
                line(f"spool/{watch}")
            if aside := set_aside(box, watch):
                say(f"spool/{watch}: the night is played without what you had dropped there; it is now in {aside}")
            one = SpoolDemo(box, settings, watch, tell=_ignore if as_json else _tell).play()
            played.append(one)
            if as_json:
                emit(_as_json(one))
    if keep:
        box.up()
    if not as_json:
        _summary(played, settings, kept=keep)
    return Exit.DONE


def _tell(step: "Step") -> None:
    for text in textwrap.wrap(
        f"({step.letter}) {step.title}: {step.seen}", _COLUMNS - 2, initial_indent="  ", subsequent_indent=" " * 6
    ):
        line(text)
    line(f"      $ {step.command.replace('opsguard', program(), 1)}")
    if step.rows:
        table(("entry", "verdict", "why"), step.rows, most_columns=_COLUMNS)


def _ignore(_step: "Step") -> None:
    """The steps are printed whole at the end."""


def _summary(played: "list[Played]", settings: "Settings", *, kept: bool) -> None:
    line()
    rows = [
        (f"spool/{one.watch}", feed.name, feed.verdict, f"{feed.size_bytes:,}", "yes") for one in played for feed in one.feeds
    ]
    columns = ("watch", "feed", "was", "bytes", "re-sent, proven, archived")
    table(columns, rows, title="What happened", right=("bytes",), most_columns=_COLUMNS)
    sides = [
        (one.watch, feed.name, side, digest)
        for one in played
        for feed in one.feeds
        for side, digest in (("archive", feed.archive_sha256), ("partner", feed.partner_sha256))
    ]
    title = "The same bytes on both sides"
    table(("watch", "feed", "side", "SHA-256 of the bytes on disk"), sides, title=title, most_columns=_COLUMNS + 20)
    me = program()
    line(f"Look at it in the UI: {me} dev")
    for one in played:
        line(f"  {settings.ui_url}/locations/opsguard/asset-groups/spool_{one.watch}/lineage")
        line(f"  {settings.ui_url}/runs/{one.run_id}")
    line("To type the steps yourself, from (b) on:")
    line(f'  {"" if kept else f"{me} sandbox up; "}eval "$({me} sandbox env)"')
    line(f"What was planned and written: {me} plans, {me} receipts")
    if kept:
        line(f"The sandbox is still up: {me} sandbox down ends it")


def _as_json(one: "Played") -> dict[str, object]:
    return {
        "guard": "spool",
        "watch": one.watch,
        "plan_digest": one.plan_digest,
        "run_id": one.run_id,
        "steps": [{"step": s.letter, "title": s.title, "command": s.command, "seen": s.seen} for s in one.steps],
        "feeds": [
            {
                "name": feed.name,
                "verdict": feed.verdict,
                "size_bytes": feed.size_bytes,
                "archive_sha256": feed.archive_sha256,
                "partner_sha256": feed.partner_sha256,
            }
            for feed in one.feeds
        ],
    }

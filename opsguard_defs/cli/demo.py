"""`opsguard demo`: a night and a morning that went wrong, repaired in front of you."""

import os
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from opsguard_defs.cli import demo_words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, program, say, table
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from opsguard_defs.demo import Played
    from opsguard_defs.demo_delivery import PlayedMessages
    from opsguard_defs.demo_play import Step
    from opsguard_defs.sandbox import Sandbox
    from opsguard_defs.settings import Settings

_GUARDS: Final = ("spool", "delivery")
_COLUMNS: Final = 100


def demo(
    guard: Annotated[str, typer.Option("--guard", metavar="GUARD", help="Only this guard's demo.")] = "",
    every_route: Annotated[bool, typer.Option("--all-routes", help="Also FTP to SFTP and FTPS to FTPS.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the sandbox running afterwards.")] = False,
    as_json: AsJson = False,
) -> int:
    """Start the sandbox, cause an incident per guard, find it, approve, repair, and prove it; ends with a table of what happened.

    Exit code 0 only when every step was as described.
    """
    if guard not in {"", *_GUARDS}:
        raise ConfigurationError(f"no demo for guard {guard[:40]!a}: there is one for {', '.join(_GUARDS)}")
    from opsguard_defs.sandbox import Sandbox
    from opsguard_defs.settings import load_settings

    box = Sandbox()
    tell: Callable[[Step], None] = _ignore if as_json else _tell
    feeds: list[Played] = []
    messages: list[PlayedMessages] = []
    with box.running():
        os.environ.update(box.env())
        os.environ.pop("DAGSTER_HOME", None)  # the demo's runs do not belong into somebody's own instance
        settings = load_settings(box.config)
        if guard in {"", "spool"}:
            feeds = _play_spool(box, settings, tell, every_route=every_route, as_json=as_json)
        if guard in {"", "delivery"}:
            messages = _play_delivery(box, settings, tell, as_json=as_json)
    if keep:
        box.up()
    if not as_json:
        demo_words.summary(feeds, messages)
        _further(feeds, messages, settings, kept=keep)
    return Exit.DONE


def _play_spool(
    box: "Sandbox", settings: "Settings", tell: "Callable[[Step], None]", *, every_route: bool, as_json: bool
) -> "list[Played]":
    from opsguard_defs.demo import USUAL_WATCHES, SpoolDemo
    from opsguard_defs.sandbox.set_aside import set_aside

    played = []
    for watch in box.watches if every_route else USUAL_WATCHES:
        if not as_json:
            line(f"spool/{watch}")
        if aside := set_aside(box, watch):
            say(f"spool/{watch}: the night is played without what you had dropped there; it is now in {aside}")
        played.append(SpoolDemo(box, settings, watch, tell=tell).play())
        if as_json:
            emit(demo_words.feeds_json(played[-1]))
    return played


def _play_delivery(
    box: "Sandbox", settings: "Settings", tell: "Callable[[Step], None]", *, as_json: bool
) -> "list[PlayedMessages]":
    from opsguard_defs.demo_delivery import DeliveryDemo
    from opsguard_defs.demo_stage import WATCH

    if not as_json:
        line(WATCH)
    played = DeliveryDemo(box, settings, tell=tell).play()
    if as_json:
        emit(demo_words.messages_json(played))
    return [played]


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


def _further(feeds: "list[Played]", messages: "list[PlayedMessages]", settings: "Settings", *, kept: bool) -> None:
    """What to look at and type next."""
    me = program()
    line(f"Look at it in the UI: {me} dev")
    seen = [("spool", one.watch, one.run_id) for one in feeds] + [("delivery", one.watch, one.run_id) for one in messages]
    for guard, watch, run_id in seen:
        line(f"  {settings.ui_url}/locations/opsguard/asset-groups/{guard}_{watch}/lineage")
        line(f"  {settings.ui_url}/runs/{run_id}")
    line("To type the steps yourself:")
    line(f'  {"" if kept else f"{me} sandbox up; "}eval "$({me} sandbox env)"')
    line(f"What was planned and written: {me} plans, {me} receipts")
    if messages:
        line(f"What may never happen twice: {me} ledger status --store file")
    if kept:
        line(f"The sandbox is still up: {me} sandbox down ends it")

"""`opsguard sandbox`: real servers on this machine, to cause trouble with any client and see what is found."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, say, table
from resources.errors import ConfigurationError, Unreachable

if TYPE_CHECKING:
    from opsguard_defs.sandbox import Sandbox

sandbox = typer.Typer(
    help="Real file servers, a database and a Slack sink on this machine.",
    no_args_is_help=True,
    epilog="Example: opsguard sandbox up",
)


@sandbox.command(epilog="Example: opsguard sandbox up")
def up(as_json: AsJson = False) -> int:
    """Start the servers and leave them running; print their addresses, users and passwords."""
    from opsguard_defs.sandbox import Sandbox

    box = Sandbox()
    running = box.up()
    say(f"the sandbox is up; its settings are in {box.config}")
    _show(_servers(running), as_json=as_json)
    return Exit.DONE


@sandbox.command(epilog="Example: opsguard sandbox down")
def down(as_json: AsJson = False) -> int:
    """Stop all servers. Files, keys and ports are kept for the next start."""
    from opsguard_defs.sandbox import Sandbox

    stopped = Sandbox().down()
    if as_json:
        emit({"stopped": stopped})
    else:
        line("the sandbox is down" if stopped else "there was no sandbox up")
    return Exit.DONE


@sandbox.command(epilog="Example: opsguard sandbox status --json")
def status(as_json: AsJson = False) -> int:
    """Which servers run. Exit code 5 when the sandbox is not up, or not all of it."""
    from opsguard_defs.sandbox import Sandbox

    running = Sandbox().status()
    if running is None:
        say("no sandbox is up: `opsguard sandbox up` starts it")
        return Exit.NOT_OBSERVED
    _show(_servers(running), as_json=as_json)
    return Exit.DONE if running.is_whole else Exit.NOT_OBSERVED


@sandbox.command(epilog='Example: eval "$(opsguard sandbox env)"')
def env(as_json: AsJson = False) -> int:
    """Print the variables to export, so that other commands and clients find this sandbox."""
    from opsguard_defs.sandbox import Sandbox

    variables = Sandbox().env()
    if as_json:
        emit(variables)
    else:
        for name, value in variables.items():
            line(f"export {name}={shlex.quote(value)}")
    return Exit.DONE


@sandbox.command(epilog="Example: opsguard sandbox incident ftp_demo")
def incident(
    watch: Annotated[str, typer.Argument(metavar="WATCH", help="One of the sandbox's watches: ftp_demo, or customers.")],
    clean: Annotated[bool, typer.Option("--clean", help="Play a night on which everything arrived.")] = False,
    repairable: Annotated[bool, typer.Option("--repairable", help="Without what only a person can clear up.")] = False,
    as_json: AsJson = False,
) -> int:
    """Play a night: feeds that never reached the partner, although the handoff job said success. Or a morning: messages that are owed."""
    from opsguard_defs.sandbox import Sandbox, clean_night
    from opsguard_defs.sandbox import incident as bad_night
    from opsguard_defs.sandbox.roster import CUSTOMERS

    if clean and repairable:
        raise ConfigurationError("--clean and --repairable are two different nights: give one of them")
    box = Sandbox()
    if watch not in {*box.watches, CUSTOMERS}:
        raise ConfigurationError(f"the sandbox has no watch {watch[:60]!a}: known are {', '.join((*box.watches, CUSTOMERS))}")
    if clean and watch == CUSTOMERS:
        raise ConfigurationError("customers have no clean night: without an incident nothing is owed to them")
    if box.status() is None:
        raise Unreachable("no sandbox is up: `opsguard sandbox up` starts it")
    if watch == CUSTOMERS:
        return _owe(box, needs_person=not repairable, as_json=as_json)
    played = clean_night(box, watch) if clean else bad_night(box, watch, needs_person=not repairable)
    if as_json:
        emit({"watch": watch, "night": played.night, "expected": {name: str(v) for name, v in played.expected.items()}})
        return Exit.DONE
    table(("entry", "a report will say"), played.expected.items(), title=f"spool/{watch}, night {played.night}")
    line(f"next: opsguard report spool/{watch}")
    return Exit.DONE


def _owe(box: "Sandbox", *, needs_person: bool, as_json: bool) -> Exit:
    from opsguard_defs.sandbox.customers import owe_messages
    from opsguard_defs.sandbox.roster import CUSTOMERS

    owing = owe_messages(box, needs_person=needs_person)
    expected = {slot.key: str(verdict) for slot, verdict in owing.expected.items()}
    if as_json:
        emit({"watch": CUSTOMERS, "play": owing.play, "expected": expected})
        return Exit.DONE
    table(("message", "a report will say"), expected.items(), title=f"delivery/{CUSTOMERS}, play {owing.play}")
    line(f"next: opsguard report delivery/{CUSTOMERS}")
    return Exit.DONE


def _servers(running: Any) -> list[dict[str, Any]]:
    return [
        {"name": s.name, "url": s.url, "user": s.user, "password": s.password, "running": s.is_running, "files": str(s.files)}
        for s in running.servers
    ]


def _show(servers: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        emit({"servers": servers})
        return
    rows = [(s["name"], s["url"], s["password"] or "-", "up" if s["running"] else "DOWN") for s in servers]
    table(("server", "address", "password", "state"), rows)

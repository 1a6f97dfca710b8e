"""`opsguard dev`: Dagster's UI and daemon on this machine, with the sandbox or for one's own watches, ended together."""

import sys
from typing import Annotated

import typer

from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, say


def dev(
    no_sandbox: Annotated[bool, typer.Option("--no-sandbox", help="Your own opsguard.toml and state; no sandbox.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Serve a UI that can launch and change nothing.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of the UI, on 127.0.0.1.")] = 3000,
    as_json: AsJson = False,
) -> int:
    """Sandbox, Dagster's UI and its daemon on 127.0.0.1, with one incident waiting. Ctrl-C ends all of it.

    With --no-sandbox: UI and daemon for the watches of your own opsguard.toml; nothing runs by itself until you switch it on.
    """
    from opsguard_defs.dev import dev as run_until_asked
    from opsguard_defs.dev import dev_own
    from opsguard_defs.settings import home_path, load_settings

    tell = _say_json if as_json else _tell
    if no_sandbox:
        return dev_own(load_settings(), port=port, read_only=read_only, say=tell)
    return run_until_asked(home_path(), port=port, read_only=read_only, say=tell)


def _tell(text: str) -> None:
    """The address is what a script waits for; the rest is for people."""
    from opsguard_defs.dev import ADDRESS

    if text.startswith(ADDRESS):
        line(text)
        sys.stdout.flush()
    else:
        say(text)


def _say_json(text: str) -> None:
    emit({"said": text})

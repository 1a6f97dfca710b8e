"""`opsguard dev`: sandbox, Dagster's UI and daemon on this machine, ended together."""

from typing import Annotated

import typer

from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, say


def dev(
    read_only: Annotated[bool, typer.Option("--read-only", help="Serve a UI that can launch and change nothing.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of the UI, on 127.0.0.1.")] = 3000,
    as_json: AsJson = False,
) -> int:
    """Sandbox, Dagster's UI and its daemon on 127.0.0.1, with one incident waiting. Ctrl-C ends all of it."""
    from opsguard_defs.dev import dev as run_until_asked
    from opsguard_defs.settings import home_path

    return run_until_asked(home_path(), port=port, read_only=read_only, say=_say_json if as_json else say)


def _say_json(text: str) -> None:
    emit({"said": text})

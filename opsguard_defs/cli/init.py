"""`opsguard init`: a commented `[[watch]]` block to fill in."""

import re
from typing import Annotated

import typer

from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line
from resources.errors import ConfigurationError


def init(
    guard: Annotated[str, typer.Argument(metavar="GUARD", help="spool or delivery")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and _, beginning with a letter.")],
    as_json: AsJson = False,
) -> int:
    """Print a commented watch to fill in. Changes nothing: append it to opsguard.toml yourself."""
    block = watch_block(guard, name)
    emit({"guard": guard, "name": name, "toml": block}) if as_json else [line(text) for text in block.rstrip("\n").split("\n")]
    return Exit.DONE


def watch_block(guard: str, name: str) -> str:
    """Valid TOML as it is. Raises `ConfigurationError` for another guard or a name that cannot be a watch's."""
    from opsguard_defs.cli.init_blocks import BLOCKS

    if guard not in BLOCKS:
        raise ConfigurationError(f"no block for guard {guard[:40]!a}: known are {', '.join(BLOCKS)}")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name):
        raise ConfigurationError("NAME must be lower-case letters, digits and _, at most 31, beginning with a letter")
    return BLOCKS[guard](name)

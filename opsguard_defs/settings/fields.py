"""Kinds of keys that the blocks of several guards have."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, PlainValidator, ValidationInfo


def read_path(value: object, info: ValidationInfo) -> Path | None:
    """Relative paths are relative to the settings file; "" and a missing key are None."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError("must be the path of a file, as text between quotes")
    base: Path = (info.context or {}).get("base", Path())
    return (base / Path(value).expanduser()).absolute()


def _watch_name(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", value):
        raise ValueError("must be lower-case letters, digits and _, at most 31 characters, beginning with a letter")
    return value


File = Annotated[Path | None, PlainValidator(read_path)]
WatchName = Annotated[str, AfterValidator(_watch_name)]

"""How deep a value may be nested that goes into a row: what one program can write, any other must be able to read, from any depth
of its own stack."""

from collections.abc import Mapping, Sequence
from typing import Final

from guards.canonical import Json

MOST_NESTED: Final = 32
"""Objects and arrays inside one another. Reading takes a stack frame per level, and a row nested 985 deep could be written by a caller
near the bottom of its stack and by nobody further up be read."""


def is_too_deep(value: Json, levels: int = MOST_NESTED) -> bool:
    """Goes no deeper than it has to in order to know."""
    if isinstance(value, Mapping):
        return not levels or any(is_too_deep(item, levels - 1) for item in value.values() if not isinstance(item, str))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return not levels or any(is_too_deep(item, levels - 1) for item in value)
    return False

"""Exit codes, and the one place that gives a refusal its code."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from guards.refusal import RefusalCode, Refused


class Exit(IntEnum):
    """Codes never change once released."""

    DONE = 0
    """Done, or nothing to do."""
    UNEXPECTED = 1
    """A fault of ours; a log says where."""
    USAGE = 2
    """Bad usage or configuration; nothing was contacted."""
    REFUSED = 3
    """Refused; nothing was written."""
    UNPROVEN = 4
    """Ended without proof: the message says what to look at."""
    NOT_OBSERVED = 5
    """A system could not be reached or observed completely."""


INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""As a program that SIGPIPE ended, so that a shell's pipefail sees the usual value."""

_WORST_FIRST: Final = (Exit.UNEXPECTED, Exit.UNPROVEN, Exit.NOT_OBSERVED, Exit.USAGE, Exit.REFUSED, Exit.DONE)


def exit_of(refused: Refused) -> Exit:
    match refused.code:
        case RefusalCode.NOTHING_TO_DO:
            return Exit.DONE
        case RefusalCode.OBSERVATION_INCOMPLETE:
            return Exit.NOT_OBSERVED
        case _:
            return Exit.REFUSED


def worst(codes: Iterable[int]) -> Exit:
    """Of several watches: what a person must look at first decides."""
    seen = {Exit(code) for code in codes}
    return next((code for code in _WORST_FIRST if code in seen), Exit.DONE)

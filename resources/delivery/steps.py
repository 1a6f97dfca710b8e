"""The steps of one message, in order. The journal names them, and crash tests stop between them."""

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    RECHECK = "recheck"
    RESERVE = "reserve"
    EVIDENCE = "evidence"
    GRANT = "grant"
    CALL = "call"
    SETTLE = "settle"
    RECEIPT = "receipt"


class Moment(StrEnum):
    BEFORE = "before"
    AFTER = "after"


Watcher = Callable[[Step, Moment, str], None]
"""Told (step, before or after, slot key) as a message goes on; what it raises stops it there."""


def nobody(_step: Step, _moment: Moment, _subject: str) -> None:
    """Nobody watches."""

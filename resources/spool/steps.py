"""The eight steps of one delivery, in order. Progress shows them, the journal names them, and crash tests stop between them."""

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    RESERVE = "reserve"
    RECHECK = "recheck"
    UPLOAD = "upload"
    PROVE = "prove"
    PLACE = "place"
    OBSERVE = "observe"
    ARCHIVE = "archive"
    SETTLE = "settle"


class Moment(StrEnum):
    BEFORE = "before"
    AFTER = "after"


Watcher = Callable[[Step, Moment, str], None]
"""Told (step, before or after, feed name) as a delivery goes on; what it raises stops the delivery there."""


def nobody(_step: Step, _moment: Moment, _name: str) -> None:
    """Nobody watches."""

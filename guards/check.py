"""Outcomes of checks: what verification found, in the words that the UI, the command line and an alert show."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """`message` says count, cause and next step. `severity` only matters when it did not pass."""

    name: str
    passed: bool
    message: str
    severity: Severity = Severity.ERROR

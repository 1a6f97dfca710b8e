"""What a look at one part of an installation found, for every guard."""

from dataclasses import dataclass
from enum import StrEnum

from resources.errors import ConfigurationError, OpsGuardError


class Health(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Works, and somebody should know."""
    MISCONFIGURED = "misconfigured"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`where` is a watch (`spool/acme`) or a part of the product; `message` says what was seen, or what to do."""

    where: str
    check: str
    health: Health
    message: str

    def as_json(self) -> dict[str, str]:
        return {"where": self.where, "check": self.check, "health": self.health.value, "message": self.message}


def health_of(error: OpsGuardError) -> Health:
    return Health.MISCONFIGURED if isinstance(error, ConfigurationError) else Health.UNREACHABLE

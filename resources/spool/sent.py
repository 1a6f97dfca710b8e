"""What became of one target, as values: the engine's answer for one feed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from guards.receipt import Receipt
from guards.spool.planning import SpoolTarget


class Outcome(StrEnum):
    DELIVERED = "delivered"
    """Under the final name, full size, bytes proven."""
    CONSUMED = "consumed"
    """Placed after its bytes were proven, and taken away by a partner that consumes on arrival."""
    ALREADY_DELIVERED = "already_delivered"
    """The ledger proves these bytes were sent before, or an unfinished attempt was found to have arrived: nothing was sent now."""
    STALE = "stale"
    """The facts changed just before its write: nothing was written for it."""
    FAILED = "failed"
    """Provably not delivered: the final name is as it was."""
    NOT_SENT = "not_sent"
    """An unfinished attempt is proven not to have arrived; nothing was sent now, and the next report plans it again."""
    UNKNOWN = "unknown"
    """May or may not have arrived: only evidence or a person resolves it."""

    @property
    def is_proven(self) -> bool:
        """The source may be archived."""
        match self:
            case Outcome.DELIVERED | Outcome.CONSUMED | Outcome.ALREADY_DELIVERED:
                return True
            case Outcome.STALE | Outcome.FAILED | Outcome.NOT_SENT | Outcome.UNKNOWN:
                return False
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True)
class Sent:
    """`message` is one sentence for the operator."""

    name: str
    outcome: Outcome
    message: str
    size_bytes: int
    sha256: str
    receipt: Receipt | None = None


def sent_of(target: SpoolTarget, outcome: Outcome, message: str, *, receipt: Receipt | None = None) -> Sent:
    return Sent(
        name=target.name,
        outcome=outcome,
        message=message,
        size_bytes=target.size_bytes,
        sha256=target.sha256,
        receipt=receipt,
    )


class ArchiveOutcome(StrEnum):
    ARCHIVED = "archived"
    SOURCE_CHANGED = "source_changed_after_send"
    """The spool holds other bytes under that name now: left where it is, a new feed."""
    LEFT = "left_in_spool"


@dataclass(frozen=True, slots=True)
class Archived:
    name: str
    outcome: ArchiveOutcome
    message: str
    archived_as: str = ""
    receipt: Receipt | None = None

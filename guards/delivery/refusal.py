"""The ledger's refusals: values with a code of their own closed set; nothing that was durable changed unless the code says so."""

from dataclasses import dataclass
from enum import StrEnum


class LedgerCode(StrEnum):
    """Codes never change once released."""

    PIN_CONFLICT = "pin_conflict"
    """The slot is reserved for something else."""
    OUTSIDE_WINDOW = "outside_window"
    """Not due yet, or no longer."""
    BUSY = "busy"
    """Somebody is sending, or was and nobody has expired it."""
    AUTHORITY = "authority"
    """The stored authority was not given, or another: the reservation, which was only prepared, is abandoned."""
    STALE_GRANT = "stale_grant"
    """The grant is not the newest: state unchanged, what it said is kept as late evidence."""
    LIVE = "live"
    """The holder's lease has not ended."""
    APPROVAL = "approval"
    """A person has to allow this, with an approval not used for this slot before."""
    ILLEGAL_EDGE = "illegal_edge"
    """The state, or the kind, does not allow it."""
    RECEIPT_CONFLICT = "receipt_conflict"
    """Evidence contradicts what is recorded: a person has to look; what was said is kept as late evidence."""
    NOT_FOUND = "not_found"
    """No such reservation or slot."""
    INVALID = "invalid"
    """Outside the closed form; nothing was written."""
    RECOVERY_REQUIRED = "recovery_required"
    """The ledger is not where it was last proven (another server, a restored copy): verify first."""


@dataclass(frozen=True, slots=True)
class LedgerRefused:
    """`message` is one sentence for the operator and says what to do next."""

    code: LedgerCode
    message: str

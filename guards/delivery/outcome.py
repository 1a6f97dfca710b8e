"""What a holder says became of its one call, and who allowed what. Free text only in a bounded note, never in a pinned field."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from guards.canonical import Json
from guards.delivery.reservation import ReservationState
from guards.gate import Authorization

LONGEST_NOTE: Final = 500
_HOLDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")


def is_holder(name: str) -> bool:
    """Holders and request keys: 1 to 128 of letters, digits and `._:@-`, for example a run id."""
    return _HOLDER.fullmatch(name) is not None


class Reason(StrEnum):
    """Why a reservation moved where it did. Closed, so that nothing a provider says can end up in a row's grammar."""

    REJECTED = "rejected"
    """The provider said no, provably before acceptance."""
    NOT_PLACED = "not_placed"
    """It stopped before the last step, and what was left was cleared away or is of no effect."""
    STALE = "stale"
    """The facts had changed when the write was due."""
    NO_ANSWER = "no_answer"
    """The answer was lost, late, or made no sense."""
    LEASE_ENDED = "lease_ended"
    """Its holder is gone and said nothing."""
    AUTHORITY = "authority"
    """The authority it was reserved under no longer holds."""
    TERMINAL_RESPONSE = "terminal_response"
    """What it would have asked for has arrived meanwhile."""
    WITHDRAWN = "withdrawn"
    """Its owner gave it up before a byte went out."""
    ORPHAN_CLAIM = "orphan_claim"
    """A claim without a row was found."""
    MIGRATED = "migrated"
    """Came with an import that could not tell."""
    RECONCILED = "reconciled"
    """Outside evidence decided."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Made by the functions below: `state` is where the reservation goes, `receipt` only with `delivered`."""

    state: ReservationState
    receipt: Mapping[str, Json] = field(default_factory=dict)
    reason: Reason | None = None
    note: str = ""

    def as_json(self) -> dict[str, Json]:
        return {
            "state": self.state.value,
            "receipt": dict(self.receipt),
            "reason": self.reason.value if self.reason else "",
            "note": self.note,
        }


def delivered(receipt: Mapping[str, Json]) -> Outcome:
    """Proven accepted; `receipt` is the evidence and must not be empty."""
    return Outcome(ReservationState.DELIVERED, receipt=receipt)


def known_failure(reason: Reason, note: str = "") -> Outcome:
    """Proven not accepted; only for kinds that can prove it."""
    return Outcome(ReservationState.KNOWN_FAILURE, reason=reason, note=note)


def unknown(reason: Reason, note: str = "") -> Outcome:
    return Outcome(ReservationState.UNKNOWN, reason=reason, note=note)


def abandoned(reason: Reason, note: str = "") -> Outcome:
    """Given up by the owner before a byte went out. The slot stays taken."""
    return Outcome(ReservationState.ABANDONED, reason=reason, note=note)


@dataclass(frozen=True, slots=True)
class Approval:
    """Who allowed it: a decision of the state store (`approval_id` > 0) on the plan `plan_digest`, or a person at the command line (0)."""

    approval_id: int
    approved_by: str
    plan_digest: str = ""
    comment: str = ""

    @classmethod
    def of(cls, authorization: Authorization) -> "Approval":
        return cls(
            approval_id=authorization.approval_id, approved_by=authorization.approved_by, plan_digest=authorization.plan_digest
        )

    @property
    def is_given(self) -> bool:
        by = self.approved_by
        return 1 <= len(by) <= 120 and by.isprintable() and bool(by.strip()) and len(self.comment) <= LONGEST_NOTE

    def as_json(self) -> dict[str, Json]:
        return {
            "approval_id": self.approval_id,
            "approved_by": self.approved_by,
            "plan_digest": self.plan_digest,
            "comment": self.comment,
        }

"""Entries and what they amount to. An entry is one thing that happened to a reservation; a reservation is the fold of its entries.

The same fold serves the transitions, every store, and the verification of a stored chain: there is no second reading of a row.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from typing import Final, assert_never

from guards.canonical import Json, canonical_json
from guards.delivery.outcome import LONGEST_NOTE, Reason, is_holder
from guards.delivery.pins import Pins
from guards.delivery.reservation import EDGES, ReservationState
from guards.delivery.slot import Slot


class Event(StrEnum):
    OPENED = "opened"
    """An attempt begins; the claim on the slot is its."""
    MOVED = "moved"
    LATE_EVIDENCE = "late_evidence"
    """Said too late to change the state; kept, because it may be the only trace of what went out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`state` is the state after it. `pins` and `key` only when opened; `receipt` when proven sent; `approval` when a person allowed it."""

    event: Event
    slot: Slot
    attempt: int
    state: ReservationState
    fence: int
    holder: str
    pins_digest: str
    pins: Pins | None = None
    key: str = ""
    reason: Reason | None = None
    note: str = ""
    receipt: Mapping[str, Json] = field(default_factory=dict)
    evidence: Mapping[str, Json] = field(default_factory=dict)
    approval: Mapping[str, Json] = field(default_factory=dict)

    @property
    def reservation_id(self) -> str:
        return self.slot.reservation_id(self.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One attempt to fill a slot, as its entries leave it. `changed_at` is when it last moved, `is_live` the store's answer on the lease."""

    slot: Slot
    attempt: int
    state: ReservationState
    pins: Pins
    key: str
    fence: int
    holder: str
    opened_at: datetime
    changed_at: datetime
    opened_under: Mapping[str, Json] = field(default_factory=dict)
    reason: Reason | None = None
    note: str = ""
    receipt: Mapping[str, Json] = field(default_factory=dict)
    evidence: Mapping[str, Json] = field(default_factory=dict)
    approval: Mapping[str, Json] = field(default_factory=dict)
    late: tuple[Mapping[str, Json], ...] = ()
    used: tuple[str, ...] = ()
    """Digests of the approvals that opened this attempt and those before it: none of them opens another."""
    is_live: bool = False
    lease_expires_at: datetime | None = None

    @property
    def reservation_id(self) -> str:
        return self.slot.reservation_id(self.attempt)

    @property
    def may_fail_known(self) -> bool:
        """A provider's proven "no" ends it as known failure; where that is not allowed it is doubt, for a person."""
        return self.slot.rules.may_fail_known or self.pins.may_fail_known

    @property
    def is_contradicted(self) -> bool:
        """Late evidence says that it went out after all, whatever the state says."""
        return any(said.get("state") == ReservationState.DELIVERED.value for said in self.late)


@dataclass(frozen=True, slots=True)
class IllegalEntry:
    """An entry that cannot follow: the stored chain is not what this program wrote."""

    why: str


def advance(current: Reservation | None, entry: Entry, *, at: datetime) -> Reservation | IllegalEntry:
    """`current` is the slot's latest attempt, None when the slot is free."""
    if len(entry.note) > LONGEST_NOTE:
        return IllegalEntry(f"a note of {len(entry.note)} characters")
    match entry.event:
        case Event.OPENED:
            return _opened(current, entry, at)
        case Event.MOVED:
            return _moved(current, entry, at)
        case Event.LATE_EVIDENCE:
            if (problem := _not_the_same(current, entry)) or current is None:
                return IllegalEntry(problem)
            if entry.state is not current.state:
                return IllegalEntry(f"late evidence changed {current.state} to {entry.state}")
            return replace(current, late=(*current.late, dict(entry.evidence)))
        case _:
            assert_never(entry.event)


_FOUND: Final = frozenset({Reason.MIGRATED, Reason.ORPHAN_CLAIM})


def _opened(current: Reservation | None, entry: Entry, at: datetime) -> Reservation | IllegalEntry:
    if entry.pins is None or entry.pins.digest != entry.pins_digest:
        return IllegalEntry("an attempt opened without the pins its digest is of")
    if (None, entry.state) not in EDGES:
        return IllegalEntry(f"an attempt opened as {entry.state}")
    if entry.state is ReservationState.UNKNOWN and entry.reason not in _FOUND:
        return IllegalEntry("an attempt opened as unknown that was neither imported nor an orphan claim")
    if entry.attempt != (current.attempt + 1 if current else 1):
        return IllegalEntry(f"attempt {entry.attempt} opened after {current.attempt if current else 'none'}")
    if current is not None and not may_be_replaced(current):
        return IllegalEntry(f"attempt {entry.attempt} opened over one that is {current.state}")
    if entry.fence != (current.fence + 1 if current else 0) or entry.holder:
        return IllegalEntry(f"attempt {entry.attempt} opened with fence {entry.fence} by {entry.holder or 'nobody'}")
    if entry.state is ReservationState.PREPARED and not is_holder(entry.key):
        return IllegalEntry(f"attempt {entry.attempt} opened under a request key that is none")
    if current is not None and is_used(current, entry.approval):
        return IllegalEntry(f"attempt {entry.attempt} opened under an approval that had opened one before")
    return Reservation(
        slot=entry.slot,
        attempt=entry.attempt,
        state=entry.state,
        pins=entry.pins,
        key=entry.key,
        fence=entry.fence,
        holder=entry.holder,
        opened_at=at,
        changed_at=at,
        opened_under=entry.approval,
        reason=entry.reason,
        note=entry.note,
        evidence=entry.evidence,
        approval=entry.approval,
        used=(*(current.used if current else ()), *((digest_of(entry.approval),) if entry.approval else ())),
    )


def is_used(current: Reservation, approval: Mapping[str, Json]) -> bool:
    """It has opened an attempt at this slot. No approval at all is never used."""
    return bool(approval) and digest_of(approval) in current.used


def digest_of(approval: Mapping[str, Json]) -> str:
    """32 hex digits. One approval opens hundreds of slots: they share the text, and it is computed once."""
    if approval.keys() == _APPROVAL and all(type(value) in _PLAIN for value in approval.values()):
        return _digest_of_usual(*_spoken(approval))
    return _digest(approval)


@lru_cache(maxsize=4096, typed=True)
def _digest_of_usual(approval_id: Json, approved_by: Json, comment: Json, plan_digest: Json) -> str:
    return _digest({"approval_id": approval_id, "approved_by": approved_by, "comment": comment, "plan_digest": plan_digest})


def _digest(approval: Mapping[str, Json]) -> str:
    return hashlib.sha256(canonical_json(dict(approval))).hexdigest()[:32]


_spoken: Final = itemgetter("approval_id", "approved_by", "comment", "plan_digest")
_APPROVAL: Final = frozenset({"approval_id", "approved_by", "comment", "plan_digest"})
_PLAIN: Final = frozenset({int, str})
"""What `Approval.as_json` holds; a stored row may hold anything."""


_PROVEN_BY: Final = frozenset(
    {
        ReservationState.DELIVERED,
        ReservationState.SENT_AUDITED,
        ReservationState.RESOLVED_SENT,
        ReservationState.RESOLVED_NOT_SENT,
    }
)
"""States that say how it is known: by a receipt, or the last two by evidence."""


def _moved(current: Reservation | None, entry: Entry, at: datetime) -> Reservation | IllegalEntry:
    if (problem := _not_the_same(current, entry)) or current is None:
        return IllegalEntry(problem)
    if (current.state, entry.state) not in EDGES:
        return IllegalEntry(f"no edge from {current.state} to {entry.state}")
    granted = entry.state is ReservationState.SENDING
    if entry.fence != current.fence + granted or (entry.holder != current.holder and not granted):
        return IllegalEntry(f"moved to {entry.state} by {entry.holder or 'nobody'} with fence {entry.fence}")
    if granted and not is_holder(entry.holder):
        return IllegalEntry("granted to what is no holder")
    if entry.state in _PROVEN_BY and not (entry.evidence or (entry.receipt and entry.state.is_proven_sent)):
        return IllegalEntry(f"{entry.state} without evidence")
    if entry.state is ReservationState.KNOWN_FAILURE and not current.may_fail_known and entry.reason is not Reason.MIGRATED:
        return IllegalEntry(f"a {current.slot.kind} slot failed for certain")
    if entry.state is ReservationState.SENT_AUDITED and entry.receipt != current.receipt:
        return IllegalEntry("an audit replaced the receipt")
    return Reservation(  # spelt out: `replace` took a fifth of a verification
        slot=current.slot,
        attempt=current.attempt,
        state=entry.state,
        pins=current.pins,
        key=current.key,
        fence=entry.fence,
        holder=entry.holder,
        opened_at=current.opened_at,
        changed_at=at,
        opened_under=current.opened_under,
        reason=entry.reason,
        note=entry.note,
        receipt=entry.receipt or current.receipt,
        evidence=entry.evidence,
        approval=entry.approval,
        late=current.late,
        used=current.used,
        is_live=current.is_live,
        lease_expires_at=current.lease_expires_at,
    )


def _not_the_same(current: Reservation | None, entry: Entry) -> str:
    if current is None:
        return "moved before it was opened"
    if (current.slot, current.attempt) != (entry.slot, entry.attempt):
        return f"attempt {entry.attempt} moved while {current.attempt} is the latest"
    if current.pins.digest != entry.pins_digest:
        return "its pins changed"
    return ""


def thin(reservation: Reservation) -> Reservation:
    """What later entries are judged by, without the bodies: a hundred thousand of these fit in 100 MB."""
    is_delivered = reservation.state is ReservationState.DELIVERED  # an audit has to repeat its receipt
    return Reservation(
        slot=reservation.slot,
        attempt=reservation.attempt,
        state=reservation.state,
        pins=reservation.pins.thin(),
        key="",
        fence=reservation.fence,
        holder=reservation.holder,
        opened_at=reservation.opened_at,
        changed_at=reservation.changed_at,
        opened_under=_NOTHING,
        reason=reservation.reason,
        receipt=reservation.receipt if is_delivered else _NOTHING,
        evidence=_NOTHING,
        approval=_NOTHING,
        late=tuple({"state": said.get("state")} for said in reservation.late),
        used=reservation.used,
    )


_NOTHING: Final[Mapping[str, Json]] = {}


def may_be_replaced(reservation: Reservation) -> bool:
    """Proven not sent, of a kind that allows it, and nothing said late contradicts it."""
    proven_not_sent = reservation.state in (ReservationState.KNOWN_FAILURE, ReservationState.RESOLVED_NOT_SENT)
    return proven_not_sent and reservation.may_fail_known and not reservation.is_contradicted

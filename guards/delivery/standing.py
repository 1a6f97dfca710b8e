"""Standing approvals: a person allows named kinds to named customers of one watch, until a date, until revoked. Both are recorded.

A decline of a plan beats them for every slot in it, for as long as it stands: whatever other plan the slot is in.
"""

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from datetime import datetime

from guards.delivery.slot import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingApproval:
    """`customers` and `kinds` are spelled out, never a pattern and never "all". `approved_by` is a claim, not an identity.
    Times are aware and come from the database clock."""

    id: int
    watch: str
    customers: tuple[str, ...]
    kinds: tuple[str, ...]
    approved_by: str
    comment: str
    until: datetime
    recorded_at: datetime
    revoked_at: datetime | None = None
    revoked_by: str = ""

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and self.recorded_at <= now < self.until

    def names(self, slot: Slot) -> bool:
        return slot.customer in self.customers and slot.kind in self.kinds


def uncovered(
    approvals: Iterable[StandingApproval],
    slots: Collection[Slot],
    *,
    watch: str,
    now: datetime,
    declined: Container[Slot] = frozenset(),
) -> tuple[Slot, ...]:
    """The slots that were declined or that no live approval of this watch names, sorted. Several approvals may cover a plan together."""
    live = [each for each in approvals if each.watch == watch and each.is_live(now)]
    return tuple(sorted(slot for slot in set(slots) if slot in declined or not any(each.names(slot) for each in live)))


def covers(
    approvals: Iterable[StandingApproval],
    slots: Collection[Slot],
    *,
    watch: str,
    now: datetime,
    declined: Container[Slot] = frozenset(),
) -> bool:
    """Every slot is named by a live approval of this watch, and none was declined. Nothing at all is not covered: there is nothing to
    decide."""
    return bool(slots) and not uncovered(approvals, slots, watch=watch, now=now, declined=declined)


def covering(
    approvals: Iterable[StandingApproval], slots: Collection[Slot], *, watch: str, now: datetime
) -> tuple[StandingApproval, ...]:
    """Those live approvals that name at least one of `slots`, oldest first: who stands behind a plan."""
    live = [each for each in approvals if each.watch == watch and each.is_live(now)]
    return tuple(sorted((each for each in live if any(each.names(slot) for slot in slots)), key=lambda each: each.id))

"""What ends a target between its plan and its call without anybody having changed anything: time, a check-in, another run.

Such a target is left out and the rest of the plan goes on. What people change (registry, bodies, routes, rules) makes the plan stale.
"""

from dataclasses import dataclass
from enum import StrEnum

from guards.delivery.evidence import CheckIns
from guards.delivery.planning import DeliveryTarget
from guards.delivery.requirements import SlotFree, WindowOpen
from guards.delivery.slot import Kind
from guards.delivery.world import DeliveryWorld


class Lapsed(StrEnum):
    TAKEN = "taken"
    """The ledger holds something for the slot that is not for this plan to go on with."""
    CLOSED = "closed"
    SUPPRESSED = "suppressed"


@dataclass(frozen=True, slots=True)
class Lapse:
    """`why` is one sentence without its full stop."""

    how: Lapsed
    why: str


def lapse(target: DeliveryTarget, seen: DeliveryWorld) -> Lapse | None:
    """None while it is still to be sent. The ledger is asked first: what was sent stays sent, whatever the clock says."""
    taken = SlotFree(slot=target.slot, pins_sha256=target.pins_sha256).check(seen)
    if taken is not None:
        return Lapse(Lapsed.TAKEN, f"the ledger holds {taken.found}")
    closed = WindowOpen(slot=target.slot, due_at=target.due_at, closes_at=target.closes_at).check(seen)
    if closed is not None:
        return Lapse(Lapsed.CLOSED, f"expected {closed.expected}, and it is {closed.found}")
    if target.slot.kind == Kind.REMINDER and isinstance(seen.check_ins, CheckIns):
        arrived = seen.check_ins.on(target.slot.customer, target.local_date, target.zone)
        if arrived is not None:
            return Lapse(Lapsed.SUPPRESSED, f"a check-in arrived at {arrived.at:%Y-%m-%d %H:%M:%S %Z}")
    return None

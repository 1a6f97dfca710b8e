"""The schedule: from a registry and a moment to the slots that are owed. Pure; the moment is an argument."""

from dataclasses import dataclass
from datetime import date, datetime

from guards.delivery.registry import Customer, Rule
from guards.delivery.slot import Kind, Slot


@dataclass(frozen=True, slots=True)
class Owed:
    """One slot of the calendar. Due from `due_at` on, and no longer sent from `closes_at` on (both aware, UTC).

    `local_date` is the date in the customer's zone that it is due on. For a slot that never becomes due in its period (the weekday was
    moved into the past) there is no `Owed`.
    """

    slot: Slot
    customer: Customer
    rule: Rule
    local_date: date
    due_at: datetime
    closes_at: datetime

    @property
    def kind(self) -> Kind:
        return self.rule.kind

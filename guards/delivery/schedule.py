"""The schedule: from a registry and a moment to the slots that are owed. Pure; the moment is an argument.

The answer is a function of the registry and the moment alone. A clock that was set back gives an answer that was given before, with the
same slot keys, so it owes nothing new; a registry that was edited owes nothing whose window has closed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from guards.delivery.periods import Occasion, names, occasion, reach_of
from guards.delivery.registry import Customer, Registry, Rule
from guards.delivery.slot import Kind, Slot

_SLACK: Final = timedelta(days=3)
"""Each way: from a date of the caller's clock to UTC's, from there to any zone's, and what the largest gap of all moves; a day each."""

_Pattern: TypeAlias = tuple[str, Rule]
"""Zone and rule: what 1,000 customers share a few of."""


@dataclass(frozen=True, slots=True)
class Owed:
    """One slot of the calendar. Due from `due_at` on, and no longer sent from `closes_at` on (both aware, UTC; a minute apart at least).

    `local_date` is the date, in the customer's zone, that the rule names; where the clock was set forward over the rest of that date, it
    becomes due when the next one begins. Customers that are not enabled are owed too: `customer.enabled` tells.
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

    def is_due(self, now: datetime) -> bool:
        return self.due_at <= now < self.closes_at


def owed(registry: Registry, *, since: datetime, until: datetime) -> tuple[Owed, ...]:
    """Every slot whose window [due_at, closes_at) has a moment in [since, until] (aware), by (due_at, slot key)."""
    found = (
        _owed(customer, rule, each)
        for (zone, rule), customers in _patterns(registry).items()
        for each in _in_window(registry, zone, rule, since, until)
        for customer in customers
    )
    return tuple(sorted(found, key=_by_time))


def due(registry: Registry, now: datetime) -> tuple[Owed, ...]:
    """What may be sent now, oldest first."""
    return owed(registry, since=now, until=now)


def look_back(registry: Registry, now: datetime) -> datetime:
    """When the oldest slot that may still be sent became due; `now` when there is none."""
    opened = (each.due_at for zone, rule in _patterns(registry) for each in _in_window(registry, zone, rule, now, now))
    return min(opened, default=now)


class Row(NamedTuple):
    """One slot of a day, without the slot: a year of 1,000 customers has over a million. Rows sort as slots do."""

    due_at: datetime
    key: str
    customer: Customer
    rule: Rule
    when: Occasion

    def owed(self) -> Owed:
        return _owed(self.customer, self.rule, self.when)


Group: TypeAlias = tuple[Occasion, Rule, Sequence[Customer]]
"""Customers, one at least, of one zone and with one rule."""


@dataclass(frozen=True, slots=True)
class Day:
    """The slots whose rule names `date`, in their customers' zones."""

    date: date
    groups: tuple[Group, ...]

    @property
    def count(self) -> int:
        return sum(len(customers) for _, _, customers in self.groups)

    def rows(self) -> list[Row]:
        """By (due_at, slot key)."""
        made = [
            Row(when.due_at, customer.key + ending, customer, rule, when)
            for when, rule, customers in self.groups
            for ending in (f":{when.period}:{rule.kind.value}",)
            for customer in customers
        ]
        made.sort()
        return made


def day_by_day(registry: Registry, first: date, last: date) -> Iterator[Day]:
    """Every date from `first` to `last`, also those without a slot."""
    patterns = [(ZoneInfo(zone), rule, customers) for (zone, rule), customers in _patterns(registry).items()]
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        groups = (
            (occasion(rule, zone, day, registry.slot_identity), rule, customers)
            for zone, rule, customers in patterns
            if names(rule, zone, day)
        )
        yield Day(day, tuple(groups))


def _patterns(registry: Registry) -> dict[_Pattern, list[Customer]]:
    found: dict[_Pattern, list[Customer]] = {}
    for customer in registry.customers.values():
        for rule in customer.rules:
            found.setdefault((customer.zone, rule), []).append(customer)
    return found


def _in_window(registry: Registry, name: str, rule: Rule, since: datetime, until: datetime) -> Iterator[Occasion]:
    zone = ZoneInfo(name)
    day, last = (since - reach_of(rule) - _SLACK).date(), (until + _SLACK).date()
    while day <= last:
        if names(rule, zone, day):
            each = occasion(rule, zone, day, registry.slot_identity)
            if each.due_at <= until and each.closes_at > since:
                yield each
        day += timedelta(days=1)


def _owed(customer: Customer, rule: Rule, each: Occasion) -> Owed:
    slot = Slot(customer.key, each.period, rule.kind.value)
    return Owed(slot, customer, rule, each.local_date, each.due_at, each.closes_at)


def _by_time(one: Owed) -> tuple[datetime, str]:
    return one.due_at, one.slot.key

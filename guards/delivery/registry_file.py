"""`customers.yaml`: from its bytes to a `Registry`, or to everything that is wrong with it, each with line and column.

    version: 1
    defaults: {zone: Asia/Seoul, month_overflow: clamp, catch_up: until_midnight, slot_identity: period}    # all may be left out
    customers:
      - key: acme-1                              # [a-z0-9][a-z0-9_-]{2,63}; part of every slot's name
        display_name: Acme                       # for people; the key when left out
        enabled: true                            # true when left out
        zone: Europe/Berlin                      # the default one when left out
        route: {provider: slack, channel: C0123456}
        daily:    {at: "09:00"}
        weekly:   {weekday: mon, at: "10:00", catch_up: until_week_end}
        monthly:  {day: 31, at: "10:00", catch_up: P2D, month_overflow: skip, template: statement-v2}
        cutoff:   {at: "18:00", catch_up: none}
        reminder: {not_before: "11:00", not_after: "12:00", template: missing-checkin-v1}

Routes: `{provider: slack, channel: ID}`, `{provider: webhook, webhook: NAME}`, `{provider: smtp, to: ADDRESS}`,
`{provider: file, directory: NAME}`. A kind without `template` gets its body from the outbox.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, TypeVar

from guards.delivery.marked_yaml import Node, Problem, Problems, TooManyProblems, read_yaml
from guards.delivery.registry import CatchUp, Customer, Overflow, Registry, Rule, SlotIdentity, UntilWindowEnd
from guards.delivery.registry_fields import WEEKDAYS, Fields
from guards.delivery.slot import CUSTOMER_KEY, CUSTOMER_KEY_WORDS, Kind

T = TypeVar("T")
RegistryProblem: TypeAlias = Problem

MOST_CUSTOMERS: Final = 100_000
DEFAULT_ZONE: Final = "Asia/Seoul"
_VERSION: Final = 1
_KINDS: Final = (Kind.DAILY, Kind.WEEKLY, Kind.MONTHLY, Kind.CUTOFF, Kind.REMINDER)
_RULE_KEYS: Final = {
    Kind.DAILY: ("at", "catch_up", "template"),
    Kind.WEEKLY: ("weekday", "at", "catch_up", "template"),
    Kind.MONTHLY: ("day", "at", "catch_up", "month_overflow", "template"),
    Kind.CUTOFF: ("at", "catch_up", "template"),
    Kind.REMINDER: ("not_before", "not_after", "template"),
}
_RULE_NEEDS: Final = {
    Kind.DAILY: ("at",),
    Kind.WEEKLY: ("weekday", "at"),
    Kind.MONTHLY: ("day", "at"),
    Kind.CUTOFF: ("at",),
    Kind.REMINDER: ("not_before", "not_after", "template"),
}


@dataclass(frozen=True, slots=True)
class _Defaults:
    zone: str = DEFAULT_ZONE
    overflow: Overflow = Overflow.CLAMP
    catch_up: CatchUp = UntilWindowEnd.UNTIL_MIDNIGHT
    """For every kind: nothing is sent on another day than it was owed on, unless the file says so."""
    slot_identity: SlotIdentity = SlotIdentity.PERIOD


def parse_registry(data: bytes) -> Registry | tuple[RegistryProblem, ...]:
    """Everything that is wrong, by position (the first `marked_yaml.MOST_PROBLEMS`), or a registry that is right. Never raises."""
    problems = Problems()
    try:
        root = read_yaml(data, problems)
        made = None if root is None else _Document(Fields(problems)).registry(root, hashlib.sha256(data).hexdigest())
    except TooManyProblems:
        made = None
    return problems.in_order() if problems.said or made is None else made


@dataclass(frozen=True, slots=True)
class _Document:
    fields: Fields

    def registry(self, root: Node, digest: str) -> Registry | None:
        top = self.fields.table(root, "the file", known=("version", "defaults", "customers"), required=("version", "customers"))
        if top is None:
            return None
        if "version" in top:
            self.fields.number(top["version"], "version", _VERSION, _VERSION)
        defaults = self._defaults(top["defaults"]) if "defaults" in top else _Defaults()
        customers = self._customers(top["customers"], defaults) if "customers" in top else {}
        return Registry(digest=digest, zone=defaults.zone, customers=customers, slot_identity=defaults.slot_identity)

    def _defaults(self, node: Node) -> _Defaults:
        what, plain, read = "defaults", _Defaults(), self.fields
        given = read.table(node, what, known=("zone", "month_overflow", "catch_up", "slot_identity")) or {}
        identity = _read(given, "slot_identity", what, partial(read.one_of, known=SlotIdentity), plain.slot_identity.value)
        return _Defaults(
            zone=_read(given, "zone", what, read.zone, plain.zone) or plain.zone,
            overflow=self._overflow(given, what, plain.overflow),
            catch_up=self._catch_up(given, what, plain.catch_up) or plain.catch_up,
            slot_identity=SlotIdentity(identity or plain.slot_identity),
        )

    def _overflow(self, given: dict[str, Node], what: str, default: Overflow) -> Overflow:
        chosen = _read(given, "month_overflow", what, partial(self.fields.one_of, known=Overflow), default.value)
        return Overflow(chosen or default)

    def _catch_up(self, given: dict[str, Node], what: str, default: CatchUp) -> CatchUp | None:
        return self.fields.catch_up(given["catch_up"], f"{what}: catch_up") if "catch_up" in given else default

    def _customers(self, node: Node, defaults: _Defaults) -> dict[str, Customer]:
        entries = self.fields.items(node, "customers")
        if len(entries) > MOST_CUSTOMERS:
            self.fields.problems.at(node, f"customers: {len(entries):,} of them; {MOST_CUSTOMERS:,} are the most")
            return {}
        lines: dict[str, int] = {}
        made: dict[str, Customer] = {}
        for number, entry in enumerate(entries, start=1):
            customer = self._customer(entry, number, defaults, lines)
            if customer is not None:
                made[customer.key] = customer
        return made

    def _customer(self, node: Node, number: int, defaults: _Defaults, lines: dict[str, int]) -> Customer | None:
        """`lines`: key to the line it stands in, of the customers before."""
        what, read = f"customer number {number}", self.fields
        known = ("key", "display_name", "enabled", "zone", "route", *_KINDS)
        given = read.table(node, what, known=known, required=("key", "route"))
        if given is None:
            return None
        key = self._key(given["key"], what, lines) if "key" in given else None
        what = f"customer {key}" if key else what
        name = _read(given, "display_name", what, read.display_name, key)
        enabled = _read(given, "enabled", what, read.truth, True)
        zone = _read(given, "zone", what, read.zone, defaults.zone)
        route = _read(given, "route", what, read.route, None)
        rules = [self._rule(given[kind], kind, f"{what}: {kind}", defaults) for kind in _KINDS if kind in given]
        if not rules:
            read.problems.at(node, f"{what} is owed nothing: give at least one of {', '.join(_KINDS)}, or remove the customer")
        if not (key and name and route and zone) or enabled is None:
            return None
        kept = tuple(rule for rule in rules if rule is not None)
        return Customer(key=key, display_name=name, enabled=enabled, zone=zone, route=route, rules=kept)

    def _key(self, node: Node, what: str, lines: dict[str, int]) -> str | None:
        key = self.fields.text(node, f"{what}: key", CUSTOMER_KEY, CUSTOMER_KEY_WORDS)
        if key in lines:
            self.fields.problems.at(node, f"{what}: two customers have the key {key}; the first is in line {lines[key]}")
        elif key is not None:
            lines[key] = node.line
        return key

    def _rule(self, node: Node, kind: Kind, what: str, defaults: _Defaults) -> Rule | None:
        read = self.fields
        given = read.table(node, what, known=_RULE_KEYS[kind], required=_RULE_NEEDS[kind])
        if given is None:
            return None
        template = _read(given, "template", what, read.template, "")
        if kind is Kind.REMINDER:
            return self._reminder(given, what, template)
        at = _read(given, "at", what, read.time_of_day, None)
        catch_up = self._catch_up(given, what, defaults.catch_up)
        weekday = _read(given, "weekday", what, partial(read.one_of, known=WEEKDAYS), WEEKDAYS[0])
        day = _read(given, "day", what, partial(read.number, lowest=1, highest=31), 1)
        overflow = self._overflow(given, what, defaults.overflow)
        if at is None or catch_up is None or weekday is None or day is None or template is None:
            return None
        numbered = WEEKDAYS.index(weekday)
        return Rule(kind=kind, at=at, catch_up=catch_up, weekday=numbered, day=day, overflow=overflow, template=template)

    def _reminder(self, given: dict[str, Node], what: str, template: str | None) -> Rule | None:
        opens = _read(given, "not_before", what, self.fields.time_of_day, None)
        closes = _read(given, "not_after", what, self.fields.time_of_day, None)
        if opens is None or closes is None or template is None:
            return None
        if closes <= opens:
            sentence = f"{what}: not_after {closes:%H:%M} must be later than not_before {opens:%H:%M}, on the same day"
            self.fields.problems.at(given["not_after"], sentence)
        return Rule(kind=Kind.REMINDER, at=opens, catch_up=UntilWindowEnd.NONE, not_after=closes, template=template)


def _read(given: dict[str, Node], key: str, what: str, read: Callable[[Node, str], T | None], default: T | None) -> T | None:
    """What stands at `key`, `default` when nothing does, None when it will not do."""
    return read(given[key], f"{what}: {key}") if key in given else default

"""Builders for the customers' registry: values, and the file that says the same."""

import json
from datetime import time, timedelta
from types import MappingProxyType
from typing import Final

from guards.delivery.registry import (
    CatchUp,
    Customer,
    Overflow,
    Provider,
    Registry,
    Route,
    Rule,
    SlotIdentity,
    UntilWindowEnd,
)
from guards.delivery.registry_fields import ADDRESSES, WEEKDAYS
from guards.delivery.slot import Kind

SLACK: Final = Route(Provider.SLACK, "C0123456")
SEOUL: Final = "Asia/Seoul"
MIDNIGHT: Final = UntilWindowEnd.UNTIL_MIDNIGHT


def rule(
    kind: Kind = Kind.DAILY,
    at: str = "09:00",
    catch_up: CatchUp = MIDNIGHT,
    *,
    weekday: str = "mon",
    day: int = 1,
    overflow: Overflow = Overflow.CLAMP,
    template: str = "",
) -> Rule:
    return Rule(
        kind=kind,
        at=time.fromisoformat(at),
        catch_up=catch_up,
        weekday=WEEKDAYS.index(weekday),
        day=day,
        overflow=overflow,
        template=template,
    )


def reminder(not_before: str = "11:00", not_after: str = "12:00", template: str = "missing-checkin-v1") -> Rule:
    return Rule(
        kind=Kind.REMINDER,
        at=time.fromisoformat(not_before),
        catch_up=UntilWindowEnd.NONE,
        not_after=time.fromisoformat(not_after),
        template=template,
    )


def customer(key: str, *rules: Rule, zone: str = SEOUL, route: Route = SLACK, enabled: bool = True, name: str = "") -> Customer:
    return Customer(key=key, display_name=name or key, enabled=enabled, zone=zone, route=route, rules=rules)


def registry(*customers: Customer, identity: SlotIdentity = SlotIdentity.PERIOD, zone: str = SEOUL) -> Registry:
    return Registry(
        digest="0" * 64, zone=zone, customers=MappingProxyType({one.key: one for one in customers}), slot_identity=identity
    )


def as_file(of: Registry) -> str:
    """`customers.yaml` that says the same; JSON strings are YAML ones."""
    lines = [
        "version: 1",
        f"defaults: {{zone: {of.zone}, slot_identity: {of.slot_identity}}}",
        "customers:" if of.customers else "customers: []",
    ]
    for one in of.customers.values():
        route = f"{{provider: {one.route.provider}, {ADDRESSES[one.route.provider].key}: {json.dumps(one.route.address)}}}"
        lines += [
            f"  - key: {json.dumps(one.key)}",
            f"    display_name: {json.dumps(one.display_name, ensure_ascii=False)}",
            f"    enabled: {'true' if one.enabled else 'false'}",
            f"    zone: {one.zone}",
            f"    route: {route}",
            *(f"    {each.kind}: {{{', '.join(_fields(each))}}}" for each in one.rules),
        ]
    return "\n".join(lines) + "\n"


def _fields(of: Rule) -> list[str]:
    template = [f"template: {of.template}"] if of.template else []
    if of.not_after is not None:
        return [f'not_before: "{of.at:%H:%M}"', f'not_after: "{of.not_after:%H:%M}"', *template]
    fields = [f'at: "{of.at:%H:%M}"', f"catch_up: {_catch_up(of.catch_up)}", *template]
    if of.kind is Kind.WEEKLY:
        fields.append(f"weekday: {WEEKDAYS[of.weekday]}")
    if of.kind is Kind.MONTHLY:
        fields += [f"day: {of.day}", f"month_overflow: {of.overflow}"]
    return fields


def _catch_up(value: CatchUp) -> str:
    return f"PT{value // timedelta(minutes=1)}M" if isinstance(value, timedelta) else value.value

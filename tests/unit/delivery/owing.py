"""Builders for the rules of the delivery guard: customers, what they are owed, what the ledger holds, and the world around them."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from guards.delivery.bodies import Body, NoBody, NoTemplate
from guards.delivery.entry import Reservation
from guards.delivery.evidence import CheckIn, CheckIns, EvidenceUnreadable
from guards.delivery.message import key_for, pins_of
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Customer, Provider, Registry, Route, Rule, UntilWindowEnd
from guards.delivery.reservation import ReservationState as S
from guards.delivery.schedule import Owed
from guards.delivery.slot import Kind, Slot
from guards.delivery.world import DeliveryWorld, Endpoint, rule_name

WATCH = "customers"
SEOUL = "Asia/Seoul"
DAY = date(2026, 11, 30)
DUE = datetime(2026, 11, 30, 0, 0, tzinfo=UTC)
"""09:00 in Seoul."""
CLOSES = datetime(2026, 11, 30, 15, 0, tzinfo=UTC)
NOW = DUE + timedelta(hours=1)
REGISTRY_SHA256 = "a1" * 32
CONFIG_SHA256 = "c2" * 32
POLICY = DeliveryPolicy()
CHANNEL = Route(Provider.SLACK, "C0123456")
BODY = Body("# Monday\n\nAll 12 orders arrived.\n")


def customer(key: str = "acme-1", *, enabled: bool = True, route: Route = CHANNEL, name: str = "Acme") -> Customer:
    return Customer(key=key, display_name=name, enabled=enabled, zone=SEOUL, route=route, rules=())


def owed(
    who: Customer | None = None,
    kind: Kind = Kind.DAILY,
    *,
    period: str = "2026-11-30",
    due_at: datetime = DUE,
    closes_at: datetime = CLOSES,
    template: str = "",
) -> Owed:
    there = who or customer()
    rule = Rule(kind=kind, at=time(9, 0), catch_up=UntilWindowEnd.UNTIL_MIDNIGHT, template=template)
    return Owed(Slot(there.key, period, kind.value), there, rule, DAY, due_at, closes_at)


def reminder(who: Customer | None = None) -> Owed:
    return owed(who, Kind.REMINDER, template="missing-checkin-v1")


def pins(one: Owed, body: Body = BODY, *, registry: str = REGISTRY_SHA256, config: str = CONFIG_SHA256) -> Pins:
    return pins_of(
        one,
        body,
        watch=WATCH,
        registry_sha256=registry,
        config_sha256=config,
        may_fail_known=one.kind.value in POLICY.known_failure_kinds,
    )


def held(
    one: Owed, state: S, *, reason: Reason | None = None, note: str = "", live: bool = False, body: Body = BODY
) -> Reservation:
    """As the ledger would hold its first attempt, reserved for exactly what is owed."""
    return Reservation(
        slot=one.slot,
        attempt=1,
        state=state,
        pins=pins(one, body),
        key="run-1",
        fence=0 if state is S.PREPARED else 1,
        holder="" if state is S.PREPARED else "run-1",
        opened_at=DUE,
        changed_at=DUE + timedelta(minutes=5),
        reason=reason,
        note=note,
        receipt={"key": key_for(WATCH, one.slot.reservation_id(1)), "body_sha256": body.sha256} if state.is_proven_sent else {},
        is_live=live,
    )


def contradicted(reservation: Reservation) -> Reservation:
    return replace(reservation, late=({"state": "delivered", "receipt": {"ts": "1"}},))


def world(
    *slots: Owed,
    now: datetime = NOW,
    holds: Iterable[Reservation] = (),
    altered: dict[Slot, str] | None = None,
    body: Body | NoBody | NoTemplate | None = BODY,
    check_ins: CheckIns | EvidenceUnreadable | None = None,
    endpoint: Endpoint | None = None,
    **more: object,
) -> DeliveryWorld:
    """Everything readable, every body there, nothing held, nobody checked in; all of it known since yesterday."""
    return DeliveryWorld(
        watch=WATCH,
        now=now,
        registry=Registry(REGISTRY_SHA256, SEOUL, {one.customer.key: one.customer for one in slots}),
        owed=slots,
        held={each.slot: each for each in holds},
        altered=altered or {},
        bodies={one.slot: body for one in slots} if body is not None else {},
        endpoints={one.customer.route: endpoint or Endpoint(CONFIG_SHA256) for one in slots},
        check_ins=CheckIns() if check_ins is None else check_ins,
        **{"known_since": {rule_name(one): DUE - timedelta(days=1) for one in slots}, **more},  # type: ignore[arg-type]
    )


def checked_in(key: str = "acme-1", *, at: datetime = DUE - timedelta(minutes=5)) -> CheckIns:
    return CheckIns.of([CheckIn(key, at, "app")])

"""Everything that a report, or one message right before its call, has to know: in one look, complete or refused. Reads only.

The clock is the ledger's: what a window is judged by here is what `reserve` will judge it by.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from guards.canonical import Json
from guards.delivery.bodies import Body
from guards.delivery.entry import Reservation
from guards.delivery.evidence import CheckIns, EvidenceUnreadable
from guards.delivery.judge import wanted_pins
from guards.delivery.message import message_of
from guards.delivery.pins import Pins
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Provider, Registry
from guards.delivery.reservation import ReservationState
from guards.delivery.schedule import Owed, look_back, owed
from guards.delivery.slot import Kind, Slot
from guards.delivery.world import DeliveryWorld, rule_name
from guards.receipt import Receipt
from guards.text import one_line
from resources.delivery.asking import ask_about
from resources.delivery.bodies import bodies_of
from resources.delivery.endpoints import check_ins_sha256, endpoints_of
from resources.delivery.evidence import Evidence
from resources.delivery.ledger import Holdings, holdings_of, unlike_known
from resources.delivery.registry import RegistryFile
from resources.delivery.route import DeliveryRoute
from resources.delivery.standing import declined_slots
from resources.ledger.interface import Ledger
from resources.progress import Progress, silent
from resources.providers.interface import Provider as Opened
from resources.state import StateStore

EVIDENCE_REACH: Final = timedelta(days=3)
"""A local date begins up to a day before it does in UTC, and a reminder's window is within its date."""


class Observer:
    """One watch, seen as often as needed. Files are read at every look; what they say is parsed again only when their bytes changed."""

    def __init__(
        self,
        route: DeliveryRoute,
        state: StateStore,
        ledger: Ledger,
        *,
        policy: DeliveryPolicy,
        progress: Progress = silent,
    ) -> None:
        self.route = route
        self.policy = policy
        self._state = state
        self._ledger = ledger
        self._progress = progress
        self._registry = RegistryFile(route.registry)
        self._evidence = Evidence(route.check_ins)

    def world(self, *, at: datetime | None = None, providers: Mapping[Provider, Opened] | None = None) -> DeliveryWorld:
        """All of the look-back, as of now or (never to be sent) as of `at`. With `providers`, they are asked about messages in doubt.

        Raises `ConfigurationError` for a registry that cannot be used, `Unreachable` and its kinds for a store that cannot be read.
        """
        self._progress("reading the registry", 0, 4)
        registry = self._registry.read()
        real = self._ledger.now()
        now = at or real
        since = min(now - timedelta(days=self.policy.look_back_days), look_back(registry, now))
        slots = owed(
            registry,
            since=since,
            until=now + timedelta(hours=self.policy.look_ahead_hours),
        )
        self._progress("reading the ledger", 1, 4)
        held = holdings_of({**self._ledger.unfinished(), **self._ledger.latest([one.slot for one in slots])})
        slots = tuple(
            one for one in slots if not _is_between(one, real, now) or one.slot in held.latest or one.slot in held.altered
        )
        self._progress("reading bodies and check-ins", 2, 4)
        health = self._ledger.health()
        world = replace(
            self._seen(registry, now, slots, held, since),
            known_since=self._state.first_seen("delivery", self.route.name, {rule_name(one) for one in slots}),
            incomplete=health.recovery or unlike_known(self.route, self._state, self._ledger, registry),
            doubt_before=health.doubt_before,
            is_hypothetical=at is not None and at != real,
        )
        self._progress("asking about what is in doubt", 3, 4)
        if not providers:
            return world
        return replace(world, sightings=ask_about(_in_doubt(held.latest), providers, now=now))

    def of(self, slots: Collection[Slot]) -> DeliveryWorld:
        """The same, now, about these slots alone."""
        registry = self._registry.read()
        now = self._ledger.now()
        wanted = set(slots)
        theirs = {slot.customer for slot in wanted}
        narrowed = replace(registry, customers={key: one for key, one in registry.customers.items() if key in theirs})
        found = tuple(one for one in owed(narrowed, since=now, until=now) if one.slot in wanted)
        return self._seen(registry, now, found, holdings_of(self._ledger.latest(wanted)), now)

    def check_ins(self, since: datetime) -> CheckIns | EvidenceUnreadable:
        """Read now, of every local date that `since` falls into, and later."""
        return self._evidence.read(since=since - EVIDENCE_REACH)

    def _seen(
        self,
        registry: Registry,
        now: datetime,
        slots: tuple[Owed, ...],
        holdings: Holdings,
        since: datetime,
    ) -> DeliveryWorld:
        due = [one for one in slots if one.is_due(now) and one.customer.enabled]
        reminders = any(one.kind is Kind.REMINDER and one.due_at <= now for one in slots)
        routes = {customer.route for customer in {one.customer.key: one.customer for one in slots}.values()}
        standing = tuple(self._state.standing.live(self.route.name))
        return DeliveryWorld(
            watch=self.route.name,
            now=now,
            registry=registry,
            owed=slots,
            held=holdings.latest,
            altered=holdings.altered,
            receipts=self._receipts([one.slot for one in slots if one.due_at <= now and one.slot not in holdings.latest]),
            bodies=bodies_of(due, templates=self.route.templates, outbox=self.route.outbox),
            endpoints=endpoints_of(routes, self.route.providers),
            check_ins=self.check_ins(since) if reminders else CheckIns(),
            standing=standing,
            declined=declined_slots(self._state, self.route.name) if standing else {},
        )

    def _receipts(self, slots: Collection[Slot]) -> dict[Slot, str]:
        """Of what was sent, and is in no ledger any more."""
        if not slots:
            return {}
        found = self._state.written("delivery", self.route.name, "send", [slot.key for slot in slots])
        return {slot: _sent_by(found[slot.key]) for slot in slots if slot.key in found}


def _sent_by(receipt: Receipt) -> str:
    when = f"at {receipt.recorded_at:%Y-%m-%d %H:%M} UTC " if receipt.recorded_at is not None else ""
    return f"{when}by run {one_line(receipt.run_id, limit=80)}"


def scope_of(route: DeliveryRoute, ledger: Ledger, registry: Registry) -> dict[str, Json]:
    """Where the plan holds: part of its digest, compared again when it is applied."""
    return {
        "registry": route.registry.name,
        "registry_sha256": registry.digest,
        "ledger": ledger.health().store,
        "templates": str(route.templates),
        "outbox": str(route.outbox),
        "check_ins_sha256": check_ins_sha256(route.check_ins),
    }


def current_pins(route: DeliveryRoute, state: StateStore, ledger: Ledger, slot: Slot) -> Pins | None:
    """What a reservation of this slot would be for now; None when it is not owed now, or has no body."""
    observer = Observer(route, state, ledger, policy=route.policy)
    world = observer.of([slot])
    body = world.bodies.get(slot)
    one = world.owed_by_slot.get(slot)
    if one is None or not isinstance(body, Body):
        return None
    return wanted_pins(world, route.policy, one, body)


def _is_between(one: Owed, real: datetime, asked: datetime) -> bool:
    """Due and over between now and a later moment that is asked about: what becomes of it nobody knows yet."""
    return real < one.due_at and one.closes_at <= asked


def _in_doubt(latest: Mapping[Slot, Reservation]) -> list[Reservation]:
    return [
        held for _, held in sorted(latest.items()) if held.state is ReservationState.UNKNOWN and message_of(held.pins) is not None
    ]

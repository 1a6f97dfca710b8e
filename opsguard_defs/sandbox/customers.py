"""Customers to play with: a registry in two zones with one slot of each kind due right now, their bodies, template and check-ins.

A slot is filled once for ever, so each play has customers of its own: `harbor-7` and not `harbor`. Times are computed around the real
clock of each zone; what has hours of its own (the reminder) is in the zone that is farther from its midnight, which is 3 hours at least.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from guards.delivery.slot import Kind, Slot
from guards.delivery.verdict import DeliveryVerdict
from opsguard_defs.sandbox.incident import next_night
from opsguard_defs.sandbox.layout import Layout, private_directory, write_private
from opsguard_defs.sandbox.lifecycle import Sandbox
from opsguard_defs.sandbox.places import customer_places
from opsguard_defs.sandbox.roster import CUSTOMERS

ZONES: Final = ("Asia/Seoul", "Europe/Berlin")
TEMPLATE: Final = "missing-checkin-v1"
CHANGED_TEMPLATE: Final = "weekly-greeting-v1"
_DUE_MINUTES: Final = 10
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WORDING: Final = (
    "Good morning {{display_name}},\n\nwe have not seen today's check-in ({{local_date}}). Did something get stuck?\n"
)
_SENT: Final = ("harbor-", "garden-", "quarry-", "lantern-")
"""Customers of whom everything that is due can be sent, or at least tried."""
_EMPTY: Final = "version: 1\ncustomers: []\n"


@dataclass(frozen=True, slots=True)
class Owing:
    """What was prepared, and what a report must therefore say."""

    play: int
    expected: Mapping[Slot, DeliveryVerdict]
    bodies: Mapping[Slot, str]
    """Of those that are due, as the provider must get them."""
    route: Mapping[Slot, str]
    """Slot to `file`, or to the name of its webhook."""

    @property
    def due(self) -> tuple[Slot, ...]:
        return tuple(slot for slot, verdict in self.expected.items() if verdict is DeliveryVerdict.DUE)

    def by(self, route: str) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.due if self.route[slot] == route)


def make_customer_places(layout: Layout) -> None:
    """So that the watch is complete from the first start, and owes nothing to anybody."""
    places = customer_places(layout)
    for directory in (layout.customers, places.templates, places.outbox, places.sent):
        private_directory(directory)
    for path, content in (
        (places.registry, _EMPTY),
        (places.templates / "approved.yaml", _EMPTY_APPROVED),
        (places.check_ins, ""),
    ):
        if not path.exists():
            write_private(path, content)


_EMPTY_APPROVED: Final = "version: 1\ntemplates: {}\n"


def owe_messages(sandbox: Sandbox, *, needs_person: bool = False, slow: bool = False, now: float | None = None) -> Owing:
    """One slot of each kind is due; one customer's provider rejects, one's dies after accepting, one customer has checked in.

    needs_person: also one whose body never came, and one whose template was changed after it was approved.
    slow: only one customer, whose provider accepts and takes half a minute to answer.
    """
    make_customer_places(sandbox.layout)
    play = next_night(sandbox, CUSTOMERS)
    stage = _Stage(sandbox.layout, play, datetime.fromtimestamp(time.time() if now is None else now, UTC))
    if slow:
        stage.customer("glacier", zone=stage.other, route="slow", kinds=(Kind.DAILY,))
        return stage.ready()
    stage.customer("harbor", zone=stage.other, route="file", kinds=(Kind.DAILY, Kind.WEEKLY, Kind.MONTHLY, Kind.CUTOFF))
    stage.customer("garden", zone=stage.roomier, route="file", kinds=(Kind.REMINDER,))
    stage.customer("quarry", zone=stage.roomier, route="rejects", kinds=(Kind.REMINDER,))
    stage.customer("lantern", zone=stage.other, route="dies", kinds=(Kind.DAILY,))
    stage.customer("meadow", zone=stage.roomier, route="file", kinds=(Kind.REMINDER,), verdict=DeliveryVerdict.SUPPRESSED)
    stage.check_in("meadow")
    if needs_person:
        stage.customer("vacant", zone=stage.other, route="file", kinds=(Kind.DAILY,), verdict=DeliveryVerdict.BODY_MISSING)
        stage.customer(
            "poster", zone=stage.other, route="file", kinds=(Kind.WEEKLY,), verdict=DeliveryVerdict.TEMPLATE_UNAPPROVED
        )
    return stage.ready()


@dataclass(slots=True)
class _Stage:
    layout: Layout
    play: int
    now: datetime
    _customers: list[dict[str, object]] = field(default_factory=list)
    _check_ins: list[dict[str, str]] = field(default_factory=list)
    _expected: dict[Slot, DeliveryVerdict] = field(default_factory=dict)
    _bodies: dict[Slot, str] = field(default_factory=dict)
    _routes: dict[Slot, str] = field(default_factory=dict)

    @property
    def roomier(self) -> str:
        return max(ZONES, key=lambda zone: _minutes_to_midnight(self.now, zone))

    @property
    def other(self) -> str:
        return next(zone for zone in ZONES if zone != self.roomier)

    def customer(
        self, name: str, *, zone: str, route: str, kinds: Iterable[Kind], verdict: DeliveryVerdict = DeliveryVerdict.DUE
    ) -> None:
        key, shown = f"{name}-{self.play}", f"{name.capitalize()} {self.play}"
        due = (self.now - timedelta(minutes=_DUE_MINUTES)).astimezone(ZoneInfo(zone))
        entry: dict[str, object] = {"key": key, "display_name": shown, "zone": zone, "route": _route(route, key)}
        for kind in kinds:
            slot = Slot(key, _period(kind, due), kind.value)
            entry[kind.value] = _rule(
                kind, due, template=CHANGED_TEMPLATE if verdict is DeliveryVerdict.TEMPLATE_UNAPPROVED else ""
            )
            self._expected[slot], self._routes[slot] = verdict, route
            if verdict is not DeliveryVerdict.DUE:
                continue
            self._bodies[slot] = _WORDING.replace("{{display_name}}", shown).replace("{{local_date}}", due.date().isoformat())
            if kind is not Kind.REMINDER:
                self._bodies[slot] = f"{shown}: {kind.value} message for {slot.period}\n"
                self._drop(slot)
        self._customers.append(entry)

    def check_in(self, name: str) -> None:
        at = self.now - timedelta(minutes=2 * _DUE_MINUTES)
        self._check_ins.append({"customer": f"{name}-{self.play}", "at": at.isoformat(), "source": "sandbox"})

    def ready(self) -> Owing:
        """The registry comes last: nothing is owed before its body is there."""
        places = customer_places(self.layout)
        private_directory(places.templates)
        write_private(places.templates / f"{TEMPLATE}.md", _WORDING)
        write_private(places.templates / f"{CHANGED_TEMPLATE}.md", "Hello {{display_name}}!\n")
        approved = {
            TEMPLATE: {"sha256": _sha256(_WORDING), "approved_by": "the sandbox"},
            CHANGED_TEMPLATE: {"sha256": _sha256("Hello {{display_name}}.\n"), "approved_by": "the sandbox"},
        }
        write_private(places.templates / "approved.yaml", _yaml({"version": 1, "templates": approved}))
        write_private(places.check_ins, "".join(json.dumps(row) + "\n" for row in self._check_ins))
        document = {"version": 1, "defaults": {"zone": ZONES[0]}, "customers": self._customers}
        write_registry(self.layout, _yaml(document))
        return Owing(self.play, expected=self._expected, bodies=self._bodies, route=self._routes)

    def _drop(self, slot: Slot) -> None:
        """As an upstream job does it: published by rename."""
        directory = customer_places(self.layout).outbox / slot.customer / slot.period
        private_directory(directory)
        write_private(directory / f"{slot.kind}.md", self._bodies[slot])


def write_registry(layout: Layout, text: str) -> None:
    """One that a person has changed since is kept beside it, as customers.yaml.yours."""
    registry = customer_places(layout).registry
    written = registry.with_name(".customers.yaml.written")
    if registry.exists():
        present = registry.read_bytes()
        if present not in (_EMPTY.encode(), written.read_bytes() if written.exists() else b""):
            write_private(registry.with_name("customers.yaml.yours"), present)
    write_private(written, text)
    write_private(registry, text)


def is_waiting(sandbox: Sandbox) -> bool:
    """Is something of the last play due and in no ledger yet, or has a person changed the registry? Then it is not played over."""
    from guards.delivery.registry import Registry
    from guards.delivery.registry_file import parse_registry
    from guards.delivery.schedule import owed
    from resources.ledger.file.store import FileLedger

    registry = customer_places(sandbox.layout).registry
    written = registry.with_name(".customers.yaml.written")
    data = registry.read_bytes() if registry.exists() else _EMPTY.encode()
    read = parse_registry(data)
    if data != (written.read_bytes() if written.exists() else _EMPTY.encode()) or not isinstance(read, Registry):
        return True
    now = datetime.now(UTC)
    due = [one.slot for one in owed(read, since=now, until=now) if one.slot.customer.startswith(_SENT)]
    if not due or not (sandbox.home / "ledger").is_dir():
        return bool(due)
    with FileLedger.open(sandbox.home / "ledger") as ledger:
        return any(not ledger.of(slot) for slot in due)


def _minutes_to_midnight(now: datetime, zone: str) -> int:
    """To the nearer one."""
    local = now.astimezone(ZoneInfo(zone))
    minutes = local.hour * 60 + local.minute
    return min(minutes, 24 * 60 - minutes)


def _period(kind: Kind, due: datetime) -> str:
    match kind:
        case Kind.WEEKLY:
            year, week, _ = due.isocalendar()
            return f"{year}-W{week:02d}"
        case Kind.MONTHLY:
            return f"{due:%Y-%m}"
        case _:
            return due.date().isoformat()


def _rule(kind: Kind, due: datetime, *, template: str) -> dict[str, object]:
    at = f"{due:%H:%M}"
    if kind is Kind.REMINDER:
        return {"not_before": at, "not_after": f"{due + timedelta(hours=3):%H:%M}", "template": TEMPLATE}
    days: dict[Kind, dict[str, object]] = {Kind.WEEKLY: {"weekday": _WEEKDAYS[due.weekday()]}, Kind.MONTHLY: {"day": due.day}}
    return {**days.get(kind, {}), "at": at, "catch_up": "PT12H", **({"template": template} if template else {})}


def _route(route: str, key: str) -> dict[str, str]:
    return {"provider": "file", "directory": key} if route == "file" else {"provider": "webhook", "webhook": route}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _yaml(document: object) -> str:
    import yaml

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)

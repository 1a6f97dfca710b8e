"""What must still hold when a message is sent: checked by the gate for all that is still to be sent, and again right before each call.

A fact that was not asked for is a mismatch, never a pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from guards.canonical import Json
from guards.delivery.bodies import Body
from guards.delivery.evidence import EvidenceUnreadable
from guards.delivery.registry import Route
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Slot
from guards.delivery.world import DeliveryWorld
from guards.requirement import Mismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryUnchanged:
    """The same bytes, and they still owe this slot to an enabled customer."""

    slot: Slot
    sha256: str

    def check(self, seen: DeliveryWorld) -> Mismatch | None:
        expected = f"the registry with SHA-256 {self.sha256[:12]}, owing it"
        if seen.registry.digest != self.sha256:
            return Mismatch(self.slot.key, expected, f"SHA-256 {seen.registry.digest[:12]}")
        owed = seen.owed_by_slot.get(self.slot)
        if owed is None:
            return Mismatch(self.slot.key, expected, "a schedule that does not owe it now")
        return None if owed.customer.enabled else Mismatch(self.slot.key, expected, "a disabled customer")

    def as_json(self) -> Mapping[str, Json]:
        return {"requires": "registry_unchanged", "slot": self.slot.key, "sha256": self.sha256}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOpen:
    slot: Slot
    due_at: datetime
    closes_at: datetime

    def check(self, seen: DeliveryWorld) -> Mismatch | None:
        if self.due_at <= seen.now < self.closes_at:
            return None
        return Mismatch(self.slot.key, f"a time from {_time(self.due_at)} to before {_time(self.closes_at)}", _time(seen.now))

    def as_json(self) -> Mapping[str, Json]:
        return {
            "requires": "window_open",
            "slot": self.slot.key,
            "due_at": self.due_at.isoformat(),
            "closes_at": self.closes_at.isoformat(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationUnchanged:
    """The customer's route is this one, and the settings lead it to the same place."""

    slot: Slot
    route: Route
    config_sha256: str

    def check(self, seen: DeliveryWorld) -> Mismatch | None:
        expected = f"{self.route.provider} {self.route.address}, settings {self.config_sha256[:12]}"
        customer = seen.registry.customers.get(self.slot.customer)
        if customer is None:
            return Mismatch(self.slot.key, expected, "no such customer")
        endpoint = seen.endpoints.get(customer.route)
        if endpoint is None or endpoint.missing:
            return Mismatch(
                self.slot.key, expected, endpoint.missing if endpoint else "no answer: its settings were not looked at"
            )
        if (customer.route, endpoint.config_sha256) == (self.route, self.config_sha256):
            return None
        found = f"{customer.route.provider} {customer.route.address}, settings {endpoint.config_sha256[:12]}"
        return Mismatch(self.slot.key, expected, found)

    def as_json(self) -> Mapping[str, Json]:
        return {
            "requires": "destination_unchanged",
            "slot": self.slot.key,
            "route": self.route.as_json(),
            "config_sha256": self.config_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyUnchanged:
    """The same bytes, and the same approved template if one made them."""

    slot: Slot
    sha256: str
    template: str
    template_sha256: str

    def check(self, seen: DeliveryWorld) -> Mismatch | None:
        made = f" from template {self.template} {self.template_sha256[:12]}" if self.template else ""
        expected = f"a body with SHA-256 {self.sha256[:12]}{made}"
        body = seen.bodies.get(self.slot)
        if body is None:
            return Mismatch(self.slot.key, expected, "no answer: its body was not looked for")
        if not isinstance(body, Body):
            return Mismatch(self.slot.key, expected, body.why)
        if (body.sha256, body.template, body.template_sha256) == (self.sha256, self.template, self.template_sha256):
            return None
        made = f" from template {body.template} {body.template_sha256[:12]}" if body.template else ""
        return Mismatch(self.slot.key, expected, f"SHA-256 {body.sha256[:12]}{made}")

    def as_json(self) -> Mapping[str, Json]:
        return {
            "requires": "body_unchanged",
            "slot": self.slot.key,
            "sha256": self.sha256,
            "template": self.template,
            "template_sha256": self.template_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFree:
    """The ledger holds nothing for the slot, or exactly this reservation, never granted."""

    slot: Slot
    pins_sha256: str

    def check(self, seen: DeliveryWorld) -> Mismatch | None:
        expected = "a slot that is free, or prepared for exactly this message"
        if self.slot in seen.altered:
            return Mismatch(self.slot.key, expected, f"an altered record: {seen.altered[self.slot]}")
        held = seen.held.get(self.slot)
        if held is None and self.slot in seen.receipts:
            return Mismatch(self.slot.key, expected, f"a receipt: it was sent {seen.receipts[self.slot]}")
        if held is None:
            return None
        if held.state is not ReservationState.PREPARED or held.is_contradicted:
            return Mismatch(self.slot.key, expected, f"attempt {held.attempt}, {held.state}")
        if held.pins.digest != self.pins_sha256:
            return Mismatch(self.slot.key, expected, f"attempt {held.attempt}, prepared for something else")
        return None

    def as_json(self) -> Mapping[str, Json]:
        return {"requires": "slot_free", "slot": self.slot.key, "pins_sha256": self.pins_sha256}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInMissing:
    """Evidence that can be read, and holds no check-in of that date in the customer's zone."""

    slot: Slot
    local_date: date
    zone: str

    def check(self, seen: DeliveryWorld) -> Mismatch | None:
        expected = f"no check-in on {self.local_date} ({self.zone})"
        if isinstance(seen.check_ins, EvidenceUnreadable):
            return Mismatch(self.slot.key, expected, f"nothing that can be read: {seen.check_ins.why}")
        found = seen.check_ins.on(self.slot.customer, self.local_date, self.zone)
        return None if found is None else Mismatch(self.slot.key, expected, f"one at {_time(found.at)}")

    def as_json(self) -> Mapping[str, Json]:
        return {
            "requires": "check_in_missing",
            "slot": self.slot.key,
            "local_date": self.local_date.isoformat(),
            "zone": self.zone,
        }


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"

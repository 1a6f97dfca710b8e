"""The judge: one finding for every slot of the look-back and for every open reservation. The first row that fits wins.

What the ledger holds comes first: it alone knows what may have gone out. Then the calendar, then what a message needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from guards.canonical import Json
from guards.delivery.bodies import Body, NoBody, NoTemplate
from guards.delivery.entry import Reservation
from guards.delivery.evidence import EvidenceUnreadable
from guards.delivery.message import differing, message_of, pins_of
from guards.delivery.pins import Pins
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.schedule import Owed
from guards.delivery.slot import Kind, Slot
from guards.delivery.standing import covers
from guards.delivery.taken import Ruling, by_ledger, resumed
from guards.delivery.verdict import DeliveryVerdict
from guards.delivery.world import DeliveryWorld, rule_name
from guards.finding import Finding
from guards.text import first_of, one_line

MOST_STRANGERS: Final = 3


@dataclass(frozen=True, slots=True)
class Judged:
    """`owed` is None for an open reservation that today's registry owes no more."""

    slot: Slot
    owed: Owed | None
    ruling: Ruling
    facts: Mapping[str, Json] = field(default_factory=dict)

    def finding(self) -> Finding:
        return Finding(subject=self.slot.key, verdict=self.ruling.verdict, note=self.ruling.note, facts=self.facts)


def judge(world: DeliveryWorld, policy: DeliveryPolicy) -> tuple[Judged, ...]:
    """By due time, then by slot; open reservations that are no longer owed come last. Of windows that closed before the policy's look-back
    only the gaps: a month of what was sent is nobody's finding."""
    recent = world.now - timedelta(days=policy.look_back_days)
    judged = [
        Judged(owed.slot, owed, ruling, _facts(world, owed.slot, owed, ruling))
        for owed in world.owed
        if (ruling := _rule(world, policy, owed)) is not None and (ruling.verdict.is_gap or owed.closes_at > recent)
    ]
    strays = sorted({*world.held, *world.altered} - world.owed_by_slot.keys())
    for slot in strays:
        stray = _stray(world, slot)
        if stray is not None:
            judged.append(Judged(slot, None, stray, _facts(world, slot, None, stray)))
    return tuple(judged)


def _rule(world: DeliveryWorld, policy: DeliveryPolicy, owed: Owed) -> Ruling | None:
    """None: closed before anybody promised it."""
    held = world.held.get(owed.slot)
    if ruling := by_ledger(world, owed.slot, held):
        return ruling
    if held is None and owed.slot in world.receipts:
        return Ruling(
            DeliveryVerdict.SENT,
            f"The ledger holds nothing about it, and a receipt proves that it was sent {world.receipts[owed.slot]}: it is not sent again.",
        )
    if not owed.customer.enabled:
        reserved = ", reserved and never sent" if held else ""
        return Ruling(DeliveryVerdict.CUSTOMER_DISABLED, f"The customer is disabled in the registry{reserved}: nothing is sent.")
    if world.now < owed.due_at:
        return Ruling(DeliveryVerdict.NOT_YET, f"Due at {_local(owed, owed.due_at)}.")
    arrived = _arrived(world, owed)
    if arrived:
        return Ruling(DeliveryVerdict.SUPPRESSED, arrived)
    if world.now >= owed.closes_at:
        return _closed(world, owed, held)
    return _open(world, policy, owed, held)


def _arrived(world: DeliveryWorld, owed: Owed) -> str:
    """ "" or, of a reminder whose check-in is there, one sentence."""
    if owed.kind is not Kind.REMINDER or isinstance(world.check_ins, EvidenceUnreadable):
        return ""
    found = world.check_ins.on(owed.customer.key, owed.local_date, owed.customer.zone)
    if found is None:
        return ""
    return (
        f"A check-in of {owed.local_date} arrived at {_local(owed, found.at)} ({one_line(found.source)}): no reminder is needed."
    )


def _closed(world: DeliveryWorld, owed: Owed, held: Reservation | None) -> Ruling | None:
    """Nothing is called missed that nobody could have seen."""
    since = world.known_since.get(rule_name(owed))
    if held is None and (since is None or since >= owed.closes_at):
        return None
    closed = f"Its window closed at {_local(owed, owed.closes_at)}"
    if owed.kind is Kind.REMINDER and isinstance(world.check_ins, EvidenceUnreadable):
        return Ruling(
            DeliveryVerdict.EVIDENCE_UNREADABLE,
            f"{closed}, and whether the check-in was missing cannot be told: {world.check_ins.why}. It is not sent late.",
        )
    if held is not None:
        return Ruling(DeliveryVerdict.MISSED, f"{closed}; it was reserved and never sent. It is not sent late.")
    if world.incomplete:
        return Ruling(
            DeliveryVerdict.IN_DOUBT,
            f"{closed} with nothing reserved in the ledger as it is now, which proves nothing before that is mended or accepted. "
            "It is not sent late.",
        )
    if accepted := world.accepted_since(owed):
        return Ruling(
            DeliveryVerdict.IN_DOUBT,
            f"{closed} with nothing reserved. {accepted}. It is not sent late: look into the provider's records before you tell the customer.",
        )
    return Ruling(DeliveryVerdict.MISSED, f"{closed} with nothing reserved. It is not sent late: tell the customer by hand.")


def _open(world: DeliveryWorld, policy: DeliveryPolicy, owed: Owed, held: Reservation | None) -> Ruling:
    if owed.kind is Kind.REMINDER and isinstance(world.check_ins, EvidenceUnreadable):
        return Ruling(
            DeliveryVerdict.EVIDENCE_UNREADABLE,
            f"Whether the check-in is missing cannot be told: {world.check_ins.why}. No reminder is sent until it can.",
        )
    body = world.bodies.get(owed.slot, NoBody("its body was not looked for"))
    if isinstance(body, NoTemplate):
        return Ruling(DeliveryVerdict.TEMPLATE_UNAPPROVED, f"It is not sent: {body.why}.")
    if isinstance(body, NoBody):
        return Ruling(
            DeliveryVerdict.BODY_MISSING, f"It is not sent: {body.why}. The window closes at {_local(owed, owed.closes_at)}."
        )
    wanted = wanted_pins(world, policy, owed, body)
    if held is not None and held.pins.digest != wanted.digest:
        return Ruling(
            DeliveryVerdict.PIN_CONFLICT,
            f"It is reserved, not sent, and since then there is another {differing(held.pins, wanted)}: nothing is sent. Put that back as it "
            f"was until {_local(owed, owed.closes_at)}, or end it (`opsguard ledger abandon {owed.slot.key}`) and tell the customer by hand.",
        )
    again = resumed(held)
    missing = world.endpoints[owed.customer.route].missing
    if missing:
        return Ruling(DeliveryVerdict.DUE, f"{again}It cannot be sent: {missing}.")
    route = owed.customer.route
    return Ruling(
        DeliveryVerdict.DUE,
        f"{again}Due since {_local(owed, owed.due_at)}, until {_until(owed)}; by {route.provider} to {one_line(route.address)}."
        f"{_opens_in_doubt(world, owed, held)}{_strangers(world, owed)}",
        wanted,
    )


def _opens_in_doubt(world: DeliveryWorld, owed: Owed, held: Reservation | None) -> str:
    """ "" or what applying the plan does instead of sending: the ledger does so by itself, and a person should know before."""
    accepted = world.accepted_since(owed) if held is None else ""
    return f" {accepted}: applying this opens it in doubt, for you to resolve, and sends nothing." if accepted else ""


def _strangers(world: DeliveryWorld, owed: Owed) -> str:
    """ "" or, of a reminder, a sentence about check-ins of nobody in the registry: one of them may be this customer's, misspelt."""
    found = world.strangers
    if owed.kind is not Kind.REMINDER or not found:
        return ""
    return (
        f" There are check-ins of nobody in the registry ({first_of(found, MOST_STRANGERS)}): see first that none was meant for "
        f"{owed.customer.key}."
    )


def wanted_pins(world: DeliveryWorld, policy: DeliveryPolicy, owed: Owed, body: Body) -> Pins:
    """What a reservation of this slot would be for now."""
    return pins_of(
        owed,
        body,
        watch=world.watch,
        registry_sha256=world.registry.digest,
        config_sha256=world.endpoints[owed.customer.route].config_sha256,
        may_fail_known=owed.kind.value in policy.known_failure_kinds,
    )


def _stray(world: DeliveryWorld, slot: Slot) -> Ruling | None:
    """An open reservation that is not owed in the look-back. None for what another guard reserved, and for what is settled."""
    held = world.held.get(slot)
    if slot.kind == Kind.FEED or (held is not None and not held.state.is_unfinished):
        return None
    if ruling := by_ledger(world, slot, held):
        return ruling
    assert held is not None  # altered ones were ruled by the ledger
    message = message_of(held.pins)
    if message is not None and world.now >= message.closes_at:
        return Ruling(
            DeliveryVerdict.MISSED,
            f"Its window closed at {message.closes_at:%Y-%m-%d %H:%M} UTC; it was reserved and never sent.",
        )
    return Ruling(
        DeliveryVerdict.PIN_CONFLICT,
        "It is reserved, not sent, and today's registry does not owe it: nothing is sent. Put the registry back, or end it: "
        f"`opsguard ledger abandon {slot.key}`.",
    )


def _facts(world: DeliveryWorld, slot: Slot, owed: Owed | None, ruling: Ruling) -> dict[str, Json]:
    """For the findings table. Volatile ones included; bodies only as their digest and size."""
    facts: dict[str, Json] = {"customer": slot.customer, "period": slot.period, "kind": slot.kind}
    if owed is not None:
        facts |= {
            "display_name": owed.customer.display_name,
            "zone": owed.customer.zone,
            "local_date": owed.local_date.isoformat(),
            "due_at": owed.due_at.isoformat(),
            "closes_at": owed.closes_at.isoformat(),
            **owed.customer.route.as_json(),
        }
        body = world.bodies.get(slot)
        if isinstance(body, Body):
            facts |= {"body_sha256": body.sha256, "size_bytes": body.size_bytes, "template": body.template}
    held = world.held.get(slot)
    if held is not None:
        facts |= {
            "state": held.state.value,
            "attempt": held.attempt,
            "reservation": held.reservation_id,
            "since": held.changed_at.isoformat(),
        }
    if ruling.verdict is DeliveryVerdict.DUE:
        facts["standing_approval"] = covers(world.standing, [slot], watch=world.watch, now=world.now, declined=world.declined)
    return facts


def _local(owed: Owed, moment: datetime) -> str:
    """On the customer's own clock, which is the one that the registry speaks."""
    return f"{moment.astimezone(ZoneInfo(owed.customer.zone)):%Y-%m-%d %H:%M} {owed.customer.zone}"


def _until(owed: Owed) -> str:
    """The close, after a sentence that named due time and zone: without the date when it is the same. Bullets have room for 80 characters."""
    zone = ZoneInfo(owed.customer.zone)
    due, closes = owed.due_at.astimezone(zone), owed.closes_at.astimezone(zone)
    return f"{closes:%H:%M}" if due.date() == closes.date() else f"{closes:%Y-%m-%d %H:%M}"

"""A message as its reservation pins it: everything that decides what goes where, so that a doubtful one can be shown exactly.

The body itself is among the pins: as text, or (where escapes would make it too long for a row) as base64 of its UTF-8 bytes.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from guards.canonical import Json, canonical_json, digest
from guards.delivery.bodies import Body
from guards.delivery.entry import Reservation
from guards.delivery.pins import MAY_FAIL_KNOWN, Pins
from guards.delivery.registry import Provider, Route
from guards.delivery.schedule import Owed
from guards.text import first_of, one_line

MOST_TEXT_BYTES: Final = 40 * 1024
"""Of canonical JSON: with the other facts, which take 2 KiB at most, the pins stay below their 48 KiB. 32 KiB in base64 are 43.7 KiB."""
LONGEST_SUBJECT: Final = 120
LONGEST_DISPLAY: Final = 100
MOST_SHOWN: Final = 4
_KEY_DIGITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedMessage:
    """Read back from a reservation's pins."""

    customer: str
    route: Route
    display: str
    subject: str
    body: str
    body_sha256: str
    destination_sha256: str
    closes_at: datetime


def subject_of(body: Body, owed: Owed) -> str:
    """One printable line: the body's own heading (`# …` first), else whose message it is."""
    first = next((line for line in body.text.splitlines() if line.strip()), "")
    heading = first.lstrip("#").strip()
    if first.startswith("#") and heading.isprintable() and heading:
        return heading[:LONGEST_SUBJECT]
    return f"{owed.kind.value} {owed.slot.period}"


def pins_of(owed: Owed, body: Body, *, watch: str, registry_sha256: str, config_sha256: str, may_fail_known: bool) -> Pins:
    """Equal for the same slot, body, route, registry and settings of one watch, whenever and by whomever it is asked."""
    destination = owed.customer.route.as_json()
    facts: dict[str, Json] = {
        "watch": watch,
        "kind": owed.kind.value,
        "customer": owed.customer.key,
        "display": one_line(owed.customer.display_name, limit=LONGEST_DISPLAY),
        "subject": subject_of(body, owed),
        "destination": destination,
        "destination_sha256": digest(destination),
        "body_sha256": body.sha256,
        "template": body.template,
        "template_sha256": body.template_sha256,
        "registry_sha256": registry_sha256,
        "config_sha256": config_sha256,
        "due_at": owed.due_at.isoformat(),
        "closes_at": owed.closes_at.isoformat(),
    }
    if len(canonical_json(body.text)) <= MOST_TEXT_BYTES:
        facts["body"] = body.text
    else:
        facts["body_base64"] = base64.b64encode(body.text.encode()).decode("ascii")
    if may_fail_known:
        facts[MAY_FAIL_KNOWN] = True
    return Pins(facts=facts)


def message_of(pins: Pins) -> PinnedMessage | None:
    """None for pins of another kind of effect, or of another program's making."""
    facts = pins.facts
    body, packed, destination = facts.get("body"), facts.get("body_base64"), facts.get("destination")
    try:
        if isinstance(packed, str):
            body = base64.b64decode(packed, validate=True).decode("utf-8")
        closes_at = datetime.fromisoformat(_text(facts, "closes_at"))
        provider = Provider(_text(destination, "provider") if isinstance(destination, Mapping) else "")
    except ValueError:
        return None
    if not isinstance(body, str) or not isinstance(destination, Mapping) or closes_at.utcoffset() is None:
        return None
    return PinnedMessage(
        customer=_text(facts, "customer"),
        route=Route(provider, _text(destination, "address")),
        display=_text(facts, "display"),
        subject=_text(facts, "subject"),
        body=body,
        body_sha256=_text(facts, "body_sha256"),
        destination_sha256=_text(facts, "destination_sha256"),
        closes_at=closes_at,
    )


def key_for(watch: str, reservation_id: str) -> str:
    """32 hex digits. Slots are named by customer and period only: two watches with ledgers of their own may have the same reservation id,
    and a provider that refuses a key it knows would take the second message for the first."""
    return digest(["provider key", watch, reservation_id])[:_KEY_DIGITS]


def provider_key(held: Reservation) -> str:
    """What the provider knows this attempt by. Pins that name no watch keep the reservation's id, which is what was sent for them."""
    watch = held.pins.facts.get("watch")
    return key_for(watch, held.reservation_id) if isinstance(watch, str) and watch else held.reservation_id


def differing(reserved: Pins, wanted: Pins) -> str:
    """Names of the facts that differ, for people: "registry_sha256, body_sha256"."""
    names = sorted(
        name
        for name in {*reserved.facts, *wanted.facts}
        if reserved.facts.get(name) != wanted.facts.get(name) and name not in ("body", "body_base64", "destination")
    )
    return first_of(names, MOST_SHOWN) or "authority"


def _text(facts: Mapping[str, Json], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""

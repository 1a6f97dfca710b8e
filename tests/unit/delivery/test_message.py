"""A message as its reservation pins it: equal for the same message, and readable again, byte by byte."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from guards.canonical import canonical_json
from guards.delivery.bodies import MOST_BODY_BYTES, Body
from guards.delivery.message import differing, key_for, message_of, pins_of, provider_key
from guards.delivery.pins import MOST_BYTES, Pins
from guards.delivery.reservation import ReservationState as S
from tests.unit.delivery.owing import BODY, CLOSES, DUE, WATCH, customer, held, owed, pins, reminder

pytestmark = pytest.mark.fast


def test_the_same_message_has_the_same_pins_whenever_it_is_asked_for() -> None:
    assert pins(owed()).digest == pins(owed()).digest


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (pins(owed(), Body("other")), "body_sha256, subject"),
        (pins(owed(), registry="b3" * 32), "registry_sha256"),
        (pins(owed(), config="d4" * 32), "config_sha256"),
        (pins(owed(customer(name="Other"))), "display"),
        (pins(owed(due_at=DUE + timedelta(minutes=1))), "due_at"),
        (pins(owed(), replace(BODY, template="daily-v1", template_sha256="e5" * 32)), "template, template_sha256"),
        (Pins({"name": "a.csv"}), "body_sha256, closes_at, config_sha256, customer and 10 more"),
        (pins(owed()), "authority"),
    ],
)
def test_what_differs_is_named(other: Pins, name: str) -> None:
    assert differing(pins(owed()), other) == name


def test_a_pinned_message_is_read_back_as_it_was() -> None:
    found = message_of(pins(owed()))

    assert found is not None
    assert (found.customer, found.route, found.display) == ("acme-1", owed().customer.route, "Acme")
    assert (found.body, found.body_sha256, found.closes_at) == (BODY.text, BODY.sha256, CLOSES)
    assert found.subject == "Monday"


@pytest.mark.parametrize("text", ["한" * 10_922, "\x01" * MOST_BODY_BYTES, "\N{GRINNING FACE}" * 8_192, "a" * MOST_BODY_BYTES])
def test_a_body_of_the_full_size_fits_a_row_in_any_script_and_comes_back_whole(text: str) -> None:
    """Escaped as `\\uXXXX` a Korean body of 24 KiB took 48 KiB, and its reservation was refused."""
    found = pins(owed(customer(name="\N{GRINNING FACE}" * 500)), Body("# " + "\N{GRINNING FACE}" * 300 + "\n" + text[:-500]))

    assert len(canonical_json(found.as_json())) <= MOST_BYTES
    back = message_of(found)
    assert back is not None
    assert back.body.endswith(text[:-500])


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("\n## Hello *you*\nx", "Hello *you*"),
        ("Hello\n# Later", "daily 2026-11-30"),
        ("#\nx", "daily 2026-11-30"),
        ("# a\x1b[31m\nx", "daily 2026-11-30"),
        ("# " + "x" * 500, "x" * 120),
    ],
)
def test_a_subject_is_the_bodys_own_heading_or_says_whose_message_it_is(text: str, subject: str) -> None:
    assert pins(owed(), Body(text)).facts["subject"] == subject


def test_only_kinds_that_the_policy_names_may_fail_for_certain() -> None:
    assert pins(reminder()).may_fail_known
    assert not pins(owed()).may_fail_known
    assert pins_of(owed(), BODY, watch="customers", registry_sha256="", config_sha256="", may_fail_known=True).may_fail_known


@pytest.mark.parametrize(
    "changed",
    [
        {"body": None},
        {"body": 7},
        {"body_base64": "not base64!"},
        {"body_base64": "/w=="},
        {"destination": "C0123456"},
        {"destination": {"provider": "pigeon", "address": "x"}},
        {"destination": {"provider": 7}},
        {"closes_at": "tomorrow"},
        {"closes_at": "2026-11-30T15:00:00"},
        {"closes_at": None},
    ],
)
def test_pins_that_this_program_did_not_make_are_no_message(changed: dict[str, object]) -> None:
    assert message_of(Pins({**pins(owed()).facts, **changed})) is None  # type: ignore[dict-item]


def test_two_watches_never_give_a_provider_one_key_for_two_messages() -> None:
    """Two ledgers, one customer key in both: the endpoint took the second message for the first, and it was recorded as delivered."""
    one = held(owed(), S.UNKNOWN)
    other = replace(one, pins=Pins({**one.pins.facts, "watch": "other"}))

    assert provider_key(one) == key_for(WATCH, one.reservation_id) == provider_key(held(owed(), S.UNKNOWN))
    assert provider_key(one) != provider_key(other)
    assert all(re.fullmatch("[0-9a-f]{32}", provider_key(each)) for each in (one, other))


def test_pins_without_a_watch_keep_the_reservations_id_as_key() -> None:
    one = held(owed(), S.UNKNOWN)
    facts = {name: value for name, value in one.pins.facts.items() if name != "watch"}

    assert provider_key(replace(one, pins=Pins(facts))) == one.reservation_id

"""What must still hold right before a call: each fact names what was expected and what was found."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from guards.delivery.bodies import Body, NoBody, NoTemplate
from guards.delivery.evidence import EvidenceUnreadable
from guards.delivery.pins import Pins
from guards.delivery.planning import DeliveryTarget, make_plan
from guards.delivery.registry import Provider, Registry, Route
from guards.delivery.reservation import ReservationState as S
from guards.delivery.world import DeliveryWorld, Endpoint
from guards.requirement import Mismatch
from tests.unit.delivery.owing import (
    BODY,
    CLOSES,
    CONFIG_SHA256,
    DUE,
    POLICY,
    SEOUL,
    checked_in,
    contradicted,
    customer,
    held,
    owed,
    pins,
    reminder,
    world,
)

pytestmark = pytest.mark.fast

ONE, ASKED = owed(), reminder()
TEMPLATED = replace(BODY, template="missing-checkin-v1", template_sha256="e5" * 32)


def target(seen: DeliveryWorld) -> DeliveryTarget:
    (one,) = make_plan(seen, scope={}, policy=POLICY).targets
    assert isinstance(one, DeliveryTarget)
    return one


def unmet(seen: DeliveryWorld, planned: DeliveryWorld | None = None) -> list[Mismatch]:
    made = target(planned or world(ONE))
    return [found for requirement in made.requirements if (found := requirement.check(seen)) is not None]


def test_everything_holds_while_nothing_has_changed() -> None:
    assert unmet(world(ONE)) == []
    assert unmet(world(ASKED, body=TEMPLATED), world(ASKED, body=TEMPLATED)) == []


def test_a_receipt_takes_the_slot_where_the_ledger_holds_nothing() -> None:
    """The ledger's directory was exchanged while a run was sending."""
    (found,) = unmet(replace(world(ONE), receipts={ONE.slot: "at 09:05 by run 7"}))

    assert "it was sent at 09:05 by run 7" in found.found


def test_a_reservation_of_our_own_that_was_never_granted_may_go_on() -> None:
    assert unmet(world(ONE, holds=[held(ONE, S.PREPARED)])) == []


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (replace(world(ONE), registry=Registry("b3" * 32, SEOUL, {"acme-1": ONE.customer})), "SHA-256 b3b3b3b3b3b3"),
        (replace(world(ONE), owed=()), "a schedule that does not owe it now"),
        (world(owed(customer(enabled=False))), "a disabled customer"),
        (world(ONE, now=DUE - timedelta(seconds=1)), "2026-11-29 23:59:59 UTC"),
        (world(ONE, now=CLOSES), "2026-11-30 15:00:00 UTC"),
        (world(owed(customer(route=Route(Provider.SLACK, "C9999999")))), "slack C9999999"),
        (world(ONE, endpoint=Endpoint("d4" * 32)), "settings d4d4d4d4d4d4"),
        (world(ONE, endpoint=Endpoint(missing="the settings have no slack")), "the settings have no slack"),
        (replace(world(ONE), endpoints={}), "its settings were not looked at"),
        (world(ONE, body=Body("other")), "SHA-256 d9298a10d1b0"),
        (world(ONE, body=TEMPLATED), "from template missing-checkin-v1 e5e5e5e5e5e5"),
        (world(ONE, body=NoBody("its body is empty")), "its body is empty"),
        (world(ONE, body=NoTemplate("it was changed")), "it was changed"),
        (world(ONE, body=None), "its body was not looked for"),
        (world(ONE, altered={ONE.slot: "row 7"}), "an altered record: row 7"),
        (world(ONE, holds=[held(ONE, S.DELIVERED)]), "attempt 1, delivered"),
        (world(ONE, holds=[contradicted(held(ONE, S.PREPARED))]), "attempt 1, prepared"),
        (world(ONE, holds=[replace(held(ONE, S.PREPARED), pins=Pins({"name": "x"}))]), "prepared for something else"),
    ],
)
def test_what_has_changed_is_named_with_what_was_found(seen: DeliveryWorld, found: str) -> None:
    mismatches = unmet(seen)

    assert any(found in one.found for one in mismatches), mismatches
    assert all(one.subject == ONE.slot.key and one.expected for one in mismatches)


def test_a_customer_that_is_gone_is_a_mismatch() -> None:
    empty = replace(world(ONE), registry=Registry("a1" * 32, SEOUL, {}))

    assert any(one.found == "no such customer" for one in unmet(empty))


@pytest.mark.parametrize(
    ("evidence", "found"),
    [
        (checked_in(), "one at 2026-11-29 23:55:00 UTC"),
        (EvidenceUnreadable("line 3 is bad"), "nothing that can be read: line 3 is bad"),
    ],
)
def test_a_reminder_needs_evidence_that_its_check_in_is_missing(evidence: EvidenceUnreadable, found: str) -> None:
    planned = world(ASKED, body=TEMPLATED)

    (mismatch,) = unmet(replace(planned, check_ins=evidence), planned)

    assert mismatch.found == found


def test_every_requirement_is_part_of_what_is_said_as_json() -> None:
    said = [dict(one.as_json()) for one in target(world(ASKED, body=TEMPLATED)).requirements]

    assert [one["requires"] for one in said] == [
        "registry_unchanged",
        "window_open",
        "destination_unchanged",
        "body_unchanged",
        "slot_free",
        "check_in_missing",
    ]
    assert all(one["slot"] == ASKED.slot.key for one in said)
    assert said[4]["pins_sha256"] == pins(ASKED, TEMPLATED).digest
    assert said[2]["config_sha256"] == CONFIG_SHA256
    assert datetime.fromisoformat(str(said[1]["due_at"])) == DUE.astimezone(UTC)

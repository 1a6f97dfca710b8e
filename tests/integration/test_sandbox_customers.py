"""The customers to play with: whatever the hour, one slot of each kind is due, and the files are what the guard reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from guards.delivery.pins import Pins
from guards.delivery.registry import Registry
from guards.delivery.registry_file import parse_registry
from guards.delivery.schedule import owed
from guards.delivery.slot import Kind
from guards.delivery.templates import parse_approved
from guards.delivery.verdict import DeliveryVerdict
from opsguard_defs.sandbox import Sandbox
from opsguard_defs.sandbox.customers import ZONES, Owing, is_waiting, make_customer_places, owe_messages
from opsguard_defs.sandbox.places import customer_places
from resources.ledger.file.store import FileLedger

pytestmark = pytest.mark.fast

A_YEAR_OF_HOURS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(0, 366 * 24, 101)]
AROUND_MIDNIGHT = [datetime(2026, 11, 30, hour, minute, tzinfo=UTC) for hour in (14, 15, 22, 23) for minute in (0, 1, 9, 10, 59)]
CLOCK_CHANGES = [datetime(2026, month, day, hour, 5, tzinfo=UTC) for month, day in ((3, 29), (10, 25)) for hour in (0, 1, 2)]


def sandbox(home: Path) -> Sandbox:
    box = Sandbox(home)
    box.layout.make()
    make_customer_places(box.layout)
    return box


def registry_of(box: Sandbox) -> Registry:
    found = parse_registry(customer_places(box.layout).registry.read_bytes())
    assert isinstance(found, Registry), found
    return found


def due_now(box: Sandbox, at: datetime) -> set[str]:
    found = owed(registry_of(box), since=at, until=at)
    assert all(one.due_at <= at and one.closes_at >= at + timedelta(hours=2) for one in found), found
    return {one.slot.key for one in found}


def test_before_the_first_play_the_registry_is_there_and_owes_nothing(tmp_path: Path) -> None:
    assert registry_of(sandbox(tmp_path)).customers == {}


@pytest.mark.parametrize("needs_person", [False, True])
def test_exactly_the_promised_slots_are_due_at_every_hour_of_a_year(tmp_path: Path, needs_person: bool) -> None:
    """Around midnight, at the ends of months and years, and where clocks are set."""
    box = sandbox(tmp_path)
    for at in [*A_YEAR_OF_HOURS, *AROUND_MIDNIGHT, *CLOCK_CHANGES]:
        played = owe_messages(box, needs_person=needs_person, now=at.timestamp())
        assert due_now(box, at) == {slot.key for slot in played.expected}, at


def test_one_slot_of_each_kind_is_due_in_two_zones_and_by_three_routes(tmp_path: Path) -> None:
    box = sandbox(tmp_path)
    played = owe_messages(box)
    assert {slot.kind for slot in played.by("file")} == {kind.value for kind in Kind if kind is not Kind.FEED}
    assert {customer.zone for customer in registry_of(box).customers.values()} == set(ZONES)
    assert [slot.kind for slot in played.by("rejects")] == ["reminder"]
    assert [slot.kind for slot in played.by("dies")] == ["daily"]


def test_every_play_has_customers_of_its_own(tmp_path: Path) -> None:
    """A slot is filled once for ever: with the same customers a second play on the same day would find everything sent."""
    box = sandbox(tmp_path)
    one, two = owe_messages(box), owe_messages(box)
    assert not {slot.customer for slot in one.expected} & {slot.customer for slot in two.expected}


def test_bodies_lie_in_the_outbox_and_the_changed_template_is_not_the_approved_one(tmp_path: Path) -> None:
    box = sandbox(tmp_path)
    played: Owing = owe_messages(box, needs_person=True)
    places = customer_places(box.layout)
    dropped = {path.relative_to(places.outbox).as_posix(): path.read_text() for path in places.outbox.rglob("*.md")}
    due = {
        f"{slot.customer}/{slot.period}/{slot.kind}.md": body for slot, body in played.bodies.items() if slot.kind != "reminder"
    }
    assert dropped == due
    approved = parse_approved((places.templates / "approved.yaml").read_bytes())
    assert isinstance(approved, dict), approved
    assert set(approved) == {path.stem for path in places.templates.glob("*.md")}
    assert DeliveryVerdict.TEMPLATE_UNAPPROVED in played.expected.values()


def test_a_play_is_not_played_over_while_something_of_it_is_due_and_unsent(tmp_path: Path) -> None:
    box = sandbox(tmp_path)
    assert not is_waiting(box)
    played = owe_messages(box, needs_person=True)
    assert is_waiting(box)
    with FileLedger.open(tmp_path / "ledger") as ledger:
        for slot in played.due:
            ledger.reserve(slot, Pins({"kind": slot.kind}), key="run-1")
    assert not is_waiting(box)


def test_a_registry_that_a_person_changed_is_kept_beside_the_one_of_the_next_play(tmp_path: Path) -> None:
    box = sandbox(tmp_path)
    owe_messages(box)
    registry = customer_places(box.layout).registry
    registry.write_text("version: 1\ncustomers: []  # mine\n")
    assert is_waiting(box)
    owe_messages(box)
    owe_messages(box)
    assert registry.with_name("customers.yaml.yours").read_text() == "version: 1\ncustomers: []  # mine\n"

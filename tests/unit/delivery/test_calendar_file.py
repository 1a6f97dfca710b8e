"""The calendar file: what a strict reader makes of it is the schedule again, whatever the customers are called."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.delivery.calendar_file import MOST_OCTETS, calendar_text, fold
from guards.delivery.registry import Provider, Registry, Route
from guards.delivery.schedule import day_by_day
from guards.delivery.slot import Kind
from guards.text import one_line
from tests.unit.delivery import icalendar
from tests.unit.delivery.registries import customer, registry, reminder, rule

pytestmark = pytest.mark.fast

STAMP = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
MONDAY = date(2026, 11, 30)
LONG_NAME = "a" * 64
"""With the longest zone name of all, no line may be too long."""


def events(of: Registry, last: date = MONDAY, stamp: datetime = STAMP) -> list[icalendar.Event]:
    return icalendar.read("".join(calendar_text(day_by_day(of, MONDAY, last), stamp=stamp)).encode("utf-8"))


def test_every_slot_is_one_event_at_the_moment_it_becomes_due() -> None:
    read = registry(
        customer("acme-1", rule(at="09:00"), rule(Kind.WEEKLY, "10:00"), reminder()),
        customer("zenith", rule(), zone="Europe/Berlin"),
    )
    last = MONDAY + timedelta(days=8)
    rows = [row for day in day_by_day(read, MONDAY, last) for row in day.rows()]

    found = events(read, last)

    assert {(one.uid, one.start) for one in found} == {(row.key, row.when.due_at) for row in rows}
    assert [one.start for one in found if one.uid.startswith("acme-1")] == sorted(
        row.when.due_at for row in rows if row.customer.key == "acme-1"
    )


def test_an_event_says_what_goes_where_and_until_when() -> None:
    (one,) = events(registry(customer("acme-1", rule(at="09:00"), name="Acme")))

    assert one.summary == "Acme: daily"
    assert one.description == ("To slack C0123456. Body: dropped into the outbox. May be sent until 2026-12-01 00:00 Asia/Seoul.")
    assert one.stamp == STAMP
    assert one.start == datetime(2026, 11, 30, 0, 0, tzinfo=UTC)


def test_a_template_and_a_customer_who_is_not_enabled_are_named() -> None:
    (one,) = events(registry(customer("acme-1", reminder(), enabled=False)))

    assert one.summary == "acme-1: reminder (not enabled)"
    assert "Body: template missing-checkin-v1." in one.description


def test_the_stamp_is_in_utc_whatever_clock_it_came_from() -> None:
    (one,) = events(registry(customer("acme-1", rule())), stamp=STAMP.astimezone(ZoneInfo("Asia/Seoul")))

    assert one.stamp == STAMP


def test_the_longest_names_make_no_line_too_long() -> None:
    zone = "America/Argentina/ComodRivadavia"
    route = Route(Provider.SMTP, "a" * 64 + "@" + "b" * 190)
    (one,) = events(registry(customer(LONG_NAME, rule(), zone=zone, route=route, name="東" * 120)))

    assert one.uid == f"{LONG_NAME}:2026-11-30:daily"
    assert one.summary == "東" * 120 + ": daily"
    assert zone in one.description


@pytest.mark.parametrize(
    "name",
    [
        "Acme, GmbH; \\ Co.",
        "line\r\nEND:VEVENT\r\nBEGIN:VEVENT",
        "a\x1b[31mred",
        "x\u202ey",
        "\\n",
        '"quoted"',
        "é" * 75,
        ":;,",
        " ",
    ],
)
def test_a_hostile_name_stays_inside_its_event(name: str) -> None:
    """The incident: a name with a line break ended the event, and the calendar program dropped everything after it."""
    (one,) = events(registry(customer("acme-1", rule(), name=name)))

    assert one.summary == f"{one_line(name, limit=None)}: daily"


@given(st.text(min_size=1, max_size=200))
def test_any_name_is_read_back_as_it_is_shown(name: str) -> None:
    (one,) = events(registry(customer("acme-1", rule(), name=name)))

    assert one.summary == f"{one_line(name, limit=None)}: daily"


@given(st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=400))
def test_a_folded_line_is_the_line_again_and_never_too_long(text: str) -> None:
    parts = fold(text).split("\r\n ")

    assert "".join(parts) == text
    assert len(parts[0].encode()) <= MOST_OCTETS
    assert all(len(part.encode()) <= MOST_OCTETS - 1 for part in parts[1:])

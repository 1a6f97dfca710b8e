"""Two years in each of 41 zones, every kind, against a calculation that shares nothing with the product's."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pytest

from guards.delivery.registry import CatchUp, Customer, Overflow, SlotIdentity, UntilWindowEnd
from guards.delivery.registry_fields import WEEKDAYS
from guards.delivery.schedule import owed
from guards.delivery.slot import Kind
from tests.unit.delivery.registries import customer, registry, reminder, rule
from tests.unit.delivery.slow_calendar import SlowCalendar, days_around, literally_due, minute, walk, windows

ZONES = {
    "UTC": 2026,
    "Asia/Seoul": 2026,
    "Asia/Kolkata": 2026,
    "Asia/Kathmandu": 2026,
    "Asia/Tehran": 2021,  # 00:00 -> 01:00, given up in 2022
    "Asia/Gaza": 2024,  # two summers a year, around Ramadan
    "Asia/Hebron": 2026,
    "Asia/Beirut": 2022,  # 00:00 -> 01:00; 2023 moved by decree
    "Asia/Amman": 2021,
    "Asia/Jerusalem": 2026,
    "Asia/Pyongyang": 2017,  # 2018-05-04 23:30 -> 00:00: the end of a date is missing
    "Asia/Almaty": 2023,  # 2024-03-01 00:00 -> 2024-02-29 23:00
    "Africa/Cairo": 2023,  # 2023-04-28 00:00 -> 01:00
    "Africa/Casablanca": 2026,
    "Africa/Juba": 2020,
    "Africa/Sao_Tome": 2018,
    "America/Sao_Paulo": 2017,  # 00:00 -> 01:00 and 00:00 -> 23:00
    "America/Santiago": 2026,
    "America/Asuncion": 2023,
    "America/Havana": 2026,
    "America/Nuuk": 2023,  # 2024-03-30 23:00 -> 2024-03-31 00:00
    "America/St_Johns": 2010,  # set at 00:01: midnight comes, and comes again an hour later
    "America/New_York": 2026,
    "America/Caracas": 2015,
    "America/Mexico_City": 2021,
    "Antarctica/Troll": 2026,  # two hours
    "Antarctica/Casey": 2019,  # three hours
    "Atlantic/Azores": 2026,
    "Australia/Lord_Howe": 2026,  # half an hour
    "Australia/Adelaide": 2026,
    "Europe/Dublin": 2026,  # its summer is standard time
    "Europe/Berlin": 2026,
    "Europe/Istanbul": 2015,
    "Europe/Moscow": 2013,
    "Europe/Volgograd": 2019,
    "Pacific/Apia": 2011,  # no 30 December 2011
    "Pacific/Fakaofo": 2011,
    "Pacific/Kiritimati": 1994,  # no 31 December 1994
    "Pacific/Kwajalein": 1992,  # no 21 August 1993
    "Pacific/Chatham": 2026,
    "Pacific/Easter": 2026,
}
DAYS = timedelta(days=1)
TIMES = ("00:00", "00:30", "01:30", "02:00", "02:15", "03:00", "09:00", "23:00", "23:30", "23:59")
CATCH_UPS: tuple[CatchUp, ...] = (*UntilWindowEnd, timedelta(hours=2), timedelta(days=2), timedelta(days=31))
REMINDERS = (
    ("00:10", "00:40"),
    ("02:10", "02:20"),
    ("11:00", "12:00"),
    ("22:30", "23:59"),
    ("00:00", "23:59"),
    ("23:10", "23:50"),
)


@dataclass(frozen=True)
class Place:
    zone: str
    since: date
    until: date
    calendar: SlowCalendar


@pytest.fixture(scope="module", params=list(ZONES))
def place(request: pytest.FixtureRequest) -> Place:
    return place_of(request.param)


def place_of(zone: str) -> Place:
    since, until = date(ZONES[zone], 1, 1), date(ZONES[zone] + 1, 12, 31)
    return Place(zone, since, until, walk(zone, since, until))


def customers_of(zone: str) -> list[Customer]:
    """Every time with two ways to catch up; every weekday, and the days of the month that matter."""
    made = []
    for number, at in enumerate(TIMES):
        ways = [CATCH_UPS[(number + more) % len(CATCH_UPS)] for more in (0, 3)]
        rules = [
            rule(Kind.DAILY, at, ways[0]),
            rule(Kind.WEEKLY, at, ways[1], weekday=WEEKDAYS[number % 7]),
            rule(Kind.MONTHLY, at, ways[0], day=(31, 1, 30, 29, 28)[number % 5], overflow=list(Overflow)[number % 2]),
        ]
        rules += [rule(Kind.CUTOFF, at, ways[1])] if number % 2 else []
        rules += [reminder(*REMINDERS[number])] if number < len(REMINDERS) else []
        made.append(customer(f"at-{number}", *rules, zone=zone))
    return made


def differences(place: Place, identity: SlotIdentity) -> list[str]:
    """What the product says otherwise than the slow calculation, in words."""
    customers = customers_of(place.zone)
    expected = {
        f"{one.key}:{period}:{each.kind}": window
        for one in customers
        for each in one.rules
        for period, window in windows(each, place.calendar, place.since, place.until, by_day=identity is SlotIdentity.DAY).items()
    }
    found = owed(
        registry(*customers, identity=identity), since=midnight(place.since) - DAYS * 2, until=midnight(place.until) + DAYS * 3
    )
    said = {
        one.slot.key: (minute(one.due_at), minute(one.closes_at))
        for one in found
        if place.since <= one.local_date <= place.until and one.due_at.second == one.closes_at.second == 0
    }
    assert len(expected) > 15_000
    every = sorted(said.keys() | expected.keys())
    return [f"{key}: {said.get(key)}, not {expected.get(key)}" for key in every if said.get(key) != expected.get(key)]


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def test_two_years_are_what_a_slow_calculation_says(place: Place) -> None:
    assert differences(place, SlotIdentity.PERIOD) == []


def test_due_is_what_the_wall_clock_literally_says(place: Place) -> None:
    """The date is the period's and the time is `at` or later: at every minute around every setting of the clock that is shown for the
    first time. Where the rest of the date was left out, the first minute after the gap is the whole window."""
    calendar = place.calendar
    days = days_around(calendar) | {place.since, place.until}
    customers = [customer(f"at-{at.replace(':', '')}", rule(Kind.DAILY, at), zone=place.zone) for at in TIMES]
    everything = owed(registry(*customers), since=midnight(min(days)) - DAYS * 2, until=midnight(max(days)) + DAYS * 2)
    found = {one.slot.key: one for one in everything}
    for day in sorted(days & calendar.dates):
        for at in TIMES:
            one = found[f"at-{at.replace(':', '')}:{day}:daily"]
            window = range(minute(one.due_at), minute(one.closes_at))
            literal = literally_due(calendar, day, int(at[:2]) * 60 + int(at[3:]))
            new = [number for number in window if calendar.came(calendar.wall[number - calendar.start]) == number]
            assert new == literal if literal else len(window) == 1, f"{one.slot.key}: {one.due_at} to {one.closes_at}"


@pytest.mark.parametrize("zone", ["Asia/Seoul", "America/St_Johns", "Pacific/Apia"])
def test_slots_named_by_their_day_are_due_at_the_same_times(zone: str) -> None:
    assert differences(place_of(zone), SlotIdentity.DAY) == []

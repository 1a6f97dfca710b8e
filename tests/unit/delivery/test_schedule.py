"""The schedule: what is owed, from when, until when and by which name, at the edges that wall clocks and calendars have."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guards.delivery.registry import CatchUp, Customer, Overflow, Registry, Rule, SlotIdentity, UntilWindowEnd
from guards.delivery.schedule import Owed, day_by_day, due, look_back, owed
from guards.delivery.slot import Kind
from tests.unit.delivery.registries import SEOUL, customer, registry, reminder, rule
from tests.unit.delivery.test_registry_file import RULES

pytestmark = pytest.mark.fast

BERLIN = "Europe/Berlin"
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def local(text: str, zone: str = SEOUL, *, second_time: bool = False) -> datetime:
    """An instant, by what a clock in the zone shows."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=int(second_time)).astimezone(UTC)


def shown(one: Owed) -> tuple[str, str, str]:
    """(period, due, closes) as the customer's clock shows them."""
    zone = ZoneInfo(one.customer.zone)
    times = (at.astimezone(zone).replace(tzinfo=None).isoformat(" ", "minutes") for at in (one.due_at, one.closes_at))
    return (one.slot.period, *times)


def of_dates(
    each: Rule, first: str, last: str, zone: str = SEOUL, identity: SlotIdentity = SlotIdentity.PERIOD
) -> list[tuple[str, str, str]]:
    """What one rule owes on the dates from `first` to `last`."""
    days = day_by_day(
        registry(customer("acme-1", each, zone=zone), identity=identity), date.fromisoformat(first), date.fromisoformat(last)
    )
    return [shown(row.owed()) for day in days for row in day.rows()]


def due_keys(of: Registry, at: datetime) -> list[str]:
    return [one.slot.key for one in due(of, at)]


def test_a_daily_slot_is_due_from_its_time_until_midnight() -> None:
    read = registry(customer("acme-1", rule(at="09:00")))

    assert due_keys(read, local("2026-11-30 08:59:59")) == []
    assert due_keys(read, local("2026-11-30 09:00")) == ["acme-1:2026-11-30:daily"]
    assert due_keys(read, local("2026-11-30 23:59:59")) == ["acme-1:2026-11-30:daily"]
    assert due_keys(read, local("2026-12-01 00:00")) == []


def test_the_day_is_the_customers_not_the_servers() -> None:
    """The incident: at 08:00 in Seoul the server in UTC still had yesterday, and sent yesterday's message twice."""
    read = registry(customer("acme-1", rule(at="08:00")), customer("zenith", rule(at="00:30"), zone="Pacific/Kiritimati"))

    assert due_keys(read, datetime(2026, 11, 29, 23, 0, tzinfo=UTC)) == ["zenith:2026-11-30:daily", "acme-1:2026-11-30:daily"]


@pytest.mark.parametrize(
    ("catch_up", "closes"),
    [
        (UntilWindowEnd.NONE, "2026-12-02 10:01"),
        (UntilWindowEnd.UNTIL_MIDNIGHT, "2026-12-03 00:00"),
        (UntilWindowEnd.UNTIL_WEEK_END, "2026-12-07 00:00"),
        (UntilWindowEnd.UNTIL_MONTH_END, "2027-01-01 00:00"),
        (timedelta(days=2), "2026-12-04 10:00"),
        (timedelta(minutes=90), "2026-12-02 11:30"),
    ],
)
def test_a_window_ends_where_the_catch_up_says(catch_up: CatchUp, closes: str) -> None:
    each = rule(Kind.WEEKLY, "10:00", catch_up, weekday="wed")

    assert of_dates(each, "2026-11-30", "2026-12-06") == [("2026-W49", "2026-12-02 10:00", closes)]


def test_a_length_of_two_days_is_48_hours_when_the_clock_is_set_between() -> None:
    each = rule(Kind.CUTOFF, "12:00", timedelta(days=2))

    assert of_dates(each, "2026-03-28", "2026-03-28", BERLIN) == [("2026-03-28", "2026-03-28 12:00", "2026-03-30 13:00")]


def test_a_reminder_is_due_between_its_two_times_only() -> None:
    read = registry(customer("acme-1", reminder("11:00", "12:00")))

    assert due_keys(read, local("2026-11-30 10:59")) == []
    assert due_keys(read, local("2026-11-30 11:00")) == ["acme-1:2026-11-30:reminder"]
    assert due_keys(read, local("2026-11-30 11:59")) == ["acme-1:2026-11-30:reminder"]
    assert due_keys(read, local("2026-11-30 12:00")) == []


def test_a_time_that_the_clock_jumps_over_comes_at_the_first_minute_after() -> None:
    """Berlin's clocks go from 02:00 to 03:00 on 29 March 2026."""
    assert of_dates(rule(at="02:30"), "2026-03-29", "2026-03-29", BERLIN) == [
        ("2026-03-29", "2026-03-29 03:00", "2026-03-30 00:00")
    ]


def test_a_time_that_is_shown_twice_comes_once_the_first_time() -> None:
    """Berlin's clocks go from 03:00 back to 02:00 on 25 October 2026."""
    read = registry(customer("acme-1", rule(at="02:30", catch_up=UntilWindowEnd.NONE), zone=BERLIN))

    assert due_keys(read, local("2026-10-25 02:30", BERLIN)) == ["acme-1:2026-10-25:daily"]
    assert due_keys(read, local("2026-10-25 02:30", BERLIN, second_time=True)) == []


def test_a_window_that_the_clock_jumps_over_whole_is_its_first_minute_after() -> None:
    assert of_dates(reminder("02:10", "02:50"), "2026-03-29", "2026-03-29", BERLIN) == [
        ("2026-03-29", "2026-03-29 03:00", "2026-03-29 03:01")
    ]


def test_a_date_whose_end_is_missing_is_owed_its_message_in_the_first_minute_of_the_next() -> None:
    """Nuuk's clocks went from 23:00 on 30 March 2024 to 00:00 on the 31st. Its period stays the date that the rule names."""
    assert of_dates(rule(at="23:30"), "2024-03-30", "2024-03-30", "America/Nuuk") == [
        ("2024-03-30", "2024-03-31 00:00", "2024-03-31 00:01")
    ]


def test_a_midnight_that_does_not_exist_ends_the_day_at_the_gap() -> None:
    """Cairo's clocks go from 00:00 to 01:00 on Friday 28 April 2023."""
    assert of_dates(rule(at="20:00"), "2023-04-27", "2023-04-28", "Africa/Cairo") == [
        ("2023-04-27", "2023-04-27 20:00", "2023-04-28 01:00"),
        ("2023-04-28", "2023-04-28 20:00", "2023-04-29 00:00"),
    ]


def test_a_midnight_that_comes_twice_ends_the_day_the_first_time() -> None:
    """Newfoundland's clocks went from 00:01 on 7 November 2010 back to 23:01 on the 6th."""
    read = registry(customer("acme-1", rule(at="23:30"), zone="America/St_Johns"))

    assert due_keys(read, local("2010-11-06 23:30", "America/St_Johns")) == ["acme-1:2010-11-06:daily"]
    assert due_keys(read, local("2010-11-06 23:30", "America/St_Johns", second_time=True)) == []


def test_a_date_that_the_zone_left_out_is_owed_nothing_but_its_week_and_month_are() -> None:
    """Samoa went from Thursday 29 to Saturday 31 December 2011."""
    apia = "Pacific/Apia"

    assert [period for period, _, _ in of_dates(rule(at="09:00"), "2011-12-29", "2011-12-31", apia)] == [
        "2011-12-29",
        "2011-12-31",
    ]
    assert of_dates(reminder(), "2011-12-30", "2011-12-30", apia) == []
    assert of_dates(rule(Kind.WEEKLY, weekday="fri"), "2011-12-26", "2012-01-01", apia) == [
        ("2011-W52", "2011-12-31 00:00", "2011-12-31 00:01")
    ]
    assert of_dates(rule(Kind.MONTHLY, day=30, catch_up=timedelta(days=1)), "2011-12-01", "2011-12-31", apia) == [
        ("2011-12", "2011-12-31 00:00", "2012-01-01 00:00")
    ]


@pytest.mark.parametrize(
    ("month", "clamped"),
    [("2027-02", "2027-02-28"), ("2028-02", "2028-02-29"), ("2026-11", "2026-11-30"), ("2026-12", "2026-12-31")],
)
def test_day_31_is_the_months_end_or_none_at_all(month: str, clamped: str) -> None:
    first, last = f"{month}-01", clamped
    clamp, skip = (rule(Kind.MONTHLY, "10:00", day=31, overflow=overflow) for overflow in Overflow)

    assert [(period, due_at) for period, due_at, _ in of_dates(clamp, first, last)] == [(month, f"{clamped} 10:00")]
    assert len(of_dates(skip, first, last)) == (1 if clamped.endswith("31") else 0)


@pytest.mark.parametrize(
    ("day", "period"),
    [
        ("2026-12-28", "2026-W53"),
        ("2027-01-01", "2026-W53"),
        ("2027-01-04", "2027-W01"),
        ("2024-12-30", "2025-W01"),
        ("2023-01-01", "2022-W52"),
        ("2020-12-31", "2020-W53"),
    ],
)
def test_a_week_belongs_to_the_year_of_its_thursday(day: str, period: str) -> None:
    """The incident: the week of New Year's Eve had the key of a week twelve months before, which was sent, so nothing went out."""
    weekday = f"{date.fromisoformat(day):%a}".lower()

    assert [found for found, _, _ in of_dates(rule(Kind.WEEKLY, weekday=weekday), day, day)] == [period]


def test_moving_the_weekday_opens_no_second_slot_for_the_week() -> None:
    """The incident: Monday's report had gone out when the weekday was moved to Friday, and on Friday it went out again."""
    monday, friday = (registry(customer("acme-1", rule(Kind.WEEKLY, weekday=weekday))) for weekday in ("mon", "fri"))

    assert (
        due_keys(monday, local("2026-11-30 12:00")) == due_keys(friday, local("2026-12-04 12:00")) == ["acme-1:2026-W49:weekly"]
    )


def test_stores_that_named_slots_by_their_day_keep_doing_so() -> None:
    each = rule(Kind.WEEKLY, weekday="fri")

    assert of_dates(each, "2026-11-30", "2026-12-06", identity=SlotIdentity.DAY)[0][0] == "2026-12-04"
    assert of_dates(rule(Kind.MONTHLY, day=31), "2027-02-01", "2027-02-28", identity=SlotIdentity.DAY)[0][0] == "2027-02-28"


def test_a_new_customer_is_owed_nothing_of_the_past_beyond_the_catch_up() -> None:
    """The incident: a customer was added at noon with a daily at 09:00 and a weekly on Monday, and got five old messages."""
    added = registry(
        customer(
            "acme-1", rule(at="09:00"), rule(Kind.WEEKLY, weekday="mon"), rule(Kind.MONTHLY, day=1, catch_up=timedelta(days=2))
        )
    )

    assert due_keys(added, local("2026-12-02 12:00")) == ["acme-1:2026-12:monthly", "acme-1:2026-12-02:daily"]
    assert due_keys(added, local("2026-12-04 08:00")) == []


def test_a_customer_who_is_not_enabled_is_owed_and_says_so() -> None:
    """Somebody has to see what is not sent."""
    (one,) = due(registry(customer("acme-1", rule(), enabled=False)), local("2026-11-30 12:00"))

    assert not one.customer.enabled
    assert one.kind is Kind.DAILY
    assert one.is_due(local("2026-11-30 12:00"))
    assert not one.is_due(local("2026-12-01 00:00"))


def test_looking_back_goes_to_the_oldest_open_window_and_no_further() -> None:
    weekly = rule(Kind.WEEKLY, "10:00", UntilWindowEnd.UNTIL_WEEK_END, weekday="tue")
    read = registry(customer("acme-1", rule(), weekly), customer("zenith", rule(at="08:00")))
    now = local("2026-12-04 12:00")

    assert look_back(read, now) == local("2026-12-01 10:00")
    assert look_back(registry(customer("acme-1", reminder())), now) == now


def test_the_order_is_that_of_the_clock_then_of_the_key() -> None:
    read = registry(
        customer("zenith", rule(at="09:00")),
        customer("acme-1", rule(at="09:00")),
        customer("berlin", rule(at="01:30"), zone=BERLIN),
    )
    at = date(2026, 11, 30)
    (day,) = day_by_day(read, at, at)

    assert [row.key.partition(":")[0] for row in day.rows()] == ["acme-1", "zenith", "berlin"]
    assert day.count == 3
    since = local("2026-11-30 00:00")
    assert [one.slot.customer for one in owed(read, since=since, until=since + DAY) if one.local_date == at] == [
        "acme-1",
        "zenith",
        "berlin",
    ]


def test_a_day_without_a_slot_is_a_day_all_the_same() -> None:
    days = list(day_by_day(registry(customer("acme-1", rule(Kind.WEEKLY))), date(2026, 11, 30), date(2026, 12, 2)))

    assert [(day.date.day, day.count) for day in days] == [(30, 1), (1, 0), (2, 0)]


ZONES = st.sampled_from(
    [
        SEOUL,
        BERLIN,
        "Africa/Cairo",
        "America/St_Johns",
        "America/Nuuk",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Pacific/Kiritimati",
    ]
)
MOMENTS = st.sampled_from(
    [
        datetime(2011, 12, 29, tzinfo=UTC),
        datetime(2010, 11, 6, tzinfo=UTC),
        datetime(2024, 3, 29, tzinfo=UTC),
        datetime(2026, 12, 30, tzinfo=UTC),
    ]
).flatmap(lambda start: st.integers(-72 * 60, 72 * 60).map(lambda minutes: start + timedelta(minutes=minutes)))


@st.composite
def registries(draw: st.DrawFn) -> Registry:
    keys = ("acme-1", "zenith", "third")[: draw(st.integers(1, 3))]
    customers: list[Customer] = [customer(key, *draw(RULES), zone=draw(ZONES)) for key in keys]
    return registry(*customers, identity=draw(st.sampled_from(SlotIdentity)))


@settings(max_examples=40)
@given(registries(), MOMENTS, st.integers(0, 48))
def test_a_narrow_look_sees_exactly_what_a_wide_one_sees_there(read: Registry, since: datetime, hours: int) -> None:
    until = since + hours * HOUR
    wide = owed(read, since=since - 40 * DAY, until=until + 10 * DAY)
    narrow = owed(read, since=since, until=until)

    assert narrow == tuple(one for one in wide if one.due_at <= until and one.closes_at > since)
    assert len({one.slot.key for one in wide}) == len(wide)
    assert all(one.closes_at - one.due_at >= timedelta(minutes=1) for one in wide)
    assert list(wide) == sorted(wide, key=lambda one: (one.due_at, one.slot.key))


@given(registries(), MOMENTS, st.integers(1, 3 * 24 * 60))
def test_a_clock_set_back_owes_nothing_that_was_not_owed_before(read: Registry, now: datetime, minutes: int) -> None:
    """The incident: a server's clock was set back an hour after the nine o'clock messages, and they were due again under new keys."""
    back = now - timedelta(minutes=minutes)
    before = owed(read, since=back - DAY, until=now)

    assert set(due(read, back)) <= set(before)
    assert due(read, back) == due(read, back.astimezone(ZoneInfo(SEOUL)))


@given(registries(), MOMENTS)
def test_the_oldest_window_is_open_and_none_is_older(read: Registry, now: datetime) -> None:
    assert look_back(read, now) == min((one.due_at for one in due(read, now)), default=now)


@settings(max_examples=40)
@given(registries(), MOMENTS, st.sampled_from(["00:00", "12:00", "23:59"]))
def test_moving_a_time_changes_windows_and_no_names(read: Registry, now: datetime, at: str) -> None:
    moved = replace(
        read,
        customers={
            key: replace(one, rules=tuple(replace(each, at=rule(at=at).at, not_after=None) for each in one.rules))
            for key, one in read.customers.items()
        },
    )
    first, last = now.date(), (now + 40 * DAY).date()

    named, renamed = (
        [[row.key for row in sorted(day.rows(), key=lambda row: row.key)] for day in day_by_day(each, first, last)]
        for each in (read, moved)
    )
    assert named == renamed

"""The schedule by brute force: every minute of two years is shown on a wall clock, and the rules are read off it one by one.

Nothing of the product's arithmetic is used: only UTC minutes, what a clock in the zone shows at each (`datetime.astimezone`), `strftime`
for weeks and weekdays, and look-ups of "the first minute at which the clock showed this or later".
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from guards.delivery.registry import Overflow, Rule, UntilWindowEnd
from guards.delivery.slot import Kind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DATE = date(1970, 1, 1).toordinal()
DAY = 24 * 60
STRIDE = 60
"""Minutes between two looks at the clock: where it moved on by as many, it is taken to have shown each; else every minute is looked at."""
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def minute(at: datetime) -> int:
    return (at - EPOCH) // timedelta(minutes=1)


def shown(zone: ZoneInfo, number: int) -> int:
    """What a clock in the zone shows at a UTC minute, as minutes since 1970 began on that clock."""
    wall = datetime.fromtimestamp(number * 60, zone)
    return (wall.toordinal() - FIRST_DATE) * DAY + wall.hour * 60 + wall.minute


@cache
def formatted(day: date, form: str) -> str:
    return day.strftime(form)


@dataclass(frozen=True)
class SlowCalendar:
    """`wall[n]` is what the clock shows at minute `start + n`; `first[m]` the minute at which it first showed `begin + m` or later."""

    start: int
    wall: array
    begin: int
    first: array
    dates: frozenset[date]
    """Those that the clock showed."""
    set_at: tuple[int, ...]
    """Minutes at which the clock was set."""

    def came(self, wall_minute: int) -> int:
        return self.first[wall_minute - self.begin]


def walk(zone_name: str, since: date, until: date) -> SlowCalendar:
    """From two days before `since` to two months after `until`: windows of a month must end inside."""
    zone = ZoneInfo(zone_name)
    start = minute(datetime(since.year, since.month, since.day, tzinfo=UTC)) - 2 * DAY
    end = minute(datetime(until.year, until.month, until.day, tzinfo=UTC)) + 62 * DAY
    wall, first, set_at = array("q"), array("q"), []
    begin = following = reads = shown(zone, start)
    before = begin - 1
    for hour in range(start, end, STRIDE):
        after = shown(zone, hour + STRIDE)
        if after - reads == STRIDE and reads == following == before + 1:
            wall.extend(range(reads, after))
            first.extend(range(hour, hour + STRIDE))
            before, following = after - 1, after
        else:
            for number in range(hour, hour + STRIDE):
                wall.append(shown(zone, number))
                if wall[-1] != before + 1:
                    set_at.append(number)
                before = wall[-1]
                while following <= before:
                    first.append(number)
                    following += 1
        reads = after
    dates = frozenset(date.fromordinal(FIRST_DATE + days) for days in {reads // DAY for reads in wall[::15]})
    return SlowCalendar(start, wall, begin, first, dates, tuple(set_at))


def named_dates(rule: Rule, calendar: SlowCalendar, since: date, until: date) -> Iterator[date]:
    """By looking at every date of the range, which ends with a month."""
    every = [since + timedelta(days=days) for days in range((until - since).days + 1)]
    if rule.kind is Kind.WEEKLY:
        yield from (day for day in every if formatted(day, "%a").lower() == WEEKDAYS[rule.weekday])
    elif rule.kind is Kind.MONTHLY:
        fitting = {formatted(day, "%Y-%m"): day for day in every if day.day <= rule.day}
        yield from (day for day in fitting.values() if day.day == rule.day or rule.overflow is Overflow.CLAMP)
    else:
        yield from (day for day in every if day in calendar.dates)


def windows(rule: Rule, calendar: SlowCalendar, since: date, until: date, *, by_day: bool = False) -> dict[str, tuple[int, int]]:
    """Period to (due, closes) in UTC minutes, of the dates from `since` to `until`."""
    found = {}
    for day in named_dates(rule, calendar, since, until):
        midnight = (day.toordinal() - FIRST_DATE) * DAY
        due = calendar.came(midnight + rule.at.hour * 60 + rule.at.minute)
        form = {Kind.WEEKLY: "%G-W%V", Kind.MONTHLY: "%Y-%m"}.get(rule.kind, "%Y-%m-%d")
        period = formatted(day, "%Y-%m-%d" if by_day else form)
        found[period] = (due, max(_closes(rule, calendar, day, midnight, due), due + 1))
    return found


def _closes(rule: Rule, calendar: SlowCalendar, day: date, midnight: int, due: int) -> int:
    if rule.not_after is not None:
        return calendar.came(midnight + rule.not_after.hour * 60 + rule.not_after.minute)
    if isinstance(rule.catch_up, timedelta):
        return due + int(rule.catch_up.total_seconds()) // 60
    following = day + timedelta(days=1)
    if rule.catch_up is UntilWindowEnd.NONE:
        return due
    if rule.catch_up is UntilWindowEnd.UNTIL_WEEK_END:
        while formatted(following, "%a") != "Mon":
            following += timedelta(days=1)
    if rule.catch_up is UntilWindowEnd.UNTIL_MONTH_END:
        while following.day != 1:
            following += timedelta(days=1)
    return calendar.came((following.toordinal() - FIRST_DATE) * DAY)


def literally_due(calendar: SlowCalendar, day: date, at_minute: int) -> list[int]:
    """The minutes at which the clock shows `day` and a time at or after `at_minute`, each shown for the first time."""
    opens = (day.toordinal() - FIRST_DATE) * DAY + at_minute
    closes = (day.toordinal() - FIRST_DATE + 1) * DAY
    near = range(calendar.came(opens) - DAY, calendar.came(closes) + DAY)
    return [
        number
        for number in near
        for reads in (calendar.wall[number - calendar.start],)
        if opens <= reads < closes and calendar.came(reads) == number
    ]


def days_around(calendar: SlowCalendar) -> set[date]:
    """The dates on which the clock was set, and those next to them."""
    return {(EPOCH + timedelta(minutes=number, days=days)).date() for number in calendar.set_at for days in (-2, -1, 0, 1, 2)}

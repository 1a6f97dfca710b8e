"""The schedule as an iCalendar file (RFC 5545): one event per slot, for any calendar program, before anything is configured to send.

Events are points in time, in UTC, so that no time zone definitions have to travel with them, and they block nobody's day. The slot's key
is the UID: importing a later preview updates events instead of doubling them.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from guards.delivery.periods import Occasion
from guards.delivery.registry import Customer, Rule
from guards.delivery.schedule import Day
from guards.text import one_line

MOST_OCTETS: Final = 75
"""Of a line, without its end."""
_END: Final = "\r\n"
_HEAD: Final = ("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//OpsGuard//Schedule preview//EN", "CALSCALE:GREGORIAN")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def calendar_text(days: Iterable[Day], *, stamp: datetime) -> Iterator[str]:
    """The file in pieces, a day each; encode as UTF-8. `stamp` (aware) is when it was made. Within a day events go by their time.

    The standard allows no calendar without an event: whoever writes one looks at `Day.count` first.
    """
    yield _END.join(_HEAD) + _END
    stamped = _utc(stamp.astimezone(UTC))
    told: dict[tuple[str, int], str] = {}
    for day in days:
        events: list[str] = []
        for when, rule, customers in sorted(day.groups, key=lambda group: group[0].due_at):
            ending = f":{when.period}:{rule.kind.value}"
            timed = _timed(when, ZoneInfo(customers[0].zone), stamped)
            for customer in customers:
                named = (customer.key, id(rule))
                words = told.get(named) or told.setdefault(named, _words(customer, rule))
                uid = f"UID:{customer.key}{ending}"
                events.append(f"BEGIN:VEVENT\r\n{uid if len(uid) <= MOST_OCTETS else fold(uid)}\r\n{words}{timed}")
        yield "".join(events)
    yield f"END:VCALENDAR{_END}"


def fold(line: str) -> str:
    """The line in parts of 75 octets at most; the further ones begin with a blank. No character is cut."""
    data = line.encode("utf-8")
    parts, start, room = [], 0, MOST_OCTETS
    while len(data) - start > room:
        end = start + room
        while data[end] & 0xC0 == 0x80:
            end -= 1
        parts.append(data[start:end])
        start, room = end, MOST_OCTETS - 1
    parts.append(data[start:])
    return "\r\n ".join(part.decode("utf-8") for part in parts)


def escape(text: str) -> str:
    """A TEXT value; what could act on a screen is shown as an escape first."""
    return one_line(text, limit=None).translate(_ESCAPES)


def _words(customer: Customer, rule: Rule) -> str:
    """What is the same for every event of one customer's rule. Ends within DESCRIPTION, at the beginning of a continued line."""
    summary = f"{customer.display_name}: {rule.kind.value}" + ("" if customer.enabled else " (not enabled)")
    body = f"template {rule.template}" if rule.template else "dropped into the outbox"
    told = f"To {customer.route.provider.value} {customer.route.address}. Body: {body}. "
    return f"{fold(f'SUMMARY:{escape(summary)}')}\r\n{fold(f'DESCRIPTION:{escape(told)}')}\r\n "


def _timed(when: Occasion, zone: ZoneInfo, stamped: str) -> str:
    """The rest of DESCRIPTION (70 octets at most) and of the event."""
    return (
        f"May be sent until {_local(when.closes_at, zone)} {zone.key}.\r\n"
        f"DTSTAMP:{stamped}\r\nDTSTART:{_utc(when.due_at)}\r\nTRANSP:TRANSPARENT\r\nEND:VEVENT\r\n"
    )


@lru_cache(maxsize=4096)
def _local(at: datetime, zone: ZoneInfo) -> str:
    """Midnight is the end of many."""
    return at.astimezone(zone).replace(tzinfo=None).isoformat(" ", "minutes")


def _utc(at: datetime) -> str:
    """ "20261130T030000Z"; a third of strftime's time, which a million events notice."""
    return at.isoformat()[:19].replace("-", "").replace(":", "") + "Z"

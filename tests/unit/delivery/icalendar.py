"""A strict reader of iCalendar files, from RFC 5545 and from nothing of ours: it refuses what a calendar program may refuse."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

CONTENT_LINE = re.compile(r"(?P<name>[A-Z][A-Z0-9-]*)(?P<parameters>(;[A-Z0-9-]+=[^;:,\"]+)*):(?P<value>.*)", re.DOTALL)
TEXT = re.compile(r"(?:[^\\;,\x00-\x08\x0a-\x1f\x7f]|\\[\\;,nN])*")
UNESCAPED = {"\\\\": "\\", "\\;": ";", "\\,": ",", "\\n": "\n", "\\N": "\n"}
TEXTS = {"SUMMARY", "DESCRIPTION", "UID"}
CALENDAR = {"VERSION": (1, 1), "PRODID": (1, 1), "CALSCALE": (0, 1)}
"""Property to how often it may stand: at least and at most."""
EVENT = {"UID": (1, 1), "DTSTAMP": (1, 1), "DTSTART": (1, 1), "SUMMARY": (0, 1), "DESCRIPTION": (0, 1), "TRANSP": (0, 1)}


@dataclass(frozen=True)
class Event:
    uid: str
    summary: str
    description: str
    stamp: datetime
    start: datetime


def read(data: bytes) -> list[Event]:
    """Asserts the grammar; returns the events."""
    lines = unfolded(data)
    assert lines[0] == ("BEGIN", "VCALENDAR")
    assert lines[-1] == ("END", "VCALENDAR")
    events: list[Event] = []
    header: list[tuple[str, str]] = []
    inside: list[tuple[str, str]] | None = None
    for name, value in lines[1:-1]:
        if (name, value) == ("BEGIN", "VEVENT"):
            assert inside is None, "an event inside an event"
            inside = []
        elif (name, value) == ("END", "VEVENT"):
            assert inside is not None, "the end of no event"
            events.append(event(inside))
            inside = None
        elif inside is None:
            assert not events, "a property of the calendar after a component"
            header.append((name, value))
        else:
            inside.append((name, value))
    assert inside is None, "an event that does not end"
    assert events, "a calendar has one component at least"
    assert counted(header, CALENDAR)["VERSION"] == "2.0"
    assert len({one.uid for one in events}) == len(events), "a UID is globally unique"
    return events


def unfolded(data: bytes) -> list[tuple[str, str]]:
    assert data.endswith(b"\r\n")
    raw = data[:-2].split(b"\r\n")
    logical: list[bytes] = []
    for line in raw:
        assert b"\r" not in line, "a line end of another kind"
        assert b"\n" not in line, "a line end of another kind"
        assert 0 < len(line) <= 75, f"{len(line)} octets"
        line.decode("utf-8")  # no character is cut
        if line[:1] in (b" ", b"\t"):
            logical[-1] += line[1:]
        else:
            logical.append(line)
    found = []
    for line in logical:
        matched = CONTENT_LINE.fullmatch(line.decode("utf-8"))
        assert matched, line
        found.append((matched["name"], matched["value"]))
    return found


def counted(properties: list[tuple[str, str]], allowed: dict[str, tuple[int, int]]) -> dict[str, str]:
    names = [name for name, _ in properties]
    assert set(names) <= set(allowed), set(names) - set(allowed)
    for name, (least, most) in allowed.items():
        assert least <= names.count(name) <= most, f"{name}: {names.count(name)}"
    return dict(properties)


def event(properties: list[tuple[str, str]]) -> Event:
    found = counted(properties, EVENT)
    assert found.get("TRANSP", "OPAQUE") in ("OPAQUE", "TRANSPARENT")
    texts = {name: unescaped(found.get(name, "")) for name in TEXTS}
    return Event(texts["UID"], texts["SUMMARY"], texts["DESCRIPTION"], instant(found["DTSTAMP"]), instant(found["DTSTART"]))


def unescaped(value: str) -> str:
    assert TEXT.fullmatch(value), value
    return re.sub(r"\\.", lambda found: UNESCAPED[found[0]], value)


def instant(value: str) -> datetime:
    assert re.fullmatch(r"[0-9]{8}T[0-9]{6}Z", value), value
    return datetime.strptime(value, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)

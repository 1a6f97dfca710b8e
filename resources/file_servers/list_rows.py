"""Rows of LIST: what Unix and Windows servers print for people, read strictly.

Unix: `-rw-r--r-- 1 owner group 12 Jan 31 09:15 name` (or a year for the hour, or `2026-01-31 09:15`). Windows (IIS):
`01-31-26  09:15AM       12 name`. Times are in the server's zone, minutes at best, and a year may have to be inferred.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from guards.spool.listing import Entry, EntryType, TimeSource
from resources.file_servers.mlsd import Passed, Unparsable, count
from resources.file_servers.names import decoded

_MONTHS: Final = {name: index for index, name in enumerate(b"jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)}
_UNIX: Final = re.compile(
    rb"(?P<kind>[-bcdlpsD])[-rwxsStTlL]{9}[+.@]?"
    rb"(?: +[^ ]+){0,10}?"  # links, owner, group, a device's first number: any may be missing, an owner may hold blanks
    rb" +(?P<size>\d+) +"
    rb"(?:(?P<month>[A-Za-z]{3}) +(?P<day>\d{1,2}) +(?:(?P<year>\d{4})|(?P<hour>\d{1,2}):(?P<minute>\d\d))"
    rb"|(?P<iso>\d{4}-\d\d-\d\d +\d\d:\d\d(?::\d\d)?))"
    rb" (?P<name>.+)",
    re.DOTALL,
)
_DOS: Final = re.compile(
    rb"(?P<month>\d\d)-(?P<day>\d\d)-(?P<year>\d{4}|\d\d) +(?P<hour>\d\d):(?P<minute>\d\d) ?(?P<half>[AaPp][Mm])?"
    rb" +(?:<DIR> {1,10}(?P<directory>[^ ].*)|(?P<size>\d+) (?P<name>.+))",
    re.DOTALL,
)
_TOTAL: Final = re.compile(rb"total \d+")
_TYPES: Final = {b"-": EntryType.FILE, b"d": EntryType.DIRECTORY, b"l": EntryType.LINK}
_AHEAD: Final = timedelta(days=1)
"""A server's clock and zone may be ahead of ours by this much before a time without a year belongs to last year."""
_LONGEST_ROW_BYTES: Final = 4096
"""A name has 255 bytes, a link's target 4,095 at most in all; more is no row, and patterns are not run over it."""


def parse_row(row: bytes, *, zone: ZoneInfo, now: datetime) -> Entry | Passed | Unparsable:
    """One row without its line end. `now` (aware) only infers missing years. Total: any bytes give a value."""
    if _TOTAL.fullmatch(row):
        return Passed()
    if len(row) > _LONGEST_ROW_BYTES:
        return Unparsable(row)
    if found := _UNIX.fullmatch(row):
        return _unix(row, found, zone=zone, now=now)
    if found := _DOS.fullmatch(row):
        return _dos(found, zone=zone)
    return Unparsable(row)


def is_dos(row: bytes) -> bool:
    """A Windows server wrote this: there a leading dot hides nothing."""
    return len(row) <= _LONGEST_ROW_BYTES and _DOS.fullmatch(row) is not None


def _unix(row: bytes, found: re.Match[bytes], *, zone: ZoneInfo, now: datetime) -> Entry | Passed | Unparsable:
    name = found["name"]
    kind = _TYPES.get(found["kind"], EntryType.OTHER)
    if kind is EntryType.LINK:
        name, arrow, target = name.partition(b" -> ")
        if not arrow or not name or b" -> " in target:
            return Unparsable(row)  # which arrow is ours cannot be known
    if name in (b".", b".."):
        return Passed()
    if found["iso"]:
        modified_at = _iso(found["iso"].decode("ascii"), zone=zone)
    else:
        month = _MONTHS.get(found["month"].lower())
        if month is None:
            return Unparsable(row)  # month and day changed places, or another language: no time of such a server can be trusted
        hour, minute = int(found["hour"] or 0), int(found["minute"] or 0)
        if found["year"]:
            modified_at = _local(int(found["year"]), month, int(found["day"]), 0, 0, zone=zone)
        else:
            modified_at = _latest(month, int(found["day"]), hour, minute, zone=zone, now=now)
    size = count(found["size"].decode("ascii")) if kind is EntryType.FILE else None
    return _entry(name, kind, size, modified_at)


def _dos(found: re.Match[bytes], *, zone: ZoneInfo) -> Entry | Passed:
    name = found["directory"] or found["name"]
    if name in (b".", b".."):
        return Passed()
    year = int(found["year"])
    if year < 100:
        year += 2000 if year < 70 else 1900
    hour = int(found["hour"])
    half = (found["half"] or b"").lower()
    if half:
        hour = hour % 12 + (12 if half == b"pm" else 0) if 1 <= hour <= 12 else -1
    modified_at = _local(year, int(found["month"]), int(found["day"]), hour, int(found["minute"]), zone=zone)
    if found["directory"]:
        return _entry(name, EntryType.DIRECTORY, None, modified_at)
    return _entry(name, EntryType.FILE, count(found["size"].decode("ascii")), modified_at)


def _entry(name: bytes, kind: EntryType, size: int | None, modified_at: datetime | None) -> Entry:
    source = TimeSource.LIST if modified_at else TimeSource.NONE
    return Entry(name=decoded(name), type=kind, size_bytes=size, modified_at=modified_at, time_source=source)


def _latest(month: int, day: int, hour: int, minute: int, *, zone: ZoneInfo, now: datetime) -> datetime | None:
    """The newest such time that is not in the future: rows without a year are from the last months. 29 February goes back to a leap year."""
    for year in range(now.year + 1, now.year - 9, -1):
        seen = _local(year, month, day, hour, minute, zone=zone)
        if seen is not None and seen <= now + _AHEAD:
            return seen
    return None


def _iso(text: str, *, zone: ZoneInfo) -> datetime | None:
    try:
        naive = datetime.fromisoformat(" ".join(text.split()))
    except ValueError:
        return None
    return _local(naive.year, naive.month, naive.day, naive.hour, naive.minute, zone=zone, second=naive.second)


def _local(year: int, month: int, day: int, hour: int, minute: int, *, zone: ZoneInfo, second: int = 0) -> datetime | None:
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None

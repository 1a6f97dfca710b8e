"""Check-ins: evidence that what a reminder would ask for has arrived. What cannot be read is never "no check-in"."""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from guards.delivery.slot import is_customer_key
from guards.text import one_line

MOST_EVIDENCE_BYTES: Final = 64 * 1024 * 1024
MOST_EVIDENCE_ROWS: Final = 500_000
_LONGEST_SOURCE: Final = 200
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9000
"""A time at the calendar's edge has no date in every zone."""


@dataclass(frozen=True, slots=True)
class CheckIn:
    """`at` is aware. `source` says who recorded it, for people."""

    customer: str
    at: datetime
    source: str


@dataclass(frozen=True, slots=True)
class EvidenceUnreadable:
    """`why` is one sentence without its full stop. While it stands no reminder is sent."""

    why: str


@dataclass(frozen=True, slots=True)
class CheckIns:
    """Read completely. By customer key, in the order of the source."""

    rows: Mapping[str, tuple[CheckIn, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[CheckIn]) -> "CheckIns":
        found: dict[str, list[CheckIn]] = {}
        for row in rows:
            found.setdefault(row.customer, []).append(row)
        return cls({customer: tuple(held) for customer, held in found.items()})

    def on(self, customer: str, local_date: date, zone: str) -> CheckIn | None:
        """The first one of that date in the customer's zone, whatever its hour: a reminder is for a date."""
        there = ZoneInfo(zone)
        return next((row for row in self.rows.get(customer, ()) if row.at.astimezone(there).date() == local_date), None)

    def strangers(self, known: Container[str]) -> tuple[str, ...]:
        """Keys that are none of `known`, sorted: check-ins that stop nobody's reminder, and may have been meant to."""
        return tuple(sorted(customer for customer in self.rows if customer not in known))


def parse_check_ins(data: bytes, *, since: datetime) -> CheckIns | EvidenceUnreadable:
    """JSON lines. Every row is checked; only those from `since` on are kept. One bad row makes all unreadable: it may be the one."""
    if len(data) > MOST_EVIDENCE_BYTES:
        return EvidenceUnreadable(f"the check-ins have more than {MOST_EVIDENCE_BYTES:,} bytes: move old ones away")
    rows = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        row = _row(line)
        if isinstance(row, str):
            return EvidenceUnreadable(f"line {number} of the check-ins {row}: correct it, or have it written again")
        if row.at >= since:
            rows.append(row)
    return CheckIns.of(rows)


def check_in_of(customer: object, at: object, source: object) -> CheckIn | str:
    """One row of a table; or what is wrong with it, as the end of a sentence."""
    if not isinstance(customer, str) or not customer:
        return "names no customer"
    if not is_customer_key(customer):
        return f"names {one_line(ascii(customer), limit=80)}, which no customer's key can be"
    if not isinstance(at, datetime) or at.utcoffset() is None or not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        return f"of {one_line(customer, limit=64)} has no usable time with a zone"
    if not isinstance(source, str):
        return f"of {one_line(customer, limit=64)} has no source"
    return CheckIn(customer, at, source[:_LONGEST_SOURCE])


def _row(line: bytes) -> CheckIn | str:
    try:
        found = json.loads(line.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "is not one JSON object"
    if not isinstance(found, dict):
        return "is not one JSON object"
    at = found.get("at")
    try:
        moment = datetime.fromisoformat(at) if isinstance(at, str) else None
    except ValueError:
        moment = None
    return check_in_of(found.get("customer"), moment, found.get("source"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(constant)

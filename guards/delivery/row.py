"""Rows: an entry with its place in the chain. Sequence, digest of the row before, own digest over canonical JSON.

A row's bytes are the same in every store, so that an export and an import give the same head digest.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, Final, NoReturn

from guards.canonical import Json, canonical_json, plain_json
from guards.delivery.entry import Entry, Event
from guards.delivery.nesting import MOST_NESTED, is_too_deep
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Slot

GENESIS: Final = "0" * 64
"""What the first row names as the row before it."""
MOST_ROW_BYTES: Final = 64 * 1024
VERSION: Final = 1


class NotARow(ValueError):
    """Bytes that this program did not write as a row."""


@dataclass(frozen=True, slots=True)
class Head:
    """Sequence and digest of the last row; sequence 0 and `GENESIS` for an empty ledger."""

    sequence: int = 0
    digest: str = GENESIS


@dataclass(frozen=True)
class Row:
    """`at` is the store's clock, aware UTC, in microseconds."""

    sequence: int
    previous: str
    at: datetime
    entry: Entry

    def as_json(self) -> dict[str, Json]:
        entry = self.entry
        return {
            "version": VERSION,
            "sequence": self.sequence,
            "previous": self.previous,
            "at": self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            "event": entry.event.value,
            "customer": entry.slot.customer,
            "period": entry.slot.period,
            "kind": entry.slot.kind,
            "reservation": entry.reservation_id,
            "attempt": entry.attempt,
            "state": entry.state.value,
            "fence": entry.fence,
            "holder": entry.holder,
            "pins_digest": entry.pins_digest,
            "pins": entry.pins.as_json() if entry.pins is not None else None,
            "key": entry.key,
            "reason": entry.reason.value if entry.reason is not None else "",
            "note": entry.note,
            "receipt": dict(entry.receipt),
            "evidence": dict(entry.evidence),
            "approval": dict(entry.approval),
        }

    @cached_property
    def bytes(self) -> bytes:
        return canonical_json(self.as_json())

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.bytes).hexdigest()

    @property
    def head(self) -> Head:
        return Head(self.sequence, self.digest)


def append(head: Head, entries: tuple[Entry, ...], *, at: datetime) -> tuple[Row, ...]:
    """The next rows, each chained to the one before. `NotARow` when one would be too large: nothing may be written then."""
    rows: list[Row] = []
    for entry in entries:
        row = Row(sequence=head.sequence + 1, previous=head.digest, at=at, entry=entry)
        spelt = canonical_json(row.as_json())
        if len(spelt) > MOST_ROW_BYTES:
            raise NotARow(f"a row takes {MOST_ROW_BYTES} bytes at most, this has {len(spelt)}")
        row.__dict__.update(bytes=spelt, digest=hashlib.sha256(spelt).hexdigest())
        rows.append(row)
        head = row.head
    return tuple(rows)


def parse_row(stored: bytes) -> Row:
    """The inverse of `Row.bytes`, byte for byte; `NotARow` for anything else.

    Each row is spelt once here, from what was parsed, and compared: spelling the `Row` made of it as well halved the speed.
    """
    if len(stored) > MOST_ROW_BYTES:
        raise NotARow(f"not a row: it takes {len(stored)} bytes")
    try:
        fields = _decode(stored.decode("ascii"))
        if plain_json(fields) != stored:
            raise NotARow("not a row: its bytes are not the canonical ones")
        if stored.count(b"{") + stored.count(b"[") > MOST_NESTED:  # of 1 KB rows this is never so: a microsecond
            _refuse_depth(fields)
        row = _row(fields)
    except NotARow:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotARow(f"not a row: {type(error).__name__}") from error
    row.__dict__.update(bytes=stored, digest=hashlib.sha256(stored).hexdigest())
    return row


def _refuse(number: str) -> NoReturn:
    raise NotARow("not a row: it holds a number that is not whole")


def _refuse_depth(fields: Mapping[str, Any]) -> None:
    """What was said late stands one level further down than what it says."""
    late = fields["event"] == Event.LATE_EVIDENCE.value
    for name, levels in (("receipt", 0), ("evidence", int(late)), ("approval", 0)):
        if is_too_deep(fields[name], MOST_NESTED + levels):
            raise NotARow(f"not a row: its {name} is nested more than {MOST_NESTED} deep")


_decode: Final = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse).decode
_KEYS: Final = frozenset(
    {
        "version",
        "sequence",
        "previous",
        "at",
        "event",
        "customer",
        "period",
        "kind",
        "reservation",
        "attempt",
        "state",
        "fence",
        "holder",
        "pins_digest",
        "pins",
        "key",
        "reason",
        "note",
        "receipt",
        "evidence",
        "approval",
    }
)
_EVENTS: Final = {event.value: event for event in Event}
_STATES: Final = {state.value: state for state in ReservationState}
_REASONS: Final[Mapping[str, Reason | None]] = {"": None, **{reason.value: reason for reason in Reason}}


def _row(fields: Mapping[str, Any]) -> Row:
    if fields.keys() != _KEYS:
        raise NotARow("not a row: other fields than this program writes")
    version, sequence, attempt, fence, previous, holder, key, note, pins_digest, receipt, evidence, approval = _values(fields)
    if not (
        type(version) is type(sequence) is type(attempt) is type(fence) is int
        and type(previous) is type(holder) is type(key) is type(note) is type(pins_digest) is str
        and type(receipt) is type(evidence) is type(approval) is dict
        and version == VERSION
    ):
        raise NotARow("not a row: a field is of another type, or the version another")
    slot, reservation_id = _place(fields["customer"], fields["period"], fields["kind"], attempt)
    if fields["reservation"] != reservation_id:
        raise NotARow("not a row: the reservation is not that of its slot and attempt")
    at = datetime.fromisoformat(fields["at"])
    if at.utcoffset() != _NO_OFFSET or at.isoformat(timespec="microseconds") != fields["at"]:
        raise NotARow("not a row: its time is not UTC in microseconds")
    entry = Entry(
        event=_EVENTS[fields["event"]],
        slot=slot,
        attempt=attempt,
        state=_STATES[fields["state"]],
        fence=fence,
        holder=holder,
        pins_digest=pins_digest,
        pins=_pins(fields["pins"]),
        key=key,
        reason=_REASONS[fields["reason"]],
        note=note,
        receipt=receipt,
        evidence=evidence,
        approval=approval,
    )
    return Row(sequence=sequence, previous=previous, at=at, entry=entry)


_values: Final = itemgetter(
    "version",
    "sequence",
    "attempt",
    "fence",
    "previous",
    "holder",
    "key",
    "note",
    "pins_digest",
    "receipt",
    "evidence",
    "approval",
)


@lru_cache(maxsize=4096)
def _place(customer: str, period: str, kind: str, attempt: int) -> tuple[Slot, str]:
    """The rows of one attempt mostly stand close together."""
    slot = Slot(customer, period, kind)
    return slot, slot.reservation_id(attempt)


def _pins(stored: Mapping[str, Any] | None) -> Pins | None:
    if stored is None:
        return None
    if stored.keys() != _PINS_KEYS or not type(stored["facts"]) is type(stored["authority"]) is dict:
        raise NotARow("not a row: its pins are not of the form this program writes")
    return Pins(facts=stored["facts"], authority=stored["authority"])


_PINS_KEYS: Final = frozenset({"facts", "authority"})
_NO_OFFSET: Final = timedelta(0)

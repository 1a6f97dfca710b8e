"""Rows: an entry with its place in the chain. Sequence, digest of the row before, own digest over canonical JSON.

A row's bytes are the same in every store, so that an export and an import give the same head digest.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
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
    """The inverse of `Row.bytes`, byte for byte; `NotARow` for anything else."""
    if len(stored) > MOST_ROW_BYTES:
        raise NotARow(f"not a row: it takes {len(stored)} bytes")
    try:
        text = stored.decode("ascii")
        row = _row(*(_by_form(text) or _by_decoding(text)))
    except NotARow:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotARow(f"not a row: {type(error).__name__}") from error
    row.__dict__.update(bytes=stored, digest=hashlib.sha256(stored).hexdigest())
    return row


def _by_form(text: str) -> tuple[Any, ...] | None:
    """The values of a row of the usual form, in the order of its keys; None for any other, which may still be a row.

    What this pattern matches is canonical but for its objects, and those are spelt again one by one: in half the time of decoding and
    spelling the whole. Strings with escapes, and deeper objects, are left to `_by_decoding`.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    (approval, at, attempt, customer, event, evidence, fence, holder, key, kind, note, period, pins, authority, facts, pins_digest, previous,
     reason, receipt, reservation, sequence, state, version) = found.groups()  # fmt: skip
    try:
        if authority is None:
            made = None
        else:
            made = Pins(facts=_decode(facts), authority=_decode(authority))
            if made.digest != hashlib.sha256(pins.encode("ascii")).hexdigest():  # its digest is over the canonical spelling
                return None
        return (
            _exactly(approval), at, int(attempt), customer, event, _exactly(evidence), int(fence), holder, key, kind, note, period, made,
            pins_digest, previous, reason, _exactly(receipt), reservation, int(sequence), state, int(version),
        )  # fmt: skip
    except ValueError:
        return None


def _exactly(text: str) -> dict[str, Any]:
    """`ValueError` for an object that is not spelt canonically."""
    if text == "{}":
        return {}
    held: dict[str, Any] = _decode(text)
    if plain_json(held) != text.encode("ascii"):
        raise NotARow("not a row: its bytes are not the canonical ones")
    return held


def _by_decoding(text: str) -> tuple[Any, ...]:
    """Each row is spelt once here, from what was decoded, and compared: spelling the `Row` made of it as well halved the speed."""
    fields = _decode(text)
    if plain_json(fields) != text.encode("ascii"):
        raise NotARow("not a row: its bytes are not the canonical ones")
    if tuple(fields) != _KEYS:
        raise NotARow("not a row: other fields than this program writes")
    if text.count("{") + text.count("[") > MOST_NESTED:  # of 1 KB rows this is never so: a microsecond
        _refuse_depth(fields)
    if not all(type(fields[name]) is kind for name, kind in _TYPES.items()):
        raise NotARow("not a row: a field is of another type")
    return tuple((fields | {"pins": _pins(fields["pins"])}).values())


def _refuse(number: str) -> NoReturn:
    raise NotARow("not a row: it holds a number that is not whole")


def _refuse_depth(fields: Mapping[str, Any]) -> None:
    """What was said late stands one level further down than what it says."""
    late = fields["event"] == Event.LATE_EVIDENCE.value
    for name, levels in (("receipt", 0), ("evidence", int(late)), ("approval", 0)):
        if is_too_deep(fields[name], MOST_NESTED + levels):
            raise NotARow(f"not a row: its {name} is nested more than {MOST_NESTED} deep")


_decode: Final = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse).decode
_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("attempt", "fence", "sequence", "version"), int),
    **dict.fromkeys(("approval", "evidence", "receipt"), dict),
    **dict.fromkeys(
        (
            "at",
            "customer",
            "event",
            "holder",
            "key",
            "kind",
            "note",
            "period",
            "pins_digest",
            "previous",
            "reason",
            "reservation",
            "state",
        ),
        str,
    ),
}
_KEYS: Final = tuple(sorted({*_TYPES, "pins"}))
"""As canonical JSON has them."""
_OBJECT: Final = r"(\{[^][{}]*(?:\{[^][{}]*\}[^][{}]*)*\})"
"""Two deep at most, and no arrays."""
_PATTERNS: Final = {int: "(0|[1-9][0-9]*)", str: r'"([ !#-\[\]-~]*)"', dict: _OBJECT}
_PINS: Final = rf'(null|\{{"authority":{_OBJECT},"facts":{_OBJECT}\}})'
_FORM: Final = re.compile(
    r"\{" + ",".join(f'"{name}":{_PINS if name == "pins" else _PATTERNS[_TYPES[name]]}' for name in _KEYS) + r"\}"
)
_EVENTS: Final = {event.value: event for event in Event}
_STATES: Final = {state.value: state for state in ReservationState}
_REASONS: Final[Mapping[str, Reason | None]] = {"": None, **{reason.value: reason for reason in Reason}}


def _row(
    approval: dict[str, Any],
    at: str,
    attempt: int,
    customer: str,
    event: str,
    evidence: dict[str, Any],
    fence: int,
    holder: str,
    key: str,
    kind: str,
    note: str,
    period: str,
    pins: Pins | None,
    pins_digest: str,
    previous: str,
    reason: str,
    receipt: dict[str, Any],
    reservation: str,
    sequence: int,
    state: str,
    version: int,
) -> Row:
    """The values in the order of their keys, each of its type."""
    if version != VERSION:
        raise NotARow(f"not a row: version {version}")
    slot, reservation_id = _place(customer, period, kind, attempt)
    if reservation != reservation_id:
        raise NotARow("not a row: the reservation is not that of its slot and attempt")
    moment = datetime.fromisoformat(at)
    if moment.utcoffset() != _NO_OFFSET or moment.isoformat(timespec="microseconds") != at:
        raise NotARow("not a row: its time is not UTC in microseconds")
    entry = Entry(
        event=_EVENTS[event],
        slot=slot,
        attempt=attempt,
        state=_STATES[state],
        fence=fence,
        holder=holder,
        pins_digest=pins_digest,
        pins=pins,
        key=key,
        reason=_REASONS[reason],
        note=note,
        receipt=receipt,
        evidence=evidence,
        approval=approval,
    )
    return Row(sequence=sequence, previous=previous, at=moment, entry=entry)


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

"""Rows: an entry with its place in the chain. Sequence, digest of the row before, own digest over canonical JSON.

A row's bytes are the same in every store, so that an export and an import give the same head digest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from guards.canonical import Json, canonical_json, digest
from guards.delivery.entry import Entry, Event
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
        return digest(self.as_json())

    @property
    def head(self) -> Head:
        return Head(self.sequence, self.digest)


def append(head: Head, entries: tuple[Entry, ...], *, at: datetime) -> tuple[Row, ...]:
    """The next rows, each chained to the one before. `NotARow` when one would be too large: nothing may be written then."""
    rows: list[Row] = []
    for entry in entries:
        row = Row(sequence=head.sequence + 1, previous=head.digest, at=at, entry=entry)
        if len(row.bytes) > MOST_ROW_BYTES:
            raise NotARow(f"a row takes {MOST_ROW_BYTES} bytes at most, this has {len(row.bytes)}")
        rows.append(row)
        head = row.head
    return tuple(rows)


def parse_row(stored: bytes) -> Row:
    """The inverse of `Row.bytes`, byte for byte; `NotARow` for anything else."""
    try:
        fields = json.loads(stored)
        row = Row(
            sequence=fields["sequence"],
            previous=fields["previous"],
            at=datetime.fromisoformat(fields["at"]),
            entry=_entry(fields),
        )
        whole = row.bytes == stored
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotARow(f"not a row: {type(error).__name__}") from error
    if not whole:
        raise NotARow("not a row: its bytes are not the canonical ones")
    return row


def _entry(fields: Mapping[str, Any]) -> Entry:
    pins = fields["pins"]
    return Entry(
        event=Event(fields["event"]),
        slot=Slot(fields["customer"], fields["period"], fields["kind"]),
        attempt=fields["attempt"],
        state=ReservationState(fields["state"]),
        fence=fields["fence"],
        holder=fields["holder"],
        pins_digest=fields["pins_digest"],
        pins=Pins(facts=pins["facts"], authority=pins["authority"]) if pins is not None else None,
        key=fields["key"],
        reason=Reason(fields["reason"]) if fields["reason"] else None,
        note=fields["note"],
        receipt=fields["receipt"],
        evidence=fields["evidence"],
        approval=fields["approval"],
    )

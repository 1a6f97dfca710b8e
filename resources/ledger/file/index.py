"""Where each slot's rows are, in memory: about 200 bytes per slot and 28 per row. What they say is read from the disk each time."""

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from guards.delivery.slot import Slot

_SEPARATOR: Final = "\x00"
"""Below every character of a slot's parts, so that keys sort as slots do."""
_PLACE: Final = struct.Struct("<IIIQ")
_STATES: Final = tuple(ReservationState)
_CODES: Final = {state: number for number, state in enumerate(_STATES)}
NOWHERE: Final = (1 << 64) - 1


class Place(NamedTuple):
    """A line of a segment, without its newline's length counted out; `mark` the first 8 bytes of the row's digest as a number."""

    segment: int
    offset: int
    size: int
    mark: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a slot is not believed. `is_readable`: its rows are whole, but one that concerns it may be missing, or its claim is wrong; what
    became of a call is still recorded, and nothing that could lead to another is allowed."""

    why: str
    is_readable: bool = False


def key_of(slot: Slot) -> str:
    return f"{slot.customer}{_SEPARATOR}{slot.period}{_SEPARATOR}{slot.kind}"


def slot_of(key: str) -> Slot:
    return Slot(*key.split(_SEPARATOR))


def mark_of(digest: str) -> int:
    return int(digest[:16], 16)


@dataclass(slots=True)
class Index:
    head: Head = field(default_factory=Head)
    rows: dict[str, bytes] = field(default_factory=dict)
    """Slot key to a byte for the state of its last row, then its places packed, oldest first."""
    slots: dict[bytes, str] = field(default_factory=dict)
    """Reservation id to slot key."""
    at: "array[int]" = field(default_factory=lambda: array("Q"))
    """Sequence - 1 to segment << 32 | offset, or NOWHERE."""
    counts: list[int] = field(default_factory=lambda: [0] * len(_STATES))
    doubts: dict[str, Doubt] = field(default_factory=dict)
    orphans: dict[str, int] = field(default_factory=dict)
    """Claims without a row: slot key to attempt."""
    _sorted: list[str] | None = None

    def add(self, key: str, reservation_id: str, state: ReservationState, place: Place) -> None:
        """`reservation_id` may be "" for one that has rows already."""
        held = self.rows.get(key)
        code = _CODES[state]
        packed = _PLACE.pack(*place)
        if held is None:
            self.rows[key] = bytes((code,)) + packed
            self._sorted = None
        else:
            self.counts[held[0]] -= 1
            self.rows[key] = bytes((code,)) + held[1:] + packed
        self.counts[code] += 1
        if reservation_id:
            self.slots.setdefault(bytes.fromhex(reservation_id), key)

    def place_row(self, sequence: int, segment: int, offset: int) -> None:
        while len(self.at) < sequence:
            self.at.append(NOWHERE)
        self.at[sequence - 1] = segment << 32 | offset

    def where(self, sequence: int) -> tuple[int, int] | None:
        """Segment and offset of a row."""
        if not 0 < sequence <= len(self.at) or self.at[sequence - 1] == NOWHERE:
            return None
        return self.at[sequence - 1] >> 32, self.at[sequence - 1] & 0xFFFFFFFF

    def places(self, key: str) -> tuple[Place, ...]:
        held = self.rows.get(key)
        return tuple(map(Place._make, _PLACE.iter_unpack(memoryview(held)[1:]))) if held else ()

    def state(self, key: str) -> ReservationState:
        return _STATES[self.rows[key][0]]

    def slot_key(self, reservation_id: str) -> str | None:
        try:
            return self.slots.get(bytes.fromhex(reservation_id))
        except ValueError:
            return None

    def states(self) -> dict[str, int]:
        return {state.value: number for state, number in zip(_STATES, self.counts, strict=True) if number}

    def in_state(self, *states: ReservationState) -> Iterator[str]:
        wanted = {_CODES[state] for state in states}
        return (key for key, held in self.rows.items() if held[0] in wanted)

    def in_order(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self.rows)
        return self._sorted

    def doubt(self, key: str, doubt: Doubt) -> None:
        """The graver of two stays."""
        held = self.doubts.get(key)
        if held is None or (held.is_readable and not doubt.is_readable):
            self.doubts[key] = doubt

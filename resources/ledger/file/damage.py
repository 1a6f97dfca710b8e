"""Whose row a damaged line was. What can be told blocks one slot; what cannot blocks every slot that it could have concerned.

A row names itself four times over: its sequence, the digest of the row before it, the reservation, and the slot. Two of the first three
right is believed to be that row and no other; then the reservation's slot is it, or, where the reservation itself was damaged, the slot
named in words. One changed byte, or a cut, always leaves that much.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from guards.delivery.reservation import ReservationState
from guards.delivery.slot import NotASlot, Slot
from resources.ledger.file.index import Doubt, Index, key_of
from resources.ledger.file.segments import path_of

PREVIOUS: Final = re.compile(rb'"previous":"([0-9a-f]{64})","reason"')
_RESERVATION: Final = re.compile(rb'"reservation":"([0-9a-f]{32})"')
_SEQUENCE: Final = re.compile(rb'"sequence":([0-9]{1,18}),"state"')
_ATTEMPT: Final = re.compile(rb'"attempt":([0-9]{1,9}),"customer"')
_SLOT: Final = re.compile(rb'"customer":"([^"]*)","event".*"kind":"([^"]*)","note".*"period":"([^"]*)","pins', re.DOTALL)

MAY_STILL_BE_SENT: Final = frozenset(
    {
        ReservationState.PREPARED,
        ReservationState.SENDING,
        ReservationState.UNKNOWN,
        ReservationState.KNOWN_FAILURE,
        ReservationState.RESOLVED_NOT_SENT,
    }
)
"""From where a grant or a replacement is some edges away. From the others none is, whatever row is missing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A line, or a part of one, that is not a row."""

    segment: int
    offset: int
    text: bytes

    @property
    def where(self) -> str:
        return f"byte {self.offset} of {path_of(self.segment)}"


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows that are gone, or cannot be read, and nobody can tell whose they were. They stood before this place."""

    first: int
    last: int
    segment: int
    offset: int

    def __str__(self) -> str:
        rows = f"row {self.first}" if self.first == self.last else f"rows {self.first} to {self.last}"
        return f"{rows} before byte {self.offset} of {path_of(self.segment)}"


@dataclass(slots=True)
class Gap:
    """Rows `first` to `last` are not where they should be. `found`: those that turned up elsewhere, by sequence: (previous, digest)."""

    first: int
    last: int
    before: str
    after: str
    key: str
    segment: int
    offset: int
    found: dict[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def is_filled(self) -> bool:
        """Every row of it turned up, and each continues the one before."""
        digest = self.before
        for sequence in range(self.first, self.last + 1):
            previous, own = self.found.get(sequence, ("", ""))
            if previous != digest:
                return False
            digest = own
        return digest == self.after


def owner(
    text: bytes, *, sequence: int, previous: str, known: Callable[[str], str | None], is_claimed: Callable[[Slot], bool]
) -> str | None:
    """Slot key of the row that this damaged text was; None when it cannot be told. `known`: reservation id to slot key."""
    reservation = _last(_RESERVATION, text)
    said = named(text)
    attempt = _last(_ATTEMPT, text)
    by_name = said is not None and attempt.isdigit() and said.reservation_id(int(attempt)) == reservation
    right = (_last(PREVIOUS, text) == previous) + (_last(_SEQUENCE, text) == str(sequence)) + by_name
    if right < 2:
        return None
    by_reservation = known(reservation)
    if by_reservation is not None:
        return by_reservation
    return key_of(said) if said is not None and is_claimed(said) else None


def doubt_what_may_be_concerned(index: Index, losses: list[Loss]) -> None:
    """A lost row concerned a slot that had been opened before it, or one whose opening is lost: then there is a claim without a row.

    Slots opened later, slots proven sent, slots given up, and new ones go on.
    """
    for loss in losses:
        why = f"{loss} cannot be read, and may concern it"
        for key in index.in_state(*MAY_STILL_BE_SENT):
            first = index.places(key)[0]
            if (first.segment, first.offset) < (loss.segment, loss.offset):
                index.doubt(key, Doubt(why, is_readable=True))
        for key in index.orphans:
            index.doubt(key, Doubt(why))


def _last(pattern: re.Pattern[bytes], text: bytes) -> str:
    found = pattern.findall(text)
    return found[-1].decode("ascii") if found else ""


def named(text: bytes) -> Slot | None:
    """The slot that a damaged text still names in words."""
    found = _SLOT.search(text)
    if found is not None:
        with suppress(NotASlot, UnicodeDecodeError):
            return Slot(*(found[number].decode("ascii") for number in (1, 3, 2)))
    return None

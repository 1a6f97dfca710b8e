"""What a slot's rows amount to, read from the disk each time: a byte that changed under a running process is noticed for that slot."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from guards.delivery.entry import Event, IllegalEntry, Reservation, advance
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import NotARow, parse_row
from guards.delivery.slot import Slot
from resources.ledger.file.core import Core
from resources.ledger.file.index import Doubt, Place, key_of, mark_of, slot_of
from resources.ledger.file.line import split_line
from resources.ledger.file.segments import path_of
from resources.state.errors import Altered

_MOST_KEPT = 512


@dataclass(frozen=True, slots=True)
class Attempt:
    """`opened` is where its first row stands: attempts in that order are oldest first."""

    opened: Place
    reservation: Reservation


class Reader:
    """Folded slots are kept with the marks of their rows: rows that still have the same digests are not parsed again."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._kept: dict[str, tuple[tuple[Place, ...], tuple[Attempt, ...]]] = {}

    def latest(self, slot: Slot) -> Reservation | LedgerRefused | None:
        """With its lease. Refused when the slot's own rows are not what was written."""
        attempts = self.attempts(key_of(slot))
        if isinstance(attempts, Doubt):
            return in_doubt(slot, attempts)
        return self.with_lease(attempts[-1].reservation) if attempts else None

    def attempts(self, key: str, places: Sequence[Place] | None = None) -> tuple[Attempt, ...] | Doubt:
        """Oldest first. `places` as they were under the lock, when it is held no more."""
        doubt = self._core.index.doubts.get(key)
        if doubt is not None and not doubt.is_readable:
            return doubt
        wanted = tuple(places) if places is not None else self._core.index.places(key)
        rows = []
        for place in wanted:
            row = self._row(place)
            if row is None:
                found = Doubt(f"its row at byte {place.offset} of {path_of(place.segment)} was altered")
                self._core.index.doubt(key, found)
                return found
            rows.append(row)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == wanted:
            return kept[1]
        folded = _fold(rows, wanted)
        if isinstance(folded, Doubt):
            self._core.index.doubt(key, folded)
            return folded
        self._keep(key, wanted, folded)
        return folded

    def just_read(self, key: str) -> tuple[Attempt, ...] | Doubt:
        """What `attempts` answered under the same hold of the lock: its rows are not read once more."""
        kept = self._kept.get(key)
        return kept[1] if kept is not None and kept[0] == self._core.index.places(key) else self.attempts(key)

    def keep(self, key: str, reservations: tuple[Attempt, ...]) -> None:
        """What was just appended need not be parsed again."""
        self._keep(key, self._core.index.places(key), reservations)

    def believed(self, key: str, places: Sequence[Place] | None = None) -> tuple[Attempt, ...]:
        """For looking: `Altered` where a transition would be refused."""
        attempts = self.attempts(key, places)
        if isinstance(attempts, Doubt):
            raise Altered(in_doubt(slot_of(key), attempts).message)
        return attempts

    def with_lease(self, reservation: Reservation) -> Reservation:
        if reservation.state is not ReservationState.SENDING:
            return reservation
        return replace(reservation, is_live=self._core.leases.is_held(reservation.reservation_id))

    def _row(self, place: Place) -> bytes | None:
        line = self._core.segments.read(place.segment, place.offset, place.size)
        parts = split_line(line[:-1])
        if (
            parts is None
            or mark_of(parts[0]) != place.mark
            or hashlib.sha256(parts[1]).hexdigest() != parts[0]
            or line[-1:] != b"\n"
        ):
            return None
        return parts[1]

    def _keep(self, key: str, places: tuple[Place, ...], attempts: tuple[Attempt, ...]) -> None:
        self._kept.pop(key, None)
        if len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (places, attempts)


def _fold(rows: Sequence[bytes], places: Sequence[Place]) -> tuple[Attempt, ...] | Doubt:
    attempts: list[Attempt] = []
    for stored, place in zip(rows, places, strict=True):
        try:
            row = parse_row(stored)
        except NotARow as problem:
            return Doubt(f"its row at byte {place.offset} of {path_of(place.segment)}: {problem}")
        after = advance(attempts[-1].reservation if attempts else None, row.entry, at=row.at)
        if isinstance(after, IllegalEntry):
            return Doubt(f"its row {row.sequence} at byte {place.offset} of {path_of(place.segment)} cannot follow: {after.why}")
        if row.entry.event is Event.OPENED:
            attempts.append(Attempt(place, after))
        else:
            attempts[-1] = Attempt(attempts[-1].opened, after)
    return tuple(attempts)


def in_doubt(slot: Slot, doubt: Doubt) -> LedgerRefused:
    return LedgerRefused(
        LedgerCode.RECOVERY_REQUIRED,
        f"{slot.key} is in doubt, nothing is sent for it: {doubt.why}. `opsguard ledger verify` lists all",
    )

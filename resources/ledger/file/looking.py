"""Looking: as of one moment under the lock; rows never change, so they are read after it is let go."""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from guards.delivery.entry import Reservation
from guards.delivery.refusal import LedgerRefused
from guards.delivery.replay import Fault
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from resources.ledger.file.core import Core
from resources.ledger.file.index import Doubt, Place, key_of, slot_of
from resources.ledger.file.line import split_line
from resources.ledger.file.reading import Attempt, Reader, in_doubt
from resources.ledger.file.scan import Scan
from resources.ledger.file.segments import path_of
from resources.ledger.file.standing import holds, judge
from resources.ledger.interface import MOST_PER_PAGE, Health, Snapshot, StoredRow, Verification
from resources.state.errors import Altered

_AFTER: Final = "\x01"
"""Above the separator of a slot key's parts, below every character of them."""

_CLAIMED: Final = Doubt("it is claimed, and its rows are gone")


class Looker:
    def __init__(self, core: Core, reader: Reader) -> None:
        self._core = core
        self._reader = reader

    def get(self, reservation_id: str) -> Reservation | None:
        with self._core.locked():
            key = self._core.index.slot_key(reservation_id)
            found = self._attempts(key) if key is not None else ()
        return next((each for each in found if each.reservation_id == reservation_id), None)

    def of(self, slot: Slot) -> tuple[Reservation, ...]:
        with self._core.locked():
            return self._attempts(key_of(slot))

    def _attempts(self, key: str, places: Sequence[Place] | None = None) -> tuple[Reservation, ...]:
        return tuple(each.reservation for each in self._with_lease(key, places))

    def _with_lease(self, key: str, places: Sequence[Place] | None) -> tuple[Attempt, ...]:
        found = self._reader.believed(key, places)
        if not found:
            return ()
        last = found[-1]
        return (*found[:-1], Attempt(last.opened, self._reader.with_lease(last.reservation)))

    def history(self, customer: str, prefixes: Collection[str]) -> tuple[Reservation, ...]:
        """Of one length each."""
        wanted = set(prefixes)
        length = len(next(iter(wanted), ""))
        with self._core.alone():
            with self._core.locked():
                keys = self._of_customer(customer) if wanted else []
                held = [
                    (key, self._core.index.places(key))
                    for key in keys
                    if key[len(customer) + 1 :].split("\x00")[0][:length] in wanted
                ]
            found = [each for key, places in held for each in self._with_lease(key, places)]
        return tuple(each.reservation for each in sorted(found, key=lambda each: each.opened))

    def latest(self, slots: Collection[Slot]) -> dict[Slot, Reservation | LedgerRefused]:
        with self._core.alone():
            with self._core.locked():
                held = [(key, self._core.index.places(key)) for key in sorted(map(key_of, slots)) if self._is_taken(key)]
            return {slot_of(key): self._last(key, places) for key, places in held}

    def unfinished(self) -> dict[Slot, Reservation | LedgerRefused]:
        with self._core.alone():
            with self._core.locked():
                keys = sorted(self._core.index.in_state(*(state for state in ReservationState if state.is_unfinished)))
                held = [(key, self._core.index.places(key)) for key in keys]
            return {slot_of(key): self._last(key, places) for key, places in held}

    def _is_taken(self, key: str) -> bool:
        """A claim without rows is doubt where rows may be gone."""
        index = self._core.index
        return bool(index.places(key)) or key in index.doubts or bool(self._core.standing.trouble and key in index.orphans)

    def _last(self, key: str, places: Sequence[Place]) -> Reservation | LedgerRefused:
        attempts = self._reader.attempts(key, places)
        if isinstance(attempts, Doubt):
            return in_doubt(slot_of(key), attempts)
        if not attempts:
            return in_doubt(slot_of(key), _CLAIMED)
        return self._reader.with_lease(attempts[-1].reservation)

    def _of_customer(self, customer: str) -> list[str]:
        keys = self._core.index.in_order()
        return keys[bisect_left(keys, f"{customer}\x00") : bisect_left(keys, f"{customer}{_AFTER}")]

    def snapshot(self, *, customer: str | None, after: Slot | None, limit: int) -> Snapshot:
        size = max(1, min(limit, MOST_PER_PAGE))
        with self._core.alone():
            with self._core.locked():
                keys = self._core.index.in_order()
                begin = bisect_right(keys, key_of(after)) if after is not None else 0
                end = len(keys)
                if customer is not None:
                    begin = max(begin, bisect_left(keys, f"{customer}\x00"))
                    end = bisect_left(keys, f"{customer}{_AFTER}")
                page = keys[begin : min(begin + size, end)]
                held = [(key, self._core.index.places(key)) for key in page]
                revision = self._revision()
            found = tuple(self._attempts(key, places)[-1] for key, places in held)
        return Snapshot(revision, found, slot_of(page[-1]) if page and begin + size < end else None)

    def _revision(self) -> str:
        """Of the rows, the fence, and the claims that have no rows, or not theirs."""
        index, fence = self._core.index, self._core.fence
        claims = ",".join(sorted([*index.orphans, *index.doubts]))
        rest = f"{fence.checksum if fence is not None else ''}:{claims}"
        return f"{index.head.sequence}:{index.head.digest}:{hashlib.sha256(rest.encode()).hexdigest()[:16]}"

    def extends(self, published: Head) -> bool:
        with self._core.locked():
            return holds(self._core.scan, published)

    def health(self) -> Health:
        with self._core.locked():
            index = self._core.index
            sending = []
            for key in index.in_state(ReservationState.SENDING):
                attempts = self._reader.attempts(key)
                if not isinstance(attempts, Doubt):
                    sending.append(self._reader.with_lease(attempts[-1].reservation))
            return Health(
                store=f"file {self._name()}",
                head=index.head,
                counts=index.states(),
                oldest_sending_at=min((each.changed_at for each in sending), default=None),
                stale_sending=tuple(sorted(each.slot for each in sending if not each.is_live)),
                recovery=self._core.standing.trouble,
                blocked=len(index.doubts),
                doubt_before=self._core.doubt_before,
            )

    def _name(self) -> str:
        """Without its fence document the anchor still knows it."""
        newest = self._core.anchor.newest
        return newest.store if self._core.fence is None and newest is not None else self._core.store

    def verify(self) -> Verification:
        """What is published is read without the lock; writers wait only while the rest is."""
        core = self._core
        with core.alone():
            with core.locked():
                until, fence = (core.scan.segment, core.scan.offset), core.fence
            scan = Scan(core.segments, core.claims)
            scan.list_claims()
            scan.run(core.segments.numbers(), until=until)
            with core.locked():
                core.segments.reopen()
                core.anchor.read()
                if core.fence != fence:  # another process repaired or accepted meanwhile: what was read may be rows that are gone
                    scan = Scan(core.segments, core.claims)
                    scan.list_claims()
                scan.run(core.segments.numbers())
                judge(scan, disk=core.disk, segments=core.segments, anchor=core.anchor, fence=core.fence, known=core.known)
                core.take_verified(scan)
            return verification(scan)

    def holds_exactly(self, rows: Iterable[StoredRow]) -> bool:
        return all(own == other for own, other in zip_longest(self.rows(), (StoredRow(*row) for row in rows)))

    def rows(self) -> Iterator[StoredRow]:
        with self._core.locked():
            until = [(number, None) for number in self._core.segments.numbers() if number < self._core.scan.segment]
            end = (self._core.scan.segment, self._core.scan.offset)
        sequence = 0
        for number, size in (*until, end):
            position = 0
            while True:
                with self._core.alone():
                    lines = _some(self._core.segments.lines(number, position, size))
                if not lines:
                    break
                for offset, line in lines:
                    parts = split_line(line[:-1])
                    if parts is None:
                        raise Altered(f"what stands at byte {offset} of {path_of(number)} is no row: `opsguard ledger verify`")
                    sequence += 1
                    yield StoredRow(sequence, *parts)
                    position = offset + len(line)


def _some(lines: Iterator[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return [line for line, _ in zip(lines, range(1000), strict=False)]


def verification(scan: Scan) -> Verification:
    faults: tuple[Fault, ...] = tuple(scan.faults)
    return Verification(
        rows=scan.rows, slots=len(scan.index.rows), head=scan.index.head, counts=scan.index.states(), faults=faults
    )

"""The rows read again, from the first: into an index, with what is wrong and whose it is.

A scan can stop and go on: what is sealed or published is read without the lock, the rest under it.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from guards.delivery.entry import Event, IllegalEntry, Reservation, advance, thin
from guards.delivery.replay import Fault, FaultKind
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head, NotARow, Row, parse_row
from guards.delivery.slot import Kind, NotASlot, Slot
from resources.ledger.file.claims import Claims, parse_claim
from resources.ledger.file.damage import PREVIOUS, Gap, Loss, Piece, doubt_what_may_be_concerned, named, owner
from resources.ledger.file.index import NOWHERE, Doubt, Index, Place, key_of, mark_of, slot_of
from resources.ledger.file.line import BEGINNING, split_line
from resources.ledger.file.segments import LONGEST_LINE, Segments, path_of

_MOST_FOLDED: Final = 2048
"""Reservations kept folded while scanning: without their pins, with receipt and late evidence. A slot's rows mostly stand close together;
others are read again."""
ORPHAN: Final = "a claim without a row: asked again for the same, it is completed"
_MAY_BE_FOLLOWED: Final = (ReservationState.KNOWN_FAILURE, ReservationState.RESOLVED_NOT_SENT)
_SELDOM_FOLLOWED: Final = frozenset(
    {
        ReservationState.SENT_AUDITED,
        ReservationState.ABANDONED,
        ReservationState.RESOLVED_SENT,
        ReservationState.KNOWN_FAILURE,
        ReservationState.RESOLVED_NOT_SENT,
    }
)


@dataclass(frozen=True, slots=True)
class Torn:
    """A last line without its newline."""

    segment: int
    offset: int
    text: bytes


class Scan:
    """`index` and `faults` are complete after `finish`. `segment`, `offset`: where the next row would stand; `in_segment` rows before."""

    def __init__(self, segments: Segments, claims: Claims) -> None:
        self._segments = segments
        self._claims = claims
        self.index = Index()
        self.faults: list[Fault] = []
        self.rows = 0
        self.segment = 1
        self.offset = 0
        self.in_segment = 0
        self.torn: Torn | None = None
        self.unknown_end = False
        """The last row is damaged, and what it was is not anchored: nothing can be chained to it."""
        self.unfounded: list[tuple[Slot, Head]] = []
        """Claims without a row, and the heads on which they were made, which the chain does not hold: it was longer, or another."""
        self._listed: list[tuple[Slot, int]] = []
        self._pending: list[Piece] = []
        self._gaps: list[Gap] = []
        self._losses: list[Loss] = []
        self._folded: dict[str, Reservation] = {}

    def list_claims(self) -> None:
        """Before the rows: a claim listed here whose row is not there in the end has none."""
        self._listed = list(self._claims.walk())

    def run(self, numbers: Iterable[int], *, until: tuple[int, int] | None = None) -> None:
        """From where it stopped. `until`: (segment, size) that is published; None for everything there is."""
        self.torn = None
        for number in numbers:
            if number < self.segment or (until is not None and number > until[0]):
                continue
            if number != self.segment:
                self._next_segment(number)
            end = until[1] if until is not None and number == until[0] else None
            for offset, line in self._segments.lines(number, self.offset, end):
                if not line.endswith(b"\n"):
                    if end is not None:  # cut by `until`, which the file need not agree with any more
                        return
                    self.torn = Torn(number, offset, line)
                    break
                self._take(number, offset, line)
                self.offset = offset + len(line)
                self.in_segment += 1

    def take_written(self, segment: int, offset: int, line: bytes) -> bool:
        """A row that another process has just published, at the end: its digest and its place are checked. Whether it may follow is,
        when its slot is next read. False for anything else; this scan is of no use then."""
        parts = split_line(line[:-1]) if line.endswith(b"\n") else None
        if parts is None or hashlib.sha256(parts[1]).hexdigest() != parts[0]:
            return False
        head, index = self.index.head, self.index
        try:
            fields = json.loads(parts[1])
            if fields["sequence"] != head.sequence + 1 or fields["previous"] != head.digest:
                return False
            slot, state = Slot(fields["customer"], fields["period"], fields["kind"]), ReservationState(fields["state"])
            bytes.fromhex(fields["reservation"])
            is_opened = fields["event"] == Event.OPENED.value
        except (ValueError, KeyError, TypeError, RecursionError):  # whoever wrote this made a digest for it, and no row
            return False
        self.take_own(slot, fields["reservation"], state, Head(head.sequence + 1, parts[0]), segment, offset, len(line))
        if is_opened:
            index.orphans.pop(key_of(slot), None)
        return True

    def take_own(
        self, slot: Slot, reservation_id: str, state: ReservationState, head: Head, segment: int, offset: int, size: int
    ) -> None:
        if segment != self.segment:
            self.segment, self.in_segment = segment, 0
        self.index.add(key_of(slot), reservation_id, state, Place(segment, offset, size, mark_of(head.digest)))
        self.index.place_row(head.sequence, segment, offset)
        self.index.head = head
        self.offset = offset + size
        self.in_segment += 1
        self.rows += 1

    def take_hole_as_torn(self, anchored: Head) -> None:
        """A crash of the machine may lose a page of a line that was never synced, and keep its newline. No row holds a NUL."""
        pieces = self._pending
        here = pieces and pieces[0].segment == self.segment and anchored.sequence <= self.index.head.sequence
        if here and any(b"\x00\x00" in piece.text for piece in pieces):
            rest = self.torn.text if self.torn is not None else b""
            self.torn = Torn(self.segment, pieces[0].offset, b"".join(piece.text for piece in pieces) + rest)
            self.offset = pieces[0].offset
            self.in_segment -= len(pieces)
            self._pending = []

    @property
    def end_of_rows(self) -> int:
        """Where the active segment's last whole row ends."""
        last = self.index.at[-1] if self.index.at else None
        if last is None or last == NOWHERE or last >> 32 != self.segment:
            return 0 if last is None or last == NOWHERE else self.offset
        offset = last & 0xFFFFFFFF
        return offset + len(next(iter(self._segments.lines(self.segment, offset)))[1])

    def finish(self, anchored: Head | None) -> None:
        if self._pending:
            self._damaged_end(anchored)
        for gap in self._gaps:
            if gap.is_filled:
                self.index.doubt(gap.key, Doubt(f"its row at byte {gap.offset} of {path_of(gap.segment)} stands out of order"))
            else:
                self._lose(Loss(gap.first, gap.last, gap.segment, gap.offset))
        self._orphans()
        doubt_what_may_be_concerned(self.index, self._losses)
        if self._losses:
            self._emptied()
        self._folded.clear()
        self._listed.clear()

    def has(self, head: Head) -> bool:
        """False where the chain provably ends before this row, or has another in its place; a damaged row proves nothing."""
        own = self.index.head
        if head.sequence <= 0 or head.sequence >= own.sequence:
            return head in (own, Head())
        digest = self.digest_at(head.sequence) or self._previous_of(head.sequence + 1)
        return digest is None or digest == head.digest

    def digest_at(self, sequence: int) -> str | None:
        parts = self._line_at(sequence)
        return parts[0] if parts else None

    def _previous_of(self, sequence: int) -> str | None:
        parts = self._line_at(sequence)
        found = PREVIOUS.search(parts[1]) if parts else None
        return found[1].decode("ascii") if found else None

    def _line_at(self, sequence: int) -> tuple[str, bytes] | None:
        place, following = self.index.where(sequence), self.index.where(sequence + 1)
        if place is None:
            return None
        is_known = following is not None and following[0] == place[0] and following[1] > place[1]
        size = following[1] - place[1] if following is not None and is_known else LONGEST_LINE
        return split_line(self._segments.read(*place, size).partition(b"\n")[0])

    def fault(self, kind: FaultKind, sequence: int, why: str, slot: Slot | None = None) -> None:
        self.faults.append(Fault(kind, sequence, why, slot))

    # One line

    def _take(self, segment: int, offset: int, line: bytes) -> None:
        row = intact(line[:-1])
        if row is None:
            again = BEGINNING.search(line, 1)
            if again is not None:  # two lines whose newline was damaged
                self._pending.append(Piece(segment, offset, line[: again.start()]))
                self._take(segment, offset + again.start(), line[again.start() :])
            else:
                self._pending.append(Piece(segment, offset, line))
            return
        place = Place(segment, offset, len(line), mark_of(row.digest))
        if self._pending:
            self._close(row)
        head = self.index.head
        if row.sequence == head.sequence + 1 and row.previous == head.digest:
            self._add(row, place)
            self.index.head = row.head
        else:
            self._misplaced(row, place)

    def _add(self, row: Row, place: Place) -> None:
        entry = row.entry
        key = key_of(entry.slot)
        index = self.index
        self.rows += 1
        current = None
        held = index.doubts.get(key)
        is_readable = held is None or held.is_readable
        if is_readable and key in index.rows:
            current = self._folded.pop(key, None) or self._fold_again(key)
        is_new = entry.event is Event.OPENED or key not in index.rows
        index.add(key, entry.reservation_id if is_new else "", entry.state, place)
        index.place_row(row.sequence, place.segment, place.offset)
        if not is_readable:
            return
        after = advance(current, entry, at=row.at)
        if isinstance(after, IllegalEntry):
            self.fault(
                FaultKind.ILLEGAL_ENTRY,
                row.sequence,
                f"{after.why} (byte {place.offset} of {path_of(place.segment)})",
                entry.slot,
            )
            index.doubt(
                key, Doubt(f"row {row.sequence} at byte {place.offset} of {path_of(place.segment)} cannot follow: {after.why}")
            )
            return
        if after.state not in _SELDOM_FOLLOWED:
            if len(self._folded) >= _MOST_FOLDED:
                del self._folded[next(iter(self._folded))]
            self._folded[key] = thin(after) if entry.event is Event.OPENED else after  # the pins stay thin
        if entry.event is Event.OPENED and (problem := self._claims.problem(row, self.has)):
            self.fault(FaultKind.CLAIM, row.sequence, problem, entry.slot)
            index.doubt(key, Doubt(f"{problem} (row {row.sequence} says what it was)", is_readable=True))

    def _fold_again(self, key: str) -> Reservation | None:
        current: Reservation | None = None
        for place in self.index.places(key):
            row = intact(self._segments.read(place.segment, place.offset, place.size)[:-1])
            after = advance(current, row.entry, at=row.at) if row is not None else None
            if not isinstance(after, Reservation):
                return None
            current = after
        return current

    # What is wrong

    def _next_segment(self, number: int) -> None:
        expected = self.segment + 1 if self.in_segment or self.segment > 1 else self.segment
        if self.torn is not None:
            self._pending.append(Piece(self.torn.segment, self.torn.offset, self.torn.text))
            self.torn = None
        for missing in range(expected, number):
            self.fault(FaultKind.MISSING_SEGMENT, self.index.head.sequence + 1, f"{path_of(missing)} is gone")
        self.segment, self.offset, self.in_segment = number, 0, 0

    def _close(self, row: Row) -> None:
        """An intact row ends a stretch of damaged lines, and says how many rows they were."""
        head = self.index.head
        lost = range(head.sequence + 1, row.sequence)
        pieces, self._pending = self._pending, []
        if not lost:
            for piece in pieces:
                self.fault(FaultKind.NOT_A_ROW, head.sequence, f"{piece.where} is no row, and none is missing there")
            return
        self._blame(pieces, lost, head.digest)
        self.index.head = Head(row.sequence - 1, row.previous)

    def _damaged_end(self, anchored: Head | None) -> None:
        """How many rows it was, and what the last one was, only the anchor can say."""
        head = self.index.head
        pieces, self._pending = self._pending, []
        said = split_line(pieces[-1].text.rstrip(b"\n"))
        if anchored is not None and anchored.sequence > head.sequence:
            end = anchored
        else:
            end = Head(head.sequence + len(pieces), said[0] if said else "")
            self.unknown_end = True
        self._blame(pieces, range(head.sequence + 1, end.sequence + 1), head.digest)
        self.index.head = end

    def _blame(self, pieces: list[Piece], lost: range, previous: str) -> None:
        if len(lost) == 1:
            whole = Piece(pieces[0].segment, pieces[0].offset, b"".join(piece.text for piece in pieces))
            found = [(lost[0], whole)]
        else:
            found = list(zip(lost, pieces, strict=False))
        told: set[int] = set()
        for sequence, piece in found:
            key = owner(
                piece.text,
                sequence=sequence,
                previous=previous,
                known=self._slot_of_reservation,
                is_claimed=lambda slot: key_of(slot) in self.index.rows or (slot, 1) in self._listed,
            )
            parts = split_line(piece.text.rstrip(b"\n"))
            previous = parts[0] if parts else ""
            kind = FaultKind.DIGEST if _is_row(parts) else FaultKind.NOT_A_ROW
            self.fault(kind, sequence, f"what stands at {piece.where} was altered", slot_of(key) if key else None)
            self.rows += 1
            if key is not None:
                told.add(sequence)
                self.index.doubt(key, Doubt(f"row {sequence} at {piece.where} was altered"))
            elif (slot := named(piece.text)) is not None and key_of(slot) not in self.index.rows:
                # Its claim is gone as well, so nothing else would keep what seems to be a new slot from being sent.
                self.index.doubt(key_of(slot), Doubt(f"row {sequence} at {piece.where} was altered, and names it"))
        if len(told) < len(lost):
            last = pieces[-1]
            self._lose(Loss(lost[0], lost[-1], last.segment, last.offset))

    def _misplaced(self, row: Row, place: Place) -> None:
        head, slot = self.index.head, row.entry.slot
        key = key_of(slot)
        where = f"byte {place.offset} of {path_of(place.segment)}"
        if row.sequence > head.sequence + 1:
            self.fault(FaultKind.SEQUENCE, row.sequence, f"it stands at {where} after row {head.sequence}", slot)
            self._gaps.append(
                Gap(head.sequence + 1, row.sequence - 1, head.digest, row.previous, key, place.segment, place.offset)
            )
            self._add(row, place)
            self.index.head = row.head
        elif row.sequence <= head.sequence:
            self.fault(FaultKind.SEQUENCE, row.sequence, f"it stands at {where} after row {head.sequence}", slot)
            for gap in self._gaps:
                if gap.first <= row.sequence <= gap.last and row.sequence not in gap.found:
                    gap.found[row.sequence] = (row.previous, row.digest)
                    self.rows += 1
                    self.index.add(key, row.entry.reservation_id, row.entry.state, place)
                    self.index.place_row(row.sequence, place.segment, place.offset)
            self.index.doubt(key, Doubt(f"row {row.sequence} at {where} stands out of order"))
        else:
            self.fault(FaultKind.CHAIN, row.sequence, f"at {where} it does not continue the row before it", slot)
            self._add(row, place)
            self.index.doubt(key, Doubt(f"row {row.sequence} at {where} does not continue the row before it"))
            self._lose(Loss(head.sequence, head.sequence, place.segment, place.offset))
            self.index.head = row.head

    def _lose(self, loss: Loss) -> None:
        self._losses.append(loss)
        self.fault(FaultKind.SEQUENCE, loss.first, f"{loss} cannot be read, and it cannot be told whose they were")

    def _orphans(self) -> None:
        without_rows: list[tuple[str, str]] = []
        for slot, attempt in self._listed:
            key = key_of(slot)
            if bytes.fromhex(slot.reservation_id(attempt)) in self.index.slots:
                continue
            stored = self._claims.read(slot, attempt)
            if stored is None:  # it was listed without the lock, and its maker had no space for the row
                continue
            self.index.orphans[key] = max(attempt, self.index.orphans.get(key, 0))
            without_rows.append((slot.reservation_id(attempt), key))
            claim = parse_claim(stored)
            if claim is not None and not self.has(claim.after):
                self.unfounded.append((slot, claim.after))
        for key, attempt in self.index.orphans.items():
            is_next = self._may_be_next(key, attempt)
            why = (
                ORPHAN
                if is_next
                else f"attempt {attempt} is claimed, and rows are gone: `opsguard ledger repair` makes it unknown"
            )
            if key not in self.index.doubts:  # its altered row has been named
                self.fault(FaultKind.CLAIM, 0, why, slot_of(key))
            if not is_next:
                self.index.doubt(key, Doubt(why, is_readable=key in self.index.rows))
        for reservation_id, key in without_rows:
            self.index.slots[bytes.fromhex(reservation_id)] = key

    def _emptied(self) -> None:
        """Rows are gone, and so is a claim that stood here: theirs may be among them, and the slot is not a new one."""
        for customer, period in self._claims.emptied():
            for kind in Kind:
                with suppress(NotASlot):
                    key = key_of(Slot(customer, period, kind))
                    if key not in self.index.rows:
                        self.index.doubt(key, Doubt("rows are gone, and its claim's directory is empty"))

    def _may_be_next(self, key: str, attempt: int) -> bool:
        """Claimed by who was killed before its row: the rows of the attempt before say that another may follow."""
        if attempt == 1:
            return key not in self.index.rows
        before = bytes.fromhex(slot_of(key).reservation_id(attempt - 1))
        return before in self.index.slots and self.index.state(key) in _MAY_BE_FOLLOWED

    def _slot_of_reservation(self, reservation_id: str) -> str | None:
        found = self.index.slot_key(reservation_id)
        if found is None and reservation_id:
            found = next((key_of(slot) for slot, attempt in self._listed if slot.reservation_id(attempt) == reservation_id), None)
        return found


def intact(line: bytes) -> Row | None:
    """The row of a line (without its newline) that is whole and has the digest that stands with it."""
    parts = split_line(line)
    if parts is None:
        return None
    try:
        row = parse_row(parts[1])
    except NotARow:
        return None
    return row if row.digest == parts[0] else None


def _is_row(parts: tuple[str, bytes] | None) -> bool:
    if parts is None:
        return False
    try:
        parse_row(parts[1])
    except NotARow:
        return False
    return True

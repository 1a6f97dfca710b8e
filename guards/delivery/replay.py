"""Verification: the whole chain read again from its first row, and what it amounts to. One bad slot does not hide the others."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from guards.delivery.entry import IllegalEntry, Reservation, advance, thin
from guards.delivery.row import Head, NotARow, Row, parse_row
from guards.delivery.slot import Slot


class FaultKind(StrEnum):
    NOT_A_ROW = "not_a_row"
    DIGEST = "digest"
    """The stored digest is not the row's."""
    SEQUENCE = "sequence"
    """A row is missing, doubled, or out of order."""
    CHAIN = "chain"
    """It does not name the row before it: that one, or this one, was replaced."""
    ILLEGAL_ENTRY = "illegal_entry"
    HEAD = "head"
    """The chain ends elsewhere than where it was anchored: rows were lost, or an older copy restored."""
    PROJECTION = "projection"
    """What is answered from (slots, reservations) is not what the rows amount to."""
    CLAIM = "claim"
    """A claim without a row, a row without its claim, or a claim that says something else."""
    ANCHOR = "anchor"
    """The head's anchor is gone, unreadable, or names another row than the chain holds."""
    FENCE = "fence"
    """The document that says whether the store may be used is gone, unreadable, or says no."""
    TORN = "torn"
    """A last row that was never finished, and so never acknowledged."""
    MISSING_SEGMENT = "missing_segment"
    """A whole part of the chain is not where it should be."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`sequence` is the row's stored number, 0 when it concerns none; `slot` None when unknown."""

    kind: FaultKind
    sequence: int
    why: str
    slot: Slot | None = None


@dataclass(slots=True)
class Replay:
    """Feed it every stored row in order; then `finish`. `attempts` holds every attempt, by slot, oldest first.

    `is_lean`: of each slot only the latest attempt, and of that only what later rows are judged by (see `entry.thin`).
    """

    head: Head = field(default_factory=Head)
    attempts: dict[Slot, list[Reservation]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    rows: int = 0
    is_lean: bool = False

    def feed(self, stored: Iterable[tuple[int, str, bytes]]) -> None:
        """(sequence, digest, row bytes) as stored."""
        for sequence, stored_digest, stored_row in stored:
            self.take(sequence, stored_digest, stored_row)

    def take(self, sequence: int, stored_digest: str, stored_row: bytes) -> Reservation | None:
        """One row; the reservation as it leaves it, whole even when this is lean. None when the row is at fault by itself."""
        self.rows += 1
        try:
            row = parse_row(stored_row)
        except NotARow as problem:
            self.faults.append(Fault(FaultKind.NOT_A_ROW, sequence, str(problem)))
            self.head = Head(sequence, stored_digest)
            return None
        self._check_place(row, sequence, stored_digest)
        self.head = Head(sequence, stored_digest)
        return self._fold(row)

    def finish(self, anchored: Head) -> None:
        if self.head != anchored:
            self.faults.append(
                Fault(
                    FaultKind.HEAD,
                    anchored.sequence,
                    f"the chain ends at row {self.head.sequence} ({self.head.digest[:12]}), the anchor says {anchored.sequence} ({anchored.digest[:12]})",
                )
            )

    def forget_bodies(self, slot: Slot) -> None:
        """Of the latest attempt at `slot`, once nobody will ask for more than `entry.thin` keeps."""
        held = self.attempts[slot]
        held[-1] = thin(held[-1])

    def _check_place(self, row: Row, sequence: int, stored_digest: str) -> None:
        slot = row.entry.slot
        if row.digest != stored_digest:
            self.faults.append(Fault(FaultKind.DIGEST, sequence, "its content was altered", slot))
        if row.sequence != sequence or sequence != self.head.sequence + 1:
            self.faults.append(Fault(FaultKind.SEQUENCE, sequence, f"row {row.sequence} stands after {self.head.sequence}", slot))
        if row.previous != self.head.digest:
            self.faults.append(Fault(FaultKind.CHAIN, sequence, "it does not continue the row before it", slot))

    def _fold(self, row: Row) -> Reservation | None:
        slot = row.entry.slot
        held = self.attempts.setdefault(slot, [])
        current = held[-1] if held else None
        after = advance(current, row.entry, at=row.at)
        if isinstance(after, IllegalEntry):
            self.faults.append(Fault(FaultKind.ILLEGAL_ENTRY, row.sequence, after.why, slot))
            return None
        if current is not None and (self.is_lean or after.attempt == current.attempt):
            held[-1] = thin(after) if self.is_lean else after
        else:
            held.append(thin(after) if self.is_lean else after)
        return after

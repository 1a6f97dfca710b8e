"""One transition: read the slot, ask the rule, append what it says. Claim durable, then row durable, then the answer."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from guards.canonical import Json, canonical_json
from guards.delivery import row as chain
from guards.delivery import transition
from guards.delivery.entry import Entry, Event, IllegalEntry, Reservation, advance
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import NotARow, Row, parse_row
from guards.delivery.slot import Slot
from guards.delivery.transition import Ruling
from resources.ledger.file.claims import Claim, claim_of, made_on, parse_claim
from resources.ledger.file.claims import path_of as claim_path
from resources.ledger.file.core import Core
from resources.ledger.file.index import key_of, slot_of
from resources.ledger.file.reading import Attempt, Reader, in_doubt

Rule = Callable[[Reservation | None], Ruling]


class Mover:
    """Every method is for use under the store's lock."""

    def __init__(self, core: Core, reader: Reader) -> None:
        self._core = core
        self._reader = reader

    def of_slot(self, slot: Slot, rule: Rule, *, may_lead_to_a_call: bool) -> Reservation | LedgerRefused:
        """`may_lead_to_a_call`: refused where a row that concerns the slot may be missing."""
        if self._core.standing.trouble:
            return LedgerRefused(LedgerCode.RECOVERY_REQUIRED, self._core.standing.trouble)
        current = self._reader.latest(slot)
        if isinstance(current, LedgerRefused):
            return current
        doubt = self._core.index.doubts.get(key_of(slot))
        if doubt is not None and (may_lead_to_a_call or not doubt.is_readable):
            return in_doubt(slot, doubt)
        return self._carry_out(current, rule(current))

    def of_reservation(
        self,
        reservation_id: str,
        rule: Rule,
        *,
        may_lead_to_a_call: bool = False,
        any_attempt: bool = False,
    ) -> Reservation | LedgerRefused:
        key = self._core.index.slot_key(reservation_id)
        if key is None:
            trouble = self._core.standing.trouble
            return LedgerRefused(LedgerCode.RECOVERY_REQUIRED, trouble) if trouble else self._carry_out(None, rule(None))

        def ruled(current: Reservation | None) -> Ruling:
            outdated = None if any_attempt or current is None else transition.not_latest(current, reservation_id)
            return outdated or rule(current)

        return self.of_slot(slot_of(key), ruled, may_lead_to_a_call=may_lead_to_a_call)

    def _carry_out(self, current: Reservation | None, ruling: Ruling) -> Reservation | LedgerRefused:
        """A refusal that leaves a trace leaves it."""
        if not ruling.entries:
            if ruling.refused is not None:
                return ruling.refused
            assert current is not None  # without entries and refusal there was a reservation
            return current
        after = self.append(current, ruling.entries)
        if isinstance(after, LedgerRefused):
            return after
        return ruling.refused or self._reader.with_lease(after)

    def append(self, current: Reservation | None, entries: tuple[Entry, ...]) -> Reservation | LedgerRefused:
        if entries[0].state is ReservationState.SENDING and entries[0].event is Event.MOVED:
            return self._append_granted(current, entries)
        if entries[0].event is Event.OPENED:
            return self._append_claimed(current, entries)
        after = self._append_rows(current, entries)
        if isinstance(after, Reservation) and after.state is not ReservationState.SENDING:
            self._core.leases.drop(after.reservation_id)
        return after

    def _append_granted(self, current: Reservation | None, entries: tuple[Entry, ...]) -> Reservation | LedgerRefused:
        """Lease, then row, then anchor, each durable; only then may the provider be called."""
        assert current is not None
        problem = self._claim_problem(current)
        if problem:
            return LedgerRefused(
                LedgerCode.RECOVERY_REQUIRED,
                f"{current.slot.key} is in doubt, nothing is sent for it: {problem} ({claim_path(current.slot, current.attempt)}). "
                "`opsguard ledger verify`, then `opsguard ledger repair`",
            )
        reservation_id = current.reservation_id
        if not self._core.leases.take(reservation_id):
            return LedgerRefused(
                LedgerCode.BUSY, f"somebody holds the lease on {current.slot.key}, or has not let go of it: wait for them to end"
            )
        try:
            after = self._append_rows(current, entries, durable_anchor=True)
        except OSError:
            self._core.leases.drop(reservation_id)
            raise
        if isinstance(after, LedgerRefused):
            self._core.leases.drop(reservation_id)
        return after

    def _claim_problem(self, current: Reservation) -> str:
        stored = self._core.claims.read(current.slot, current.attempt)
        if stored is None:
            return "its claim is gone"
        wanted = Claim(
            slot=current.slot,
            attempt=current.attempt,
            pins=current.pins,
            key=current.key,
            approval=dict(current.opened_under),
            after=made_on(stored),
        )
        if stored != wanted.bytes:
            return "its claim is not what was written"
        return "" if self._core.scan.has(wanted.after) else "its claim was made on a row that the chain does not hold"

    def _append_claimed(self, current: Reservation | None, entries: tuple[Entry, ...]) -> Reservation | LedgerRefused:
        rows = self._rows(entries)
        if isinstance(rows, LedgerRefused):
            return rows
        claim = claim_of(entries[0], self._core.index.head)
        if not self._core.claims.publish(claim):
            return self._complete(current, entries[0])
        try:
            return self._written(current, rows)
        except OSError:
            with suppress(OSError):
                self._core.claims.withdraw(claim)
            raise

    def _complete(self, current: Reservation | None, entry: Entry) -> Reservation | LedgerRefused:
        """A claim whose row was never written: its maker was killed between them, and nobody was told. The same request completes it."""
        where = claim_path(entry.slot, entry.attempt)
        stored = self._core.claims.read(entry.slot, entry.attempt)
        claim = parse_claim(stored) if stored is not None else None
        if claim is None or (claim.slot, claim.attempt) != (entry.slot, entry.attempt):
            return LedgerRefused(
                LedgerCode.RECOVERY_REQUIRED,
                f"{entry.slot.key} is in doubt, nothing is sent for it: {where} was altered. `opsguard ledger repair` makes it unknown",
            )
        if not self._core.scan.has(claim.after):
            return LedgerRefused(
                LedgerCode.RECOVERY_REQUIRED,
                f"{entry.slot.key} is in doubt, nothing is sent for it: {where} was made on row {claim.after.sequence}, which the chain "
                "does not hold. `opsguard ledger verify`",
            )
        if claim.pins.digest != entry.pins_digest:
            return LedgerRefused(
                LedgerCode.PIN_CONFLICT,
                f"{entry.slot.key} is claimed for something else ({where}), and its row was never written: "
                "`opsguard ledger repair` makes it unknown, for a person to decide",
            )
        self._core.claims.make_durable(entry.slot)
        return self._append_rows(current, (replace(entry, key=claim.key, approval=claim.approval, pins=claim.pins),))

    def append_unclaimed(self, current: Reservation | None, entry: Entry) -> Reservation | LedgerRefused:
        """For a claim that is there."""
        return self._append_rows(current, (entry,))

    def _append_rows(
        self, current: Reservation | None, entries: tuple[Entry, ...], *, durable_anchor: bool = False
    ) -> Reservation | LedgerRefused:
        rows = self._rows(entries)
        return rows if isinstance(rows, LedgerRefused) else self._written(current, rows, durable_anchor=durable_anchor)

    def _rows(self, entries: tuple[Entry, ...]) -> tuple[Row, ...] | LedgerRefused:
        """Whole and small enough, before anything is durable."""
        try:
            return chain.append(self._core.index.head, entries, at=self._core.now())
        except NotARow as problem:
            return LedgerRefused(LedgerCode.INVALID, f"{problem}: nothing was written")

    def _written(self, current: Reservation | None, rows: tuple[Row, ...], *, durable_anchor: bool = False) -> Reservation:
        key = key_of(rows[0].entry.slot)
        before = self._reader.just_read(key)
        assert isinstance(before, tuple)
        after = [each.reservation for each in before]
        for row in rows:
            following = advance(after[-1] if after else None, _as_read(row), at=row.at)
            if isinstance(following, IllegalEntry):
                raise AssertionError(f"a transition made an entry that cannot follow: {following.why}")  # noqa: TRY004
            after[following.attempt - 1 :] = [following]
        self._core.append(rows, durable_anchor=durable_anchor)
        opened = [each.opened for each in before]
        if len(after) > len(before):
            opened.append(self._core.index.places(key)[-len(rows)])
        self._reader.keep(key, tuple(Attempt(place, each) for place, each in zip(opened, after, strict=True)))
        return after[-1]


def _as_read(row: Row) -> Entry:
    """As it will be read, not the caller's own objects."""
    entry = row.entry
    if entry.pins is not None:
        return parse_row(row.bytes).entry
    if not (entry.receipt or entry.evidence or entry.approval):
        return entry
    return replace(entry, receipt=_copy(entry.receipt), evidence=_copy(entry.evidence), approval=_copy(entry.approval))


def _copy(said: Mapping[str, Json]) -> Mapping[str, Json]:
    return json.loads(canonical_json(said)) if said else {}

"""Repair: only what loses nothing and makes nothing unsent. What else is wrong is listed, and left to a person.

1. An orphan claim becomes `unknown`: somebody claimed the slot, and no row says what followed.
2. A claim that is gone or altered is written again from its opening row; without a row it becomes `unknown` by what is left of it.
3. An altered slot of the anchor is written again, when the other one and the chain agree.
4. A copy, or a loss, that a person accepts: first everything that was still open becomes `unknown`, then the store is ready.
"""

import hashlib
import secrets
from dataclasses import replace

from guards.canonical import Json
from guards.delivery.entry import Entry, Event, Reservation, may_be_replaced
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from resources.ledger.file.claims import Claim, claim_before, parse_claim
from resources.ledger.file.claims import path_of as claim_path
from resources.ledger.file.core import Core
from resources.ledger.file.fence import Fence, FenceReason, FenceState
from resources.ledger.file.index import Doubt, key_of, slot_of
from resources.ledger.file.moving import Mover
from resources.ledger.file.place import identity
from resources.ledger.file.reading import Attempt, Reader
from resources.ledger.file.scan import intact
from resources.ledger.file.segments import path_of
from resources.ledger.file.standing import LOCK, Standing, holds, is_put_back, is_replaced
from resources.ledger.file.tidying import set_aside
from resources.ledger.file.writing import sync, sync_directory
from resources.ledger.interface import Repair, Repairs

_STILL_OPEN = (ReservationState.PREPARED, ReservationState.SENDING)


class Repairer:
    """Used under the store's lock."""

    def __init__(self, core: Core, reader: Reader, mover: Mover) -> None:
        self._core = core
        self._reader = reader
        self._mover = mover
        self._made: list[Repair] = []
        self._is_accepted = False

    def repair(self, *, accept_copy: bool, accept_loss: bool) -> Repairs:
        try:
            return self._repair(accept_copy=accept_copy, accept_loss=accept_loss)
        except BaseException:
            self._core.look_again()  # a doubt may be gone whose row was not written
            raise

    def _repair(self, *, accept_copy: bool, accept_loss: bool) -> Repairs:
        core = self._core
        core.rescan()
        if core.standing.trouble and not self._accept(accept_copy=accept_copy, accept_loss=accept_loss):
            return Repairs(tuple(self._made), tuple(core.scan.faults))
        if accept_copy and not self._is_accepted:  # of a store that is whole: whoever opened it knows that it is not the newest
            self._doubt_what_is_open(core.fence)
        if core.anchor.damaged:
            core.fresh_anchor()
            self._say("the head's anchor was written again: what is left of it, and the chain, agree")
        self._claims_with_rows()
        self._claims_without_rows()
        core.rescan()
        return Repairs(tuple(self._made), tuple(core.scan.faults), is_accepted=self._is_accepted)

    # The whole store

    def _accept(self, *, accept_copy: bool, accept_loss: bool) -> bool:
        """False: it stays as it is."""
        core, fence = self._core, self._core.fence
        newest = core.anchor.newest
        if (newest is not None and newest.is_retired) or (fence is not None and fence.state is FenceState.RETIRED):
            return False
        if fence is not None and fence.reason is FenceReason.ADOPTING:
            return False
        is_here = fence is not None and dict(fence.place) == identity(core.disk, LOCK)
        goes_on = fence is not None and fence.reason is FenceReason.ACCEPTING and is_here and holds(core.scan, fence.head)
        moved = not is_here or self._is_a_copy(fence)
        if goes_on:
            core.write_afresh()  # it may have been a failed sync that cut it short
        else:
            if (core.standing.is_cut and not accept_loss) or (moved and not accept_copy):
                return False
            if core.standing.is_cut and not self._cut_what_is_damaged():
                return False
            is_whole = not core.standing.is_cut and not moved and not accept_copy
            if is_whole and fence is not None and fence.reason is FenceReason.CUT_BACK:
                core.write_fence(replace(fence, state=FenceState.READY, reason=FenceReason.NONE, note="", head=Head()))
                core.rescan()
                self._say("the rows that were gone are there again: the store may send")
                return not core.standing.trouble
        self._doubt_what_is_open(fence)
        return True

    def _is_a_copy(self, fence: Fence | None) -> bool:
        """By anything but its place."""
        core, newest = self._core, self._core.anchor.newest
        if fence is None or fence.state is FenceState.PREPARING or fence.reason is FenceReason.COPIED:
            return True
        if newest is None or fence.state is not FenceState.READY:
            return False
        is_older = fence.generation < newest.generation
        return is_older or is_replaced(core.segments, newest) or is_put_back(core.scan, core.segments, newest)

    def _doubt_what_is_open(self, fence: Fence | None) -> None:
        """Durable first: that somebody has accepted. Then the doubt; only then is it ready."""
        core = self._core
        newest, now = core.anchor.newest, core.now()  # a clock that was set back takes no doubt away
        name = fence.store if fence is not None else newest.store if newest is not None else secrets.token_hex(4)
        accepting = Fence(
            state=FenceState.RECOVERY_REQUIRED,
            store=name,
            place=identity(core.disk, LOCK),
            reason=FenceReason.ACCEPTING,
            accepted=(fence.accepted if fence is not None else 0) + 1,
            accepted_at=max(now, (fence and fence.doubt_before) or now).isoformat(timespec="microseconds"),
            head=core.index.head,
        )
        try:
            core.write_fence(accepting)
            core.accept()
            core.standing = Standing()
            for key in sorted(core.index.in_state(*_STILL_OPEN)):
                current = self._reader.latest(slot_of(key))
                if isinstance(current, Reservation):
                    self._to_unknown(current)
            self._claims_without_rows()
            core.write_fence(replace(accepting, state=FenceState.READY, reason=FenceReason.NONE, head=Head()))
        except OSError:
            # What was not doubted yet is not sent by who goes on here.
            core.standing = replace(core.standing, trouble=core.fence_trouble())
            raise
        self._is_accepted = True
        self._say("it was accepted that this is the store from now on; what was still open is unknown, for a person to resolve")

    def _to_unknown(self, current: Reservation) -> None:
        entry = Entry(
            event=Event.MOVED,
            slot=current.slot,
            attempt=current.attempt,
            state=ReservationState.UNKNOWN,
            fence=current.fence,
            holder=current.holder,
            pins_digest=current.pins.digest,
            reason=Reason.MIGRATED,
        )
        if not isinstance(self._mover.append(current, (entry,)), LedgerRefused):
            self._say(f"{current.slot.key} was {current.state} and is unknown", current.slot)

    def _cut_what_is_damaged(self) -> bool:
        """Behind the last row that is whole: set aside, then cut, so that rows can follow again."""
        core, scan = self._core, self._core.scan
        if core.segments.signature(scan.segment) is None:
            if scan.index.head.sequence:
                return False
            core.segments.create(scan.segment)
            core.rescan()
            return True
        size = scan.end_of_rows
        rest = core.segments.read(scan.segment, size, 1 << 27)
        if rest:
            kept = set_aside(core.disk, f"cut-{scan.segment:06d}-{size}", rest)
            file = core.segments.file(scan.segment)
            core.disk.truncate(file, size)
            sync(core.disk, file)
            self._say(f"what followed the last whole row of {path_of(scan.segment)} was moved to {kept}")
            core.rescan()
        return True

    # Claims

    def _claims_with_rows(self) -> None:
        for key in sorted(self._core.index.doubts):
            attempts = self._reader.attempts(key)
            if isinstance(attempts, Doubt):
                continue
            for attempt in attempts:
                self._write_again(attempt)

    def _write_again(self, attempt: Attempt) -> None:
        held = attempt.reservation
        row = intact(self._core.segments.read(attempt.opened.segment, attempt.opened.offset, attempt.opened.size)[:-1])
        if row is None:
            return
        claim = claim_before(row)
        stored = self._core.claims.read(held.slot, held.attempt)
        if stored == claim.bytes:
            return
        kept = self._set_aside(held.slot, held.attempt, stored) if stored is not None else ""
        self._core.claims.replace(claim)
        self._say(f"the claim on {held.slot.key} was written again from its row{kept}", held.slot)

    def _claims_without_rows(self) -> None:
        index = self._core.index
        if not index.orphans:
            return
        claimed: dict[str, list[int]] = {}
        for slot, attempt in self._core.claims.walk():
            claimed.setdefault(key_of(slot), []).append(attempt)
        for key in sorted(index.orphans):
            slot = slot_of(key)
            before = self._reader.latest(slot)
            if isinstance(before, LedgerRefused) and key in index.rows:
                continue
            current = before if isinstance(before, Reservation) else None
            without_rows = sorted(each for each in claimed.get(key, ()) if current is None or each > current.attempt)
            if without_rows:
                self._orphans_to_unknown(current, slot, without_rows)

    def _orphans_to_unknown(self, current: Reservation | None, slot: Slot, attempts: list[int]) -> None:
        """One attempt is the doubt of them all. The claims above it are set aside once its row names them."""
        if current is None or may_be_replaced(current):
            attempt = current.attempt + 1 if current is not None else 1
            above = [each for each in attempts if each > attempt]
            self._open_unknown(current, slot, attempt, above)
        else:
            above = attempts
            if current.state in _STILL_OPEN:
                self._to_unknown(current)
            self._note_claims(slot, above)
        for each in above:
            stored = self._core.claims.read(slot, each)
            if stored is not None:
                kept = self._set_aside(slot, each, stored)
                path = claim_path(slot, each)
                self._core.disk.unlink(path)
                sync_directory(self._core.disk, path.rpartition("/")[0])
                self._say(f"attempt {each} at {slot.key} was claimed, and its rows are gone{kept}", slot)

    def _note_claims(self, slot: Slot, above: list[int]) -> None:
        current = self._reader.latest(slot)
        said: dict[str, Json] = {"state": "unknown", "note": _claimed(above)}
        if not isinstance(current, Reservation) or said in [dict(each) for each in current.late]:
            return
        entry = Entry(
            event=Event.LATE_EVIDENCE,
            slot=slot,
            attempt=current.attempt,
            state=current.state,
            fence=current.fence,
            holder=current.holder,
            pins_digest=current.pins.digest,
            evidence=said,
        )
        self._mover.append(current, (entry,))

    def _claim_for(self, slot: Slot, attempt: int, above: list[int]) -> Claim:
        """The claim as it stands, durable; or one in its place, with what is left to know of what was meant to be sent."""
        stored = self._core.claims.read(slot, attempt)
        for each in (attempt, *reversed(above)):
            held = self._core.claims.read(slot, each)
            claim = parse_claim(held) if held is not None else None
            if claim is not None and (claim.slot, claim.attempt) == (slot, each):
                pins = claim.pins
                if each == attempt and self._core.scan.has(claim.after):
                    self._core.claims.make_durable(slot)
                    return claim
                break
        else:
            pins = Pins({"altered_claim_sha256": hashlib.sha256(stored or b"").hexdigest()})
        kept = self._set_aside(slot, attempt, stored) if stored is not None else ""
        made = Claim(slot=slot, attempt=attempt, pins=pins, key="repair", approval={}, after=self._core.index.head)
        self._core.claims.replace(made)
        self._say(f"the claim on {slot.key} was altered or is gone, and no row says what it was{kept}", slot)
        return made

    def _open_unknown(self, current: Reservation | None, slot: Slot, attempt: int, above: list[int]) -> None:
        claim = self._claim_for(slot, attempt, above)
        entry = Entry(
            event=Event.OPENED,
            slot=slot,
            attempt=attempt,
            state=ReservationState.UNKNOWN,
            fence=current.fence + 1 if current is not None else 0,
            holder="",
            pins_digest=claim.pins.digest,
            pins=claim.pins,
            key=claim.key,
            reason=Reason.ORPHAN_CLAIM,
            note=_claimed(above),
            approval=claim.approval,
        )
        self._core.index.doubts.pop(key_of(slot), None)
        if not isinstance(self._mover.append_unclaimed(current, entry), LedgerRefused):
            self._say(f"the claim on {slot.key} had no row: it is unknown, for a person to resolve", slot)

    def _set_aside(self, slot: Slot, attempt: int, stored: bytes) -> str:
        name = claim_path(slot, attempt).replace("/", "-")
        return f"; what stood there is in {set_aside(self._core.disk, name[:200], stored)}"

    def _say(self, what: str, slot: Slot | None = None) -> None:
        self._made.append(Repair(what, slot=slot))


def _claimed(above: list[int]) -> str:
    """No more than a note holds."""
    return f"attempt {above[-1]} was claimed as well, and its rows are gone" if above else ""

"""The ledger's calls, pure: the slot's latest attempt and a request in, the entries to append or a refusal out.

A store does three things around each: lock and read the slot, ask here, append what it is told in one durable step. `Ruling` with
neither entries nor refusal is "already so": the same request again finds what it asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from guards.canonical import Json, canonical_json
from guards.delivery.entry import Entry, Event, Reservation, is_used, may_be_replaced
from guards.delivery.nesting import MOST_NESTED, is_too_deep
from guards.delivery.outcome import LONGEST_NOTE, Approval, Outcome, Reason, is_holder
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Grant, Slot

MOST_EVIDENCE_BYTES: Final = 12 * 1024
"""Of canonical JSON, per receipt or evidence: with pins of 48 KiB a row stays below its 64 KiB."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What to append, in order, and what to answer. Both: the refusal itself leaves a trace (authority, late evidence)."""

    entries: tuple[Entry, ...] = ()
    refused: LedgerRefused | None = None


_ALREADY_SO: Final = Ruling()


def reserve(
    current: Reservation | None,
    *,
    slot: Slot,
    pins: Pins,
    key: str,
    now: datetime,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
    approval: Approval | None = None,
    doubt_before: datetime | None = None,
) -> Ruling:
    """A free slot is claimed. One that is taken with equal pins is answered with what is stored, whatever its state.

    `doubt_before`: when a person accepted an older copy of the store. What was due before then may have been sent from the newer one, and
    opens as `unknown`.
    """
    if not is_holder(key):
        return _refuse(LedgerCode.INVALID, "a request key is 1 to 128 of letters, digits and ._:@-")
    if approval is not None and not approval.is_given:
        return _refuse(LedgerCode.APPROVAL, f"the approval for {slot.key} does not say by whom")
    if current is not None:
        if current.pins.digest == pins.digest:
            return _ALREADY_SO
        return _refuse(
            LedgerCode.PIN_CONFLICT,
            f"{slot.key} is reserved for something else (attempt {current.attempt}, {current.state}): `opsguard ledger show {slot.key}`",
        )
    if (not_before is not None and now < not_before) or (not_after is not None and now >= not_after):
        return _refuse(LedgerCode.OUTSIDE_WINDOW, f"{slot.key} is not due at {now:%Y-%m-%d %H:%M:%S} UTC")
    in_doubt = not_before is not None and doubt_before is not None and not_before < doubt_before
    doubted = f"it was due before a copy of the ledger was accepted ({doubt_before:%Y-%m-%d %H:%M:%S} UTC)" if in_doubt else ""
    return Ruling((_open(slot, after=None, pins=pins, key=key, approval=approval, doubted=doubted),))


def not_latest(current: Reservation, reservation_id: str) -> Ruling | None:
    """Refuses calls on an attempt that has been replaced (but for `settle` and `reconcile`, which keep what is said late)."""
    if current.reservation_id == reservation_id:
        return None
    return _refuse(
        LedgerCode.ILLEGAL_EDGE, f"that attempt at {current.slot.key} has been replaced: attempt {current.attempt} is the latest"
    )


def grant(
    current: Reservation | None,
    *,
    holder: str,
    authority: Mapping[str, str] | None = None,
    now: datetime | None = None,
    not_after: datetime | None = None,
    doubt_before: datetime | None = None,
) -> Ruling:
    """`prepared` to `sending`: whoever is told so holds the only right to call the provider. Not from `not_after` on, and not what was
    prepared before an older copy was accepted (`doubt_before`)."""
    if current is None:
        return _NOT_FOUND
    if not is_holder(holder):
        return _refuse(LedgerCode.INVALID, "a holder is 1 to 128 of letters, digits and ._:@-")
    if current.state is ReservationState.SENDING:
        until = "" if current.is_live else ", and its lease has ended: expire it, then observe"
        return _refuse(LedgerCode.BUSY, f"{current.slot.key} is being sent by {current.holder}{until}")
    if current.state is not ReservationState.PREPARED:
        return _illegal(current, "be granted")
    if current.is_contradicted:
        return _refuse(LedgerCode.RECEIPT_CONFLICT, f"late evidence says that {current.slot.key} was sent: it is not sent again")
    if doubted := _missed_by_an_acceptance(current, doubt_before):
        return doubted
    if now is not None and not_after is not None and now >= not_after:
        return _refuse(
            LedgerCode.OUTSIDE_WINDOW, f"{current.slot.key} is no longer due at {now:%Y-%m-%d %H:%M:%S} UTC: it was not granted"
        )
    if current.pins.authority and dict(current.pins.authority) != dict(authority or {}):
        given_up = _move(current, ReservationState.ABANDONED, reason=Reason.AUTHORITY)
        return Ruling(
            (given_up,),
            LedgerRefused(
                LedgerCode.AUTHORITY, f"{current.slot.key} was reserved under another authority: it is abandoned, not sent"
            ),
        )
    return Ruling((_move(current, ReservationState.SENDING, fence=current.fence + 1, holder=holder),))


def settle(current: Reservation | None, *, grant: Grant, outcome: Outcome) -> Ruling:
    """What the holder of `grant` says. From any other grant nothing changes, and what was said is kept."""
    if current is None:
        return _NOT_FOUND
    if invalid := _unacceptable(outcome):
        return _refuse(LedgerCode.INVALID, invalid)
    held = (current.fence, current.holder, current.attempt) == (grant.fence, grant.holder, grant.attempt)
    if held and _says(current, outcome):
        return _ALREADY_SO
    if not held or current.state is not ReservationState.SENDING:
        return _late(
            current,
            {**outcome.as_json(), "fence": grant.fence, "holder": grant.holder, "attempt": grant.attempt},
            LedgerCode.STALE_GRANT,
            f"the grant on {current.slot.key} is not the newest ({current.state} now): what it says was kept, nothing changed",
        )
    if outcome.state is ReservationState.KNOWN_FAILURE and not current.may_fail_known:
        return _refuse(
            LedgerCode.ILLEGAL_EDGE, f"a {current.slot.kind} slot cannot fail for certain: settle {current.slot.key} as unknown"
        )
    return Ruling((_move(current, outcome.state, receipt=outcome.receipt, reason=outcome.reason, note=outcome.note),))


def expire(current: Reservation | None) -> Ruling:
    """`sending` whose holder is gone becomes `unknown`. It never sends again."""
    if current is None:
        return _NOT_FOUND
    if current.state is ReservationState.UNKNOWN:
        return _ALREADY_SO
    if current.state is not ReservationState.SENDING:
        return _illegal(current, "expire")
    if current.is_live:
        return _refuse(
            LedgerCode.LIVE, f"{current.slot.key} is being sent by {current.holder}, whose lease has not ended: wait for it"
        )
    return Ruling((_move(current, ReservationState.UNKNOWN, reason=Reason.LEASE_ENDED),))


def abandon(current: Reservation | None, *, reason: Reason, note: str = "", doubt_before: datetime | None = None) -> Ruling:
    """A reservation that nobody was granted is given up; the slot stays taken. `doubt_before` as in `grant`."""
    if current is None:
        return _NOT_FOUND
    if len(note) > LONGEST_NOTE:
        return _refuse(LedgerCode.INVALID, f"a note has {LONGEST_NOTE} characters at most")
    if current.state is ReservationState.ABANDONED:
        return _ALREADY_SO
    if current.state is not ReservationState.PREPARED:
        return _illegal(current, "be abandoned")
    if doubted := _missed_by_an_acceptance(current, doubt_before):
        return doubted
    return Ruling((_move(current, ReservationState.ABANDONED, reason=reason, note=note),))


def resolve(current: Reservation | None, *, was_sent: bool, evidence: Mapping[str, Json], approval: Approval) -> Ruling:
    """Evidence and a person end the doubt. Never "not sent" against late evidence that it was."""
    if current is None:
        return _NOT_FOUND
    if not approval.is_given:
        return _refuse(LedgerCode.APPROVAL, f"resolving {current.slot.key} needs a person: say by whom")
    if invalid := _unacceptable_evidence(evidence):
        return _refuse(LedgerCode.INVALID, invalid)
    wanted = ReservationState.RESOLVED_SENT if was_sent else ReservationState.RESOLVED_NOT_SENT
    if current.state is wanted and dict(current.evidence) == dict(evidence):
        return _ALREADY_SO
    if current.state is not ReservationState.UNKNOWN:
        return _illegal(current, "be resolved")
    if not was_sent and current.is_contradicted:
        return _refuse(
            LedgerCode.RECEIPT_CONFLICT, f"late evidence says that {current.slot.key} was sent: it cannot be resolved as not sent"
        )
    return Ruling((_move(current, wanted, evidence=evidence, approval=approval.as_json()),))


def replace(
    current: Reservation | None,
    *,
    approval: Approval,
    key: str,
    pins: Pins | None = None,
    doubt_before: datetime | None = None,
) -> Ruling:
    """Attempt n+1 of a slot whose attempt n provably was not sent, once per approval. Without `pins`: the same again.

    `doubt_before` as in `reserve`: over an attempt that ended before then, the newer store may have made another, so this one opens as
    `unknown`.
    """
    if current is None:
        return _NOT_FOUND
    if not is_holder(key):
        return _refuse(LedgerCode.INVALID, "a request key is 1 to 128 of letters, digits and ._:@-")
    if not approval.is_given:
        return _refuse(LedgerCode.APPROVAL, f"another attempt at {current.slot.key} needs a person: say by whom")
    if current.is_contradicted:
        return _refuse(LedgerCode.RECEIPT_CONFLICT, f"late evidence says that {current.slot.key} was sent: it is not sent again")
    if not may_be_replaced(current):
        return _illegal(current, "be replaced")
    if is_used(current, approval.as_json()):
        return _refuse(LedgerCode.APPROVAL, f"this approval has opened an attempt at {current.slot.key} already: approve again")
    in_doubt = doubt_before is not None and current.changed_at < doubt_before
    doubted = f"it had failed before a copy of the ledger was accepted ({doubt_before:%Y-%m-%d %H:%M:%S} UTC)" if in_doubt else ""
    return Ruling((_open(current.slot, after=current, pins=pins or current.pins, key=key, approval=approval, doubted=doubted),))


def audit(current: Reservation | None) -> Ruling:
    """`delivered`, seen to be so once more. The receipt is inherited."""
    if current is None:
        return _NOT_FOUND
    if current.state is ReservationState.SENT_AUDITED:
        return _ALREADY_SO
    if current.state is not ReservationState.DELIVERED:
        return _illegal(current, "be audited")
    return Ruling((_move(current, ReservationState.SENT_AUDITED, receipt=current.receipt),))


def doubt(current: Reservation) -> Ruling:
    """A person accepted an older copy of the store: what was open in it may have been sent from the newer one."""
    if current.state not in (ReservationState.PREPARED, ReservationState.SENDING):
        return _ALREADY_SO
    note = f"it was {current.state} in a copy of the ledger that was accepted"
    return Ruling((_move(current, ReservationState.UNKNOWN, reason=Reason.MIGRATED, note=note),))


def _missed_by_an_acceptance(current: Reservation, doubt_before: datetime | None) -> Ruling | None:
    """What was open then was made doubt, but for a slot that nothing could be written to: its record was damaged, and is whole again."""
    if doubt_before is None or current.changed_at >= doubt_before:
        return None
    why = (
        f"{current.slot.key} was reserved before a copy of the ledger was accepted ({doubt_before:%Y-%m-%d %H:%M:%S} UTC) and may have "
        "been sent since: it is unknown from now on"
    )
    return Ruling(doubt(current).entries, LedgerRefused(LedgerCode.ILLEGAL_EDGE, why))


def reconcile(current: Reservation | None, *, receipt: Mapping[str, Json], reservation_id: str | None = None) -> Ruling:
    """Outside evidence that `reservation_id` (None: the latest) was sent, in one step from wherever it stands. What contradicts it is an error, and is kept:
    of an attempt that has been replaced, as late evidence at the latest one, which then is not sent."""
    if current is None:
        return _NOT_FOUND
    if invalid := _unacceptable_evidence(receipt):
        return _refuse(LedgerCode.INVALID, invalid)
    if reservation_id not in (None, current.reservation_id):
        said: dict[str, Json] = {
            "state": ReservationState.DELIVERED.value,
            "receipt": dict(receipt),
            "reservation": reservation_id,
        }
        return _late(
            current,
            said,
            LedgerCode.RECEIPT_CONFLICT,
            f"an earlier attempt at {current.slot.key} was sent, and attempt {current.attempt} is {current.state}: the receipt was kept; "
            "look at both before anything else",
        )
    state = current.state
    if state is ReservationState.SENDING:
        return Ruling((_move(current, ReservationState.DELIVERED, receipt=receipt, reason=Reason.RECONCILED),))
    if state in (ReservationState.PREPARED, ReservationState.UNKNOWN):
        resolved = _move(current, ReservationState.RESOLVED_SENT, receipt=receipt, evidence=receipt, reason=Reason.RECONCILED)
        doubted = _move(current, ReservationState.UNKNOWN, reason=Reason.RECONCILED)
        return Ruling((resolved,) if state is ReservationState.UNKNOWN else (doubted, resolved))
    if state.is_proven_sent and dict(receipt) in (dict(current.receipt), dict(current.evidence)):
        return _ALREADY_SO
    return _late(
        current,
        {"state": ReservationState.DELIVERED.value, "receipt": dict(receipt)},
        LedgerCode.RECEIPT_CONFLICT,
        f"{current.slot.key} is {state}, and this receipt says otherwise: it was kept; look at both before anything else",
    )


_NOT_FOUND: Final = Ruling(
    refused=LedgerRefused(LedgerCode.NOT_FOUND, "the ledger holds no such reservation: `opsguard ledger status` lists them")
)


def _refuse(code: LedgerCode, message: str) -> Ruling:
    return Ruling(refused=LedgerRefused(code, message))


def _illegal(current: Reservation, what: str) -> Ruling:
    return _refuse(
        LedgerCode.ILLEGAL_EDGE, f"{current.slot.key} is {current.state} (attempt {current.attempt}) and cannot {what}"
    )


def _late(current: Reservation, said: Mapping[str, Json], code: LedgerCode, message: str) -> Ruling:
    """The same thing said late twice is kept once."""
    kept = Entry(
        event=Event.LATE_EVIDENCE,
        slot=current.slot,
        attempt=current.attempt,
        state=current.state,
        fence=current.fence,
        holder=current.holder,
        pins_digest=current.pins.digest,
        evidence=said,
    )
    return Ruling(() if dict(said) in [dict(each) for each in current.late] else (kept,), LedgerRefused(code, message))


def _open(slot: Slot, *, after: Reservation | None, pins: Pins, key: str, approval: Approval | None, doubted: str) -> Entry:
    """The attempt that follows `after` (None: the first). `doubted`: "" or why an attempt that is not known may have sent it."""
    return Entry(
        event=Event.OPENED,
        slot=slot,
        attempt=after.attempt + 1 if after else 1,
        state=ReservationState.UNKNOWN if doubted else ReservationState.PREPARED,
        fence=after.fence + 1 if after else 0,
        holder="",
        pins_digest=pins.digest,
        pins=pins,
        key=key,
        reason=Reason.MIGRATED if doubted else None,
        note=doubted,
        approval=approval.as_json() if approval else {},
    )


def _move(
    current: Reservation,
    state: ReservationState,
    *,
    fence: int | None = None,
    holder: str | None = None,
    receipt: Mapping[str, Json] | None = None,
    evidence: Mapping[str, Json] | None = None,
    approval: Mapping[str, Json] | None = None,
    reason: Reason | None = None,
    note: str = "",
) -> Entry:
    return Entry(
        event=Event.MOVED,
        slot=current.slot,
        attempt=current.attempt,
        state=state,
        fence=current.fence if fence is None else fence,
        holder=current.holder if holder is None else holder,
        pins_digest=current.pins.digest,
        reason=reason,
        note=note,
        receipt=receipt or {},
        evidence=evidence or {},
        approval=approval or {},
    )


def _says(current: Reservation, outcome: Outcome) -> bool:
    """The stored state already is what this outcome asks for (the answer to the first settle was lost)."""
    return (
        current.state is outcome.state
        and dict(current.receipt) == dict(outcome.receipt)
        and (current.reason, current.note) == (outcome.reason, outcome.note)
    )


def _unacceptable(outcome: Outcome) -> str:
    if outcome.state is ReservationState.DELIVERED:
        return _unacceptable_evidence(outcome.receipt)
    if outcome.state not in (ReservationState.KNOWN_FAILURE, ReservationState.UNKNOWN, ReservationState.ABANDONED):
        return f"a holder does not settle as {outcome.state}"
    if outcome.reason is None or outcome.receipt:
        return f"{outcome.state} is settled with a reason and without a receipt"
    return f"a note has {LONGEST_NOTE} characters at most" if len(outcome.note) > LONGEST_NOTE else ""


def _unacceptable_evidence(evidence: Mapping[str, Json]) -> str:
    if not evidence:
        return "evidence is needed, and there is none"
    if is_too_deep(evidence):
        return f"evidence is nested {MOST_NESTED} deep at most"
    size = len(canonical_json(dict(evidence)))
    return f"evidence takes {MOST_EVIDENCE_BYTES} bytes at most, this has {size}" if size > MOST_EVIDENCE_BYTES else ""

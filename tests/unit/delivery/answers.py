"""Every call of the ledger on a slot in every state, and what comes of it, as text: the state machine as a person reads it.

python -m tests.unit.delivery.answers > tests/unit/delivery/answers.txt
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from guards.canonical import Json, canonical_json
from guards.delivery import transition
from guards.delivery.entry import Entry, Event, Reservation
from guards.delivery.nesting import MOST_NESTED
from guards.delivery.outcome import LONGEST_NOTE, Approval, Outcome, Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.pins import AUTHORITY, Pins
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Slot
from guards.delivery.transition import MOST_EVIDENCE_BYTES, Ruling
from tests.unit.delivery.entries import KIM, LEE, NOW, OTHER_PINS, PINS, RECEIPT, carried_out, grant_of, in_state

REMINDER: Final = Slot("acme-1", "2026-11-30-r1", "reminder")
WEEKLY: Final = Slot("acme-1", "2026-W48", "weekly")
LATER: Final = NOW + timedelta(hours=1)
NOBODY: Final = Approval(0, " ")
OTHER: Final = {"partner_copy": {"size_bytes": 8}}
SEEN: Final = {"seen": "in the channel"}
AUTHORIZED: Final = Pins(
    {"name": "x"}, {name: "7" if name in ("feature_epoch", "canonical_sequence") else "a" * 64 for name in AUTHORITY}
)

Held = Reservation | None


def live(held: Reservation) -> Reservation:
    return replace(held, is_live=True, lease_expires_at=LATER)


def contradicted(held: Reservation) -> Reservation:
    """Late evidence says that it was sent."""
    return replace(held, late=({"state": "delivered", "receipt": OTHER},))


def second(held: Reservation) -> Reservation:
    return carried_out(held, transition.replace(held, approval=LEE, key="run-2"), at=LATER)


def authorized() -> Reservation:
    return carried_out(None, transition.reserve(None, slot=REMINDER, pins=AUTHORIZED, key="run-1", now=NOW, approval=KIM))


def situations() -> Iterator[tuple[str, Held]]:
    yield "free", None
    for state in S:
        yield state.value, in_state(state, REMINDER)
        if state is S.SENDING:
            yield "sending, live", live(in_state(state, REMINDER))
    yield "prepared, under an authority", authorized()
    yield "prepared, said to be sent", contradicted(in_state(S.PREPARED, REMINDER))
    yield "unknown, said to be sent", contradicted(in_state(S.UNKNOWN, REMINDER))
    yield "known_failure, said to be sent", contradicted(in_state(S.KNOWN_FAILURE, REMINDER))
    yield "prepared, second attempt", second(in_state(S.KNOWN_FAILURE, REMINDER))
    for state in (S.SENDING, S.RESOLVED_NOT_SENT):
        yield f"{state}, weekly", in_state(state, WEEKLY)


def stale(held: Held, outcome: Outcome) -> Ruling:
    newest = grant_of(held or in_state(S.SENDING, REMINDER))
    return transition.settle(held, grant=replace(newest, fence=newest.fence + 7), outcome=outcome)


def settle(outcome: Outcome) -> Callable[[Held], Ruling]:
    return lambda held: transition.settle(held, grant=grant_of(held or in_state(S.SENDING, REMINDER)), outcome=outcome)


def reserve(**changes: object) -> Callable[[Held], Ruling]:
    def call(held: Held) -> Ruling:
        asked = {"slot": held.slot if held else REMINDER, "pins": PINS, "key": "run-9", "now": LATER, "approval": LEE, **changes}
        return transition.reserve(held, **asked)  # type: ignore[arg-type]

    return call


def too_large(size: int) -> dict[str, Json]:
    """Evidence of so many bytes."""
    return {"x": "y" * (size - len(canonical_json({"x": ""})))}


def nested(deep: int) -> dict[str, Json]:
    made: dict[str, Json] = {}
    for _ in range(deep - 1):
        made = {"x": made}
    return made


CALLS: Final[Mapping[str, Callable[[Held], Ruling]]] = {
    "reserve": reserve(),
    "reserve, nobody's approval needed": reserve(approval=None),
    "reserve, other pins": reserve(pins=OTHER_PINS),
    "reserve, a key that is none": reserve(key="run 9"),
    "reserve, approved by nobody": reserve(approval=NOBODY),
    "reserve, before its window": reserve(not_before=LATER + timedelta(seconds=1)),
    "reserve, as its window opens": reserve(not_before=LATER, not_after=LATER + timedelta(seconds=1)),
    "reserve, as its window closes": reserve(not_before=NOW, not_after=LATER),
    "reserve, due before a copy was accepted": reserve(not_before=NOW, doubt_before=NOW + timedelta(seconds=1)),
    "reserve, due as a copy was accepted": reserve(not_before=NOW, doubt_before=NOW),
    "grant": lambda held: transition.grant(held, holder="run-9"),
    "grant, a holder that is none": lambda held: transition.grant(held, holder=""),
    "grant, the same authority": lambda held: transition.grant(held, holder="run-9", authority=AUTHORIZED.authority),
    "grant, another authority": lambda held: transition.grant(
        held, holder="run-9", authority={**AUTHORIZED.authority, "feature_epoch": "8"}
    ),
    "grant, before the window closes": lambda held: transition.grant(
        held, holder="run-9", now=NOW, not_after=NOW + timedelta(seconds=1)
    ),
    "grant, as the window closes": lambda held: transition.grant(held, holder="run-9", now=NOW, not_after=NOW),
    "grant, prepared before a copy was accepted": lambda held: transition.grant(
        held, holder="run-9", doubt_before=NOW + timedelta(seconds=1)
    ),
    "grant, prepared as a copy was accepted": lambda held: transition.grant(held, holder="run-9", doubt_before=NOW),
    "settle, delivered": settle(delivered(RECEIPT)),
    "settle, delivered with another receipt": settle(delivered(OTHER)),
    "settle, delivered without a receipt": settle(delivered({})),
    "settle, known failure": settle(known_failure(Reason.REJECTED)),
    "settle, known failure with a note": settle(known_failure(Reason.REJECTED, "422")),
    "settle, unknown": settle(unknown(Reason.NO_ANSWER)),
    "settle, abandoned": settle(abandoned(Reason.STALE, "x" * LONGEST_NOTE)),
    "settle, abandoned with a long note": settle(abandoned(Reason.STALE, "x" * (LONGEST_NOTE + 1))),
    "settle, unknown with a receipt": settle(Outcome(S.UNKNOWN, receipt=RECEIPT, reason=Reason.NO_ANSWER)),
    "settle, as what no holder says": settle(Outcome(S.RESOLVED_SENT, receipt=RECEIPT)),
    "settle, delivered by an older grant": lambda held: stale(held, delivered(OTHER)),
    "settle, unknown by an older grant": lambda held: stale(held, unknown(Reason.NO_ANSWER, "timed out")),
    "expire": transition.expire,
    "abandon": lambda held: transition.abandon(held, reason=Reason.WITHDRAWN, note="x" * LONGEST_NOTE),
    "abandon, without a note": lambda held: transition.abandon(held, reason=Reason.STALE),
    "abandon, with a long note": lambda held: transition.abandon(held, reason=Reason.WITHDRAWN, note="x" * (LONGEST_NOTE + 1)),
    "abandon, prepared before a copy was accepted": lambda held: transition.abandon(
        held, reason=Reason.WITHDRAWN, doubt_before=NOW + timedelta(seconds=1)
    ),
    "abandon, prepared as a copy was accepted": lambda held: transition.abandon(held, reason=Reason.WITHDRAWN, doubt_before=NOW),
    "resolve as sent": lambda held: transition.resolve(held, was_sent=True, evidence=SEEN, approval=LEE),
    "resolve as sent, the same again": lambda held: transition.resolve(
        held, was_sent=True, evidence={"seen": True}, approval=LEE
    ),
    "resolve as not sent": lambda held: transition.resolve(held, was_sent=False, evidence=SEEN, approval=LEE),
    "resolve, by nobody": lambda held: transition.resolve(held, was_sent=True, evidence=SEEN, approval=NOBODY),
    "resolve, without evidence": lambda held: transition.resolve(held, was_sent=True, evidence={}, approval=LEE),
    "resolve, with the most evidence": lambda held: transition.resolve(
        held, was_sent=True, evidence=too_large(MOST_EVIDENCE_BYTES), approval=LEE
    ),
    "resolve, with too much evidence": lambda held: transition.resolve(
        held, was_sent=True, evidence=too_large(MOST_EVIDENCE_BYTES + 1), approval=LEE
    ),
    "resolve, with evidence nested as deep as may be": lambda held: transition.resolve(
        held, was_sent=True, evidence=nested(MOST_NESTED), approval=LEE
    ),
    "resolve, with evidence nested too deep": lambda held: transition.resolve(
        held, was_sent=True, evidence=nested(MOST_NESTED + 1), approval=LEE
    ),
    "replace": lambda held: transition.replace(held, approval=LEE, key="run-9"),
    "replace, with other pins": lambda held: transition.replace(held, approval=LEE, key="run-9", pins=OTHER_PINS),
    "replace, a key that is none": lambda held: transition.replace(held, approval=LEE, key=""),
    "replace, by nobody": lambda held: transition.replace(held, approval=NOBODY, key="run-9"),
    "replace, by an approval that was used": lambda held: transition.replace(held, approval=KIM, key="run-9"),
    "replace, failed before a copy was accepted": lambda held: transition.replace(
        held, approval=LEE, key="run-9", doubt_before=NOW + timedelta(seconds=1)
    ),
    "replace, failed as a copy was accepted": lambda held: transition.replace(held, approval=LEE, key="run-9", doubt_before=NOW),
    "audit": transition.audit,
    "reconcile": lambda held: transition.reconcile(held, receipt=RECEIPT),
    "reconcile, with another receipt": lambda held: transition.reconcile(held, receipt=OTHER),
    "reconcile, with what resolved it": lambda held: transition.reconcile(held, receipt={"seen": True}),
    "reconcile, without a receipt": lambda held: transition.reconcile(held, receipt={}),
    "reconcile, the first attempt": lambda held: transition.reconcile(
        held, receipt=OTHER, reservation_id=REMINDER.reservation_id(1)
    ),
    "doubt what was open": lambda held: transition.doubt(held) if held is not None else Ruling(),
    "a call on the first attempt": lambda held: (
        (held is not None and transition.not_latest(held, held.slot.reservation_id(1))) or Ruling()
    ),
}


def answers() -> Iterator[str]:
    """A block per call; an answer that several states share stands once, `every other` being those that are not named in the block."""
    held = list(situations())
    for name, call in CALLS.items():
        yield f"\n{name}"
        said: dict[tuple[str, ...], list[str]] = {}
        for state, reservation in held:
            said.setdefault(tuple(spelt(reservation, call(reservation))), []).append(state)
        for lines, states in said.items():
            yield f"    {'every other' if len(states) > len(held) / 2 else ' / '.join(states)}"
            yield from (f"        {line}" for line in lines)


def spelt(held: Held, ruling: Ruling) -> Iterator[str]:
    """Of rows and of the reservation only what is not as it was before."""
    if not ruling.entries and ruling.refused is None:
        yield "already so"
    if ruling.refused is not None:
        yield f"refused as {ruling.refused.code}: {_named(ruling.refused.message, held)}"
    before = held
    for entry in ruling.entries:
        after = carried_out(before, Ruling((entry,)), at=LATER)
        yield f"writes {_EVENTS[entry.event]}{_changed(_of_entry(entry), _where(before))}"
        more = len(after.late) - len(before.late if before else ())
        yield f"leaves it{_changed(_of_reservation(after), _of_reservation(before))}{f', late evidence +{more}' if more else ''}"
        before = after


_EVENTS: Final = {Event.OPENED: "a first row", Event.MOVED: "a move", Event.LATE_EVIDENCE: "late evidence"}
Facts = dict[str, object]


def _where(held: Held) -> Facts:
    if held is None:
        return {}
    return {
        "state": held.state,
        "attempt": held.attempt,
        "fence": held.fence,
        "holder": held.holder,
        "pins": _pins(held.pins.digest),
    }


def _of_entry(entry: Entry) -> Facts:
    return {
        "state": entry.state,
        "attempt": entry.attempt,
        "fence": entry.fence,
        "holder": entry.holder,
        "pins": _pins(entry.pins_digest),
        "whole pins": "yes" if entry.pins is not None else "",
        "key": entry.key,
        "reason": entry.reason,
        "note": _short(entry.note),
        "receipt": _short(entry.receipt),
        "evidence": _short(entry.evidence),
        "approval": entry.approval.get("approved_by"),
    }


def _of_reservation(held: Held) -> Facts:
    if held is None:
        return {}
    return {
        **_where(held),
        "key": held.key,
        "opened": f"{held.opened_at:%H:%M}",
        "changed": f"{held.changed_at:%H:%M}",
        "opened under": held.opened_under.get("approved_by"),
        "reason": held.reason,
        "note": _short(held.note),
        "receipt": _short(held.receipt),
        "evidence": _short(held.evidence),
        "approval": held.approval.get("approved_by"),
        "approvals used": len(held.used),
        "lease until": f"{held.lease_expires_at:%H:%M}" if held.lease_expires_at else "",
        "live": "yes" if held.is_live else "",
    }


def _changed(now: Facts, before: Facts) -> str:
    said = {name: value or "none" for name, value in now.items() if (value or None) != (before.get(name) or None)}
    return "".join(f", {name} {value}" for name, value in said.items())


def _named(message: str, held: Held) -> str:
    """What is the same but for slot, state and attempt stands once."""
    slot = held.slot if held is not None else REMINDER
    text = message.replace(slot.key, "SLOT")
    if held is not None:
        text = text.replace(f"SLOT is {held.state}", "SLOT is STATE").replace(
            f"attempt {held.attempt}, {held.state}", "attempt N, STATE"
        )
        text = text.replace(f"attempt {held.attempt} is {held.state}", "attempt N is STATE").replace(
            f"({held.state} now)", "(STATE now)"
        )
    return text


def _pins(digest: str) -> str:
    return {PINS.digest: "as pinned", OTHER_PINS.digest: "others", AUTHORIZED.digest: "with authority"}[digest]


def _short(said: str | Mapping[str, Json]) -> str:
    text = said if isinstance(said, str) else canonical_json(said).decode() if said else ""
    return text if len(text) <= 200 else f"{text[:20]}... ({len(text)} characters)"


if __name__ == "__main__":
    print("\n".join(answers()).strip())

"""Every pair of states, generated from the closed table: what is an edge can happen, what is not cannot be stored."""

from dataclasses import replace

import pytest

from guards.delivery.entry import Entry, Event, IllegalEntry, Reservation, advance, may_be_replaced
from guards.delivery.outcome import Reason
from guards.delivery.reservation import EDGES, ReservationState
from tests.unit.delivery.entries import FEED, KIM, NOW, PINS, RECEIPT, WEEKLY, in_state

pytestmark = pytest.mark.fast

STATES = tuple(ReservationState)


def moving(before: Reservation, after: ReservationState, **changes: object) -> Entry:
    granted = after is ReservationState.SENDING
    entry = Entry(
        event=Event.MOVED,
        slot=before.slot,
        attempt=before.attempt,
        state=after,
        fence=before.fence + granted,
        holder="run-9" if granted else before.holder,
        pins_digest=before.pins.digest,
        receipt=before.receipt or (RECEIPT if after.is_proven_sent else {}),
        evidence={"asked": "them"} if after is ReservationState.RESOLVED_NOT_SENT else {},
    )
    return replace(entry, **changes)


@pytest.mark.parametrize("after", STATES)
@pytest.mark.parametrize("before", STATES)
def test_a_reservation_moves_along_an_edge_of_the_table_and_along_no_other(before, after):
    held = in_state(before)
    moved = advance(held, moving(held, after), at=NOW)
    if (before, after) in EDGES:
        assert isinstance(moved, Reservation)
        assert moved.state is after
    else:
        assert moved == IllegalEntry(f"no edge from {before} to {after}")


@pytest.mark.parametrize("reason", [None, *Reason])
@pytest.mark.parametrize("state", STATES)
def test_an_attempt_opens_as_prepared_or_as_unknown_when_it_was_found(state, reason):
    """Opened as unknown by anything else, a slot would be taken without anybody having asked for it."""
    opened = Entry(
        event=Event.OPENED,
        slot=FEED,
        attempt=1,
        state=state,
        fence=0,
        holder="",
        pins_digest=PINS.digest,
        pins=PINS,
        key="run-1",
        reason=reason,
        evidence={"claim": "found"},
    )
    was_found = reason in (Reason.MIGRATED, Reason.ORPHAN_CLAIM)
    after = advance(None, opened, at=NOW)
    if state is ReservationState.PREPARED or (state is ReservationState.UNKNOWN and was_found):
        assert isinstance(after, Reservation)
        assert (after.state, after.evidence) == (state, opened.evidence)
    elif state is ReservationState.UNKNOWN:
        assert after == IllegalEntry("an attempt opened as unknown that was neither imported nor an orphan claim")
    else:
        assert after == IllegalEntry(f"an attempt opened as {state}")


@pytest.mark.parametrize("state", STATES)
def test_what_a_state_says_of_itself_agrees_with_the_table(state):
    assert state.is_terminal == all(before is not state for before, _ in EDGES)
    assert not (state.is_proven_sent and state.is_unresolved)
    if state.is_unresolved:
        assert not state.is_terminal


@pytest.mark.parametrize("before", STATES)
def test_nothing_moves_before_it_was_opened(before):
    held = in_state(before)
    assert advance(None, moving(held, ReservationState.UNKNOWN), at=NOW) == IllegalEntry("moved before it was opened")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"attempt": 2}, "attempt 2 moved while 1 is the latest"),
        ({"pins_digest": "0" * 64}, "its pins changed"),
        ({"fence": 7}, "moved to delivered by run-1 with fence 7"),
        ({"holder": "run-2"}, "moved to delivered by run-2 with fence 1"),
        ({"holder": ""}, "moved to delivered by nobody with fence 1"),
        ({"receipt": {}}, "delivered without evidence"),
        ({"note": "n" * 501}, "a note of 501 characters"),
    ],
)
def test_a_stored_move_that_this_program_would_not_have_made_is_named(changes, why):
    held = in_state(ReservationState.SENDING)
    assert advance(held, moving(held, ReservationState.DELIVERED, **changes), at=NOW) == IllegalEntry(why)


@pytest.mark.parametrize("holder", ["", "free text", "\x1b[31m", "n" * 129])
def test_a_stored_grant_to_what_is_no_holder_is_named(holder):
    """A crafted export: a terminal's control characters as the holder, or nobody at all who may call the provider."""
    held = in_state(ReservationState.PREPARED)
    assert advance(held, moving(held, ReservationState.SENDING, holder=holder), at=NOW) == IllegalEntry(
        "granted to what is no holder"
    )


def test_a_stored_resolution_needs_evidence_whatever_it_says():
    held = in_state(ReservationState.UNKNOWN)
    forged = moving(held, ReservationState.RESOLVED_NOT_SENT, evidence={}, receipt=RECEIPT)
    assert advance(held, forged, at=NOW) == IllegalEntry("resolved_not_sent without evidence")


def test_a_stored_failure_of_a_kind_that_cannot_fail_for_certain_is_named_unless_it_was_imported():
    held = in_state(ReservationState.SENDING, WEEKLY)
    failed = moving(held, ReservationState.KNOWN_FAILURE, reason=Reason.REJECTED)
    assert advance(held, failed, at=NOW) == IllegalEntry("a weekly slot failed for certain")
    imported = advance(held, replace(failed, reason=Reason.MIGRATED), at=NOW)
    assert isinstance(imported, Reservation)
    assert not may_be_replaced(imported)


def test_an_audit_inherits_the_receipt_and_never_replaces_it():
    held = in_state(ReservationState.DELIVERED)
    forged = moving(held, ReservationState.SENT_AUDITED, receipt={"partner_copy": {"size_bytes": 8}})
    assert advance(held, forged, at=NOW) == IllegalEntry("an audit replaced the receipt")


def opening(**changes: object) -> Entry:
    entry = Entry(
        event=Event.OPENED,
        slot=FEED,
        attempt=2,
        state=ReservationState.PREPARED,
        fence=2,
        holder="",
        pins_digest=PINS.digest,
        pins=PINS,
        key="run-2",
    )
    return replace(entry, **changes)


@pytest.mark.parametrize(
    ("before", "changes", "why"),
    [
        (ReservationState.KNOWN_FAILURE, {"pins": None}, "an attempt opened without the pins its digest is of"),
        (ReservationState.KNOWN_FAILURE, {"pins_digest": "0" * 64}, "an attempt opened without the pins its digest is of"),
        (ReservationState.KNOWN_FAILURE, {"attempt": 3}, "attempt 3 opened after 1"),
        (ReservationState.KNOWN_FAILURE, {"fence": 1}, "attempt 2 opened with fence 1 by nobody"),
        (ReservationState.KNOWN_FAILURE, {"holder": "run-2"}, "attempt 2 opened with fence 2 by run-2"),
        (ReservationState.KNOWN_FAILURE, {"key": "free text"}, "attempt 2 opened under a request key that is none"),
        (
            ReservationState.KNOWN_FAILURE,
            {"approval": KIM.as_json()},
            "attempt 2 opened under an approval that had opened one before",
        ),
        (ReservationState.UNKNOWN, {}, "attempt 2 opened over one that is unknown"),
        (ReservationState.DELIVERED, {}, "attempt 2 opened over one that is delivered"),
    ],
)
def test_a_stored_attempt_that_could_not_have_opened_is_named(before, changes, why):
    assert advance(in_state(before), opening(**changes), at=NOW) == IllegalEntry(why)


def test_the_first_attempt_is_number_one():
    assert advance(None, opening(), at=NOW) == IllegalEntry("attempt 2 opened after none")


def late(held: Reservation, **changes: object) -> Entry:
    return replace(moving(held, held.state, **changes), event=Event.LATE_EVIDENCE, fence=held.fence, holder=held.holder)


def test_late_evidence_changes_no_state():
    held = in_state(ReservationState.UNKNOWN)
    told = advance(held, late(held, evidence={"state": "delivered"}), at=NOW)
    assert isinstance(told, Reservation)
    assert (told.state, told.is_contradicted) == (ReservationState.UNKNOWN, True)
    assert advance(held, late(held, state=ReservationState.DELIVERED), at=NOW) == IllegalEntry(
        "late evidence changed unknown to delivered"
    )
    assert advance(None, late(held), at=NOW) == IllegalEntry("moved before it was opened")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"attempt": 2}, "attempt 2 moved while 1 is the latest"),
        ({"slot": WEEKLY}, "attempt 1 moved while 1 is the latest"),
        ({"pins_digest": "0" * 64}, "its pins changed"),
        ({"state": ReservationState.UNKNOWN}, "late evidence changed delivered to unknown"),
    ],
)
def test_late_evidence_about_anything_but_the_latest_attempt_as_it_stands_is_named(changes, why):
    held = in_state(ReservationState.DELIVERED)
    late = replace(moving(held, ReservationState.DELIVERED), event=Event.LATE_EVIDENCE, evidence={"state": "unknown"})
    assert isinstance(advance(held, late, at=NOW), Reservation)
    assert advance(held, replace(late, **changes), at=NOW) == IllegalEntry(why)
    assert advance(None, late, at=NOW) == IllegalEntry("moved before it was opened")

"""The ledger's calls: every precondition, effect and refusal of the table in the specification."""

import hashlib
from datetime import timedelta

import pytest

from guards.canonical import canonical_json
from guards.delivery import transition
from guards.delivery.entry import digest_of, is_used, thin
from guards.delivery.outcome import LONGEST_NOTE, Approval, Outcome, Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.pins import AUTHORITY, Pins
from guards.delivery.refusal import LedgerCode
from guards.delivery.reservation import ReservationState as S
from guards.delivery.transition import MOST_EVIDENCE_BYTES
from tests.unit.delivery.entries import (
    FEED,
    KIM,
    LEE,
    NOW,
    OTHER_PINS,
    PINS,
    RECEIPT,
    WEEKLY,
    carried_out,
    grant_of,
    in_state,
    prepared,
    sending,
)

pytestmark = pytest.mark.fast
NOBODY = Approval(0, "")
AUTHORIZED = Pins(
    {"name": "x"},
    {name: "7" if name in ("feature_epoch", "canonical_sequence") else "a" * 64 for name in AUTHORITY},
)


def code(ruling):
    assert ruling.refused is not None, ruling
    return ruling.refused.code


def test_a_free_slot_is_claimed_with_its_pins():
    held = prepared()
    assert (held.state, held.attempt, held.fence, held.holder, held.pins) == (S.PREPARED, 1, 0, "", PINS)
    assert held.opened_under == KIM.as_json()


@pytest.mark.parametrize("state", list(S))
def test_the_same_request_again_finds_what_is_stored_whatever_its_state(state):
    """A run that died after its claim asks again under another key: it must find the claim, not a second one."""
    ruling = transition.reserve(in_state(state), slot=FEED, pins=PINS, key="run-77", now=NOW)
    assert (ruling.entries, ruling.refused) == ((), None)


@pytest.mark.parametrize("state", list(S))
def test_other_pins_for_a_taken_slot_are_a_conflict(state):
    ruling = transition.reserve(in_state(state), slot=FEED, pins=OTHER_PINS, key="run-1", now=NOW)
    assert (code(ruling), ruling.entries) == (LedgerCode.PIN_CONFLICT, ())


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [(0, 1, False), (1, 2, True), (-2, 0, True), (-2, -1, True), (None, None, False), (None, 1, False), (0, None, False)],
)
def test_a_slot_opens_within_its_window_only(before, after, refused):
    """The end is not part of the window: a slot that closes now is closed."""
    ruling = transition.reserve(
        None,
        slot=WEEKLY,
        pins=PINS,
        key="run-1",
        now=NOW,
        not_before=None if before is None else NOW + timedelta(minutes=before),
        not_after=None if after is None else NOW + timedelta(minutes=after),
    )
    assert (ruling.refused is not None) == refused
    if refused:
        assert code(ruling) is LedgerCode.OUTSIDE_WINDOW


@pytest.mark.parametrize(
    ("before", "doubt", "opened"),
    [(-2, -1, S.UNKNOWN), (-2, -2, S.PREPARED), (-1, -2, S.PREPARED), (None, -1, S.PREPARED), (-2, None, S.PREPARED)],
)
def test_what_was_due_before_a_copy_was_accepted_opens_in_doubt(before, doubt, opened):
    """A backup of Monday was accepted on Wednesday: Tuesday's letters had gone out from the store that was lost."""
    ruling = transition.reserve(
        None,
        slot=WEEKLY,
        pins=PINS,
        key="run-1",
        now=NOW,
        not_before=None if before is None else NOW + timedelta(minutes=before),
        doubt_before=None if doubt is None else NOW + timedelta(minutes=doubt),
    )
    held = carried_out(None, ruling)
    assert held.state is opened
    assert (held.reason is Reason.MIGRATED, "accepted" in held.note) == (opened is S.UNKNOWN, opened is S.UNKNOWN)


@pytest.mark.parametrize(
    ("now", "after", "refused"), [(0, 0, True), (1, 0, True), (0, 1, False), (None, 0, False), (0, None, False)]
)
def test_nobody_is_granted_a_call_whose_window_has_closed(now, after, refused):
    """A run of 500 messages reached its last one an hour after that one's window had closed."""
    ruling = transition.grant(
        prepared(),
        holder="run-1",
        now=None if now is None else NOW + timedelta(minutes=now),
        not_after=None if after is None else NOW + timedelta(minutes=after),
    )
    assert (ruling.refused is not None) == refused
    if refused:
        assert (code(ruling), ruling.entries) == (LedgerCode.OUTSIDE_WINDOW, ())


@pytest.mark.parametrize("key", ["", "a b", "x" * 129, "run\n1", "-run", "a\0"])
def test_free_text_as_key_or_holder_is_invalid(key):
    assert code(transition.reserve(None, slot=FEED, pins=PINS, key=key, now=NOW)) is LedgerCode.INVALID
    assert code(transition.grant(prepared(), holder=key)) is LedgerCode.INVALID
    assert code(transition.replace(in_state(S.KNOWN_FAILURE), approval=LEE, key=key)) is LedgerCode.INVALID


@pytest.mark.parametrize(
    "approval", [NOBODY, Approval(1, " "), Approval(1, "K" * 121), Approval(1, "a\nb"), Approval(1, "k", "", "c" * 501)]
)
def test_an_approval_that_does_not_say_by_whom_allows_nothing(approval):
    assert code(transition.reserve(None, slot=FEED, pins=PINS, key="k", now=NOW, approval=approval)) is LedgerCode.APPROVAL
    assert code(transition.replace(in_state(S.KNOWN_FAILURE), approval=approval, key="k")) is LedgerCode.APPROVAL
    resolved = transition.resolve(in_state(S.UNKNOWN), was_sent=True, evidence={"a": 1}, approval=approval)
    assert code(resolved) is LedgerCode.APPROVAL


@pytest.mark.parametrize("state", list(S))
def test_only_a_prepared_reservation_is_granted(state):
    ruling = transition.grant(in_state(state), holder="run-2")
    if state is S.PREPARED:
        after = carried_out(in_state(state), ruling)
        assert (after.state, after.fence, after.holder) == (S.SENDING, 1, "run-2")
    else:
        assert code(ruling) is (LedgerCode.BUSY if state is S.SENDING else LedgerCode.ILLEGAL_EDGE)
        assert ruling.entries == ()


def test_a_busy_slot_says_by_whom_and_whether_that_one_is_gone():
    from dataclasses import replace

    alive, gone = replace(sending(), is_live=True), sending()
    assert "expire" not in transition.grant(alive, holder="run-2").refused.message
    assert "expire it" in transition.grant(gone, holder="run-2").refused.message


@pytest.mark.parametrize("given", [None, {}, {"owner": "a" * 64}, {**AUTHORIZED.authority, "owner": "b" * 64}])
def test_another_authority_than_the_stored_one_abandons_what_was_only_prepared(given):
    held = prepared(WEEKLY, AUTHORIZED)
    ruling = transition.grant(held, holder="run-1", authority=given)
    assert code(ruling) is LedgerCode.AUTHORITY
    assert carried_out(held, ruling).state is S.ABANDONED


def test_the_stored_authority_is_granted():
    assert sending(WEEKLY, pins=AUTHORIZED).state is S.SENDING


def test_an_authority_never_abandons_a_send_in_flight():
    held = sending(WEEKLY, pins=AUTHORIZED)
    ruling = transition.grant(held, holder="run-2", authority={})
    assert (code(ruling), ruling.entries) == (LedgerCode.BUSY, ())


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (delivered(RECEIPT), S.DELIVERED),
        (known_failure(Reason.REJECTED, "550"), S.KNOWN_FAILURE),
        (unknown(Reason.NO_ANSWER), S.UNKNOWN),
        (abandoned(Reason.STALE), S.ABANDONED),
    ],
)
def test_the_holder_settles_and_may_say_the_same_again(outcome, state):
    """The answer to the first settle may be lost: saying it again is neither an error nor a second row."""
    held = sending()
    ruling = transition.settle(held, grant=grant_of(held), outcome=outcome)
    after = carried_out(held, ruling)
    assert (after.state, dict(after.receipt)) == (state, dict(outcome.receipt))
    again = transition.settle(after, grant=grant_of(held), outcome=outcome)
    assert (again.entries, again.refused) == ((), None)


@pytest.mark.parametrize("kind", ["daily", "weekly", "monthly", "cutoff"])
def test_a_kind_that_cannot_prove_a_failure_does_not_settle_as_one(kind):
    from guards.delivery.slot import Slot

    held = sending(Slot("acme-1", "2026-11", kind))
    assert code(transition.settle(held, grant=grant_of(held), outcome=known_failure(Reason.REJECTED))) is LedgerCode.ILLEGAL_EDGE


@pytest.mark.parametrize(
    "outcome",
    [
        delivered({}),
        delivered({"x": "y" * MOST_EVIDENCE_BYTES}),
        known_failure(Reason.REJECTED, "n" * (LONGEST_NOTE + 1)),
        Outcome(S.UNKNOWN),
        Outcome(S.UNKNOWN, receipt=RECEIPT, reason=Reason.NO_ANSWER),
        Outcome(S.RESOLVED_SENT, receipt=RECEIPT),
        Outcome(S.PREPARED, reason=Reason.STALE),
    ],
)
def test_an_outcome_outside_the_closed_form_is_invalid_and_leaves_no_trace(outcome):
    held = sending()
    ruling = transition.settle(held, grant=grant_of(held), outcome=outcome)
    assert (code(ruling), ruling.entries) == (LedgerCode.INVALID, ())


@pytest.mark.parametrize("state", [S.PREPARED, S.UNKNOWN, S.DELIVERED, S.RESOLVED_NOT_SENT, S.ABANDONED])
def test_a_stale_grant_changes_nothing_and_what_it_says_is_kept_once(state):
    """Its holder was believed dead, expired, and comes back with a receipt: the only trace of a second message."""
    from dataclasses import replace

    held = in_state(state)
    old = replace(grant_of(held), fence=held.fence + 5, holder="run-0")
    ruling = transition.settle(held, grant=old, outcome=delivered(RECEIPT))
    assert code(ruling) is LedgerCode.STALE_GRANT
    told = carried_out(held, ruling)
    assert (told.state, told.is_contradicted, len(told.late)) == (state, True, 1)
    again = transition.settle(told, grant=old, outcome=delivered(RECEIPT))
    assert (code(again), again.entries) == (LedgerCode.STALE_GRANT, ())


def test_the_same_holder_that_says_something_else_later_is_stale_too():
    held = sending()
    doubtful = carried_out(held, transition.settle(held, grant=grant_of(held), outcome=unknown(Reason.NO_ANSWER)))
    ruling = transition.settle(doubtful, grant=grant_of(held), outcome=delivered(RECEIPT))
    assert code(ruling) is LedgerCode.STALE_GRANT
    assert carried_out(doubtful, ruling).is_contradicted


@pytest.mark.parametrize("state", list(S))
def test_only_a_send_whose_holder_is_gone_expires_and_then_it_is_unknown(state):
    from dataclasses import replace

    held = in_state(state)
    ruling = transition.expire(held)
    if state is S.SENDING:
        assert carried_out(held, ruling).state is S.UNKNOWN
        assert code(transition.expire(replace(held, is_live=True))) is LedgerCode.LIVE
    elif state is S.UNKNOWN:
        assert (ruling.entries, ruling.refused) == ((), None)
    else:
        assert code(ruling) is LedgerCode.ILLEGAL_EDGE


@pytest.mark.parametrize("state", list(S))
def test_only_what_was_not_granted_is_abandoned_from_outside(state):
    held = in_state(state)
    ruling = transition.abandon(held, reason=Reason.TERMINAL_RESPONSE, note="checked in at 11:20")
    if state is S.PREPARED:
        assert carried_out(held, ruling).state is S.ABANDONED
    elif state is S.ABANDONED:
        assert (ruling.entries, ruling.refused) == ((), None)
    else:
        assert code(ruling) is LedgerCode.ILLEGAL_EDGE


def test_a_long_note_is_invalid():
    assert code(transition.abandon(prepared(), reason=Reason.WITHDRAWN, note="n" * 501)) is LedgerCode.INVALID


@pytest.mark.parametrize("was_sent", [True, False])
@pytest.mark.parametrize("state", list(S))
def test_only_doubt_is_resolved(state, was_sent):
    held = in_state(state)
    ruling = transition.resolve(held, was_sent=was_sent, evidence={"looked": True}, approval=LEE)
    if state is S.UNKNOWN:
        after = carried_out(held, ruling)
        assert after.state is (S.RESOLVED_SENT if was_sent else S.RESOLVED_NOT_SENT)
        assert (after.evidence, after.approval) == ({"looked": True}, LEE.as_json())
        again = transition.resolve(after, was_sent=was_sent, evidence={"looked": True}, approval=LEE)
        assert (again.entries, again.refused) == ((), None)
    else:
        assert code(ruling) is LedgerCode.ILLEGAL_EDGE


def test_a_resolution_needs_evidence():
    assert code(transition.resolve(in_state(S.UNKNOWN), was_sent=True, evidence={}, approval=KIM)) is LedgerCode.INVALID


def test_doubt_is_never_resolved_as_not_sent_against_late_evidence_that_it_was():
    held = in_state(S.UNKNOWN)
    from dataclasses import replace

    told = carried_out(held, transition.settle(held, grant=replace(grant_of(held), fence=9), outcome=delivered(RECEIPT)))
    assert code(transition.resolve(told, was_sent=False, evidence={"a": 1}, approval=KIM)) is LedgerCode.RECEIPT_CONFLICT
    assert transition.resolve(told, was_sent=True, evidence={"a": 1}, approval=KIM).refused is None


@pytest.mark.parametrize("state", list(S))
def test_only_a_proven_failure_of_a_replaceable_kind_is_replaced(state):
    held = in_state(state)
    ruling = transition.replace(held, approval=LEE, key="run-2")
    if state in (S.KNOWN_FAILURE, S.RESOLVED_NOT_SENT):
        after = carried_out(held, ruling)
        assert (after.attempt, after.state, after.fence) == (2, S.PREPARED, held.fence + 1)
        assert after.reservation_id != held.reservation_id
        assert after.pins == held.pins
    else:
        assert code(ruling) is LedgerCode.ILLEGAL_EDGE


def test_a_kind_that_is_not_replaceable_is_filled_once_for_ever():
    held = in_state(S.RESOLVED_NOT_SENT, WEEKLY)
    assert code(transition.replace(held, approval=LEE, key="run-2")) is LedgerCode.ILLEGAL_EDGE


def test_one_approval_opens_one_attempt():
    held = in_state(S.KNOWN_FAILURE)
    assert held.opened_under == KIM.as_json()
    assert code(transition.replace(held, approval=KIM, key="run-2")) is LedgerCode.APPROVAL


def test_another_attempt_may_have_other_pins():
    after = carried_out(
        in_state(S.KNOWN_FAILURE), transition.replace(in_state(S.KNOWN_FAILURE), approval=LEE, key="k", pins=OTHER_PINS)
    )
    assert after.pins == OTHER_PINS


def test_what_was_sent_after_all_is_neither_replaced_nor_granted():
    """Attempt 1 was declared failed; its holder comes back late with a receipt. No second message may follow."""
    first = in_state(S.KNOWN_FAILURE)
    told = carried_out(first, transition.settle(first, grant=grant_of(first), outcome=delivered(RECEIPT)))
    assert code(transition.replace(told, approval=LEE, key="run-2")) is LedgerCode.RECEIPT_CONFLICT

    second = carried_out(first, transition.replace(first, approval=LEE, key="run-2"))
    told = carried_out(second, transition.settle(second, grant=grant_of(first), outcome=delivered(RECEIPT)))
    assert code(transition.grant(told, holder="run-2")) is LedgerCode.RECEIPT_CONFLICT


@pytest.mark.parametrize("state", list(S))
def test_only_a_delivery_is_audited(state):
    held = in_state(state)
    ruling = transition.audit(held)
    if state is S.DELIVERED:
        after = carried_out(held, ruling)
        assert (after.state, after.receipt) == (S.SENT_AUDITED, RECEIPT)
    elif state is S.SENT_AUDITED:
        assert (ruling.entries, ruling.refused) == ((), None)
    else:
        assert code(ruling) is LedgerCode.ILLEGAL_EDGE


@pytest.mark.parametrize(
    ("before", "after"),
    [(S.PREPARED, S.RESOLVED_SENT), (S.SENDING, S.DELIVERED), (S.UNKNOWN, S.RESOLVED_SENT)],
)
def test_outside_evidence_settles_what_was_open(before, after):
    held = in_state(before)
    reconciled = carried_out(held, transition.reconcile(held, receipt=RECEIPT))
    assert (reconciled.state, reconciled.receipt) == (after, RECEIPT)
    again = transition.reconcile(reconciled, receipt=RECEIPT)
    assert (again.entries, again.refused) == ((), None)


@pytest.mark.parametrize(
    "state", [S.DELIVERED, S.SENT_AUDITED, S.RESOLVED_SENT, S.RESOLVED_NOT_SENT, S.KNOWN_FAILURE, S.ABANDONED]
)
def test_outside_evidence_that_contradicts_the_record_is_an_error_and_is_kept(state):
    held = in_state(state)
    ruling = transition.reconcile(held, receipt={"partner_copy": {"size_bytes": 99}})
    assert code(ruling) is LedgerCode.RECEIPT_CONFLICT
    told = carried_out(held, ruling)
    assert (told.state, told.is_contradicted) == (state, True)


@pytest.mark.parametrize("state", [S.PREPARED, S.SENDING, S.DELIVERED])
def test_outside_evidence_about_a_replaced_attempt_is_kept_with_the_latest(state):
    """The provider's log arrived a day late: the attempt that a person had resolved as not sent was accepted after all."""
    first = in_state(S.KNOWN_FAILURE)
    held = carried_out(first, transition.replace(first, approval=LEE, key="run-2"))
    if state is not S.PREPARED:
        held = carried_out(held, transition.grant(held, holder="run-2"))
    if state is S.DELIVERED:
        held = carried_out(held, transition.settle(held, grant=grant_of(held), outcome=delivered({"x": 1})))
    ruling = transition.reconcile(held, receipt=RECEIPT, reservation_id=first.reservation_id)
    assert code(ruling) is LedgerCode.RECEIPT_CONFLICT
    told = carried_out(held, ruling)
    assert (told.state, told.is_contradicted) == (state, True)
    assert told.late[-1]["reservation"] == first.reservation_id
    again = transition.reconcile(told, receipt=RECEIPT, reservation_id=first.reservation_id)
    assert (again.entries, code(again)) == ((), LedgerCode.RECEIPT_CONFLICT)


def test_an_approval_opens_one_attempt_ever():
    """Kim's approval, then Lee's, then Kim's again: what Kim had allowed once would have been sent twice."""
    held = in_state(S.KNOWN_FAILURE)
    for approval in (LEE, Approval(19, "Kim")):
        assert code(transition.replace(held, approval=KIM, key="run-9")) is LedgerCode.APPROVAL
        held = carried_out(held, transition.replace(held, approval=approval, key="run-2"))
        held = carried_out(held, transition.grant(held, holder="run-2"))
        held = carried_out(held, transition.settle(held, grant=grant_of(held), outcome=known_failure(Reason.REJECTED)))
        for used in (KIM, approval):
            assert code(transition.replace(held, approval=used, key="run-9")) is LedgerCode.APPROVAL
            assert is_used(thin(held), used.as_json())


@pytest.mark.parametrize("odd", [{}, {"approval_id": True}, {"comment": ["x"]}, {"more": 1}])
def test_approvals_are_told_apart_by_what_they_spell(odd):
    """An imported row's approval may hold anything; the same spelling is the same approval, and no other is."""
    usual = Approval(1, "Kim").as_json()
    for spoken in (usual, {**usual, **odd}):
        assert digest_of(spoken) == hashlib.sha256(canonical_json(spoken)).hexdigest()[:32]
    assert (digest_of({**usual, **odd}) == digest_of(usual)) == (not odd)


@pytest.mark.parametrize(("minutes", "opened"), [(1, S.UNKNOWN), (0, S.PREPARED)])
def test_another_attempt_over_one_that_failed_before_a_copy_was_accepted_opens_in_doubt(minutes, opened):
    """The store that was lost may have made that attempt already, and sent it."""
    held = in_state(S.KNOWN_FAILURE)
    ruling = transition.replace(held, approval=LEE, key="run-2", doubt_before=NOW + timedelta(minutes=minutes))
    told = carried_out(held, ruling)
    assert (told.attempt, told.state, bool(told.note)) == (2, opened, opened is S.UNKNOWN)


@pytest.mark.parametrize("state", list(S))
def test_what_was_open_in_a_copy_that_is_accepted_is_in_doubt(state):
    held = in_state(state)
    told = carried_out(held, transition.doubt(held))
    was_open = state in (S.PREPARED, S.SENDING)
    assert told.state is (S.UNKNOWN if was_open else state)
    assert (told.reason is Reason.MIGRATED, told == held) == (was_open, not was_open)


def test_an_empty_receipt_reconciles_nothing():
    assert code(transition.reconcile(prepared(), receipt={})) is LedgerCode.INVALID


def test_a_call_on_what_the_ledger_does_not_hold_is_refused():
    held = sending()
    for ruling in (
        transition.grant(None, holder="run-1"),
        transition.settle(None, grant=grant_of(held), outcome=delivered(RECEIPT)),
        transition.expire(None),
        transition.abandon(None, reason=Reason.WITHDRAWN),
        transition.resolve(None, was_sent=True, evidence=RECEIPT, approval=KIM),
        transition.replace(None, approval=KIM, key="k"),
        transition.audit(None),
        transition.reconcile(None, receipt=RECEIPT),
    ):
        assert (code(ruling), ruling.entries) == (LedgerCode.NOT_FOUND, ())


def test_an_attempt_that_was_replaced_is_history():
    first = in_state(S.KNOWN_FAILURE)
    second = carried_out(first, transition.replace(first, approval=LEE, key="run-2"))
    assert transition.not_latest(second, second.reservation_id) is None
    assert code(transition.not_latest(second, first.reservation_id)) is LedgerCode.ILLEGAL_EDGE

"""What each call promises beyond its edges: said twice, said too late, said by the wrong one, on every store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval, Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.reservation import ReservationState as S
from guards.delivery.row import Head
from guards.delivery.slot import Grant
from resources.ledger.file.store import FileLedger
from resources.state.errors import LeaseLost
from tests.contract.state.worlds import by_hand
from tests.ledgers.builders import (
    EVIDENCE,
    KIM,
    LEE,
    OTHER_PINS,
    OWED,
    PINS,
    RECEIPT,
    brought_to,
    code,
    feed,
    granted,
    imagined,
    reserved,
    told,
    weekly,
)


def test_a_reservation_is_what_was_asked_for_and_stays_so(world, ledger):
    before = ledger.now()
    held = told(ledger.reserve(feed(), PINS, key="run-1", approval=KIM))
    assert (held.slot, held.attempt, held.state, held.pins, held.key) == (feed(), 1, S.PREPARED, PINS, "run-1")
    assert (held.fence, held.holder, held.is_live, dict(held.opened_under)) == (0, "", False, KIM.as_json())
    assert before <= held.opened_at == held.changed_at <= ledger.now()
    grant = granted(ledger)
    assert (grant.slot, grant.reservation_id, grant.attempt, grant.fence, grant.holder) == (
        feed(),
        held.reservation_id,
        1,
        1,
        "run-1",
    )
    assert told(world.open().get(held.reservation_id)).is_live
    done = told(ledger.settle(grant, delivered(RECEIPT)))
    assert (done.state, dict(done.receipt), done.is_live, done.opened_at) == (S.DELIVERED, RECEIPT, False, held.opened_at)
    assert world.open().get(held.reservation_id) == ledger.of(feed())[0] == done


def test_the_same_request_finds_what_is_stored_whatever_its_state(ledger):
    """The answer to the first was lost: asking again must neither fail nor write."""
    for number, state in enumerate(S):
        brought_to(ledger, state, feed(number))
        head = ledger.head()
        assert told(ledger.reserve(feed(number), PINS, key="run-9")).state is state
        assert told(ledger.reserve(feed(number), PINS, key="run-9", not_after=ledger.now())).state is state
        assert ledger.head() == head


def test_a_window_is_judged_by_the_stores_clock_and_is_half_open(world, ledger):
    now, before = ledger.now(), world.content()
    assert code(ledger.reserve(feed(), PINS, key="k", not_before=now + timedelta(hours=1))) is C.OUTSIDE_WINDOW
    assert code(ledger.reserve(feed(), PINS, key="k", not_after=now)) is C.OUTSIDE_WINDOW
    assert world.content() == before
    assert told(ledger.reserve(feed(), PINS, key="k", not_before=now, not_after=now + timedelta(hours=1))).state is S.PREPARED


def test_nobody_is_granted_a_call_whose_window_has_closed(world, ledger):
    held = reserved(ledger)
    before = world.content()
    assert code(ledger.grant(held.reservation_id, holder="run-1", not_after=ledger.now())) is C.OUTSIDE_WINDOW
    assert world.content() == before
    assert isinstance(ledger.grant(held.reservation_id, holder="run-1", not_after=ledger.now() + timedelta(hours=1)), Grant)


def test_what_may_have_been_sent_before_a_copy_was_accepted_is_in_doubt(world, ledger):
    """A backup of Monday, accepted on Wednesday: what it holds as open, and what fell due until then, may have gone out from the other."""
    due = ledger.now() - timedelta(minutes=1)
    waiting = reserved(ledger)
    under_way = granted(ledger, feed(1), holder="run-1")
    brought_to(ledger, S.KNOWN_FAILURE, feed(2))
    sent = brought_to(ledger, S.DELIVERED, feed(3))
    world.gone(ledger, under_way)
    with world.open() as accepting:
        assert accepting.repair(accept_copy=True).left == ()
    ledger = world.open()
    assert [told(ledger.get(each.reservation_id)).state for each in (waiting, under_way, sent)] == [
        S.UNKNOWN,
        S.UNKNOWN,
        S.DELIVERED,
    ]
    free = told(ledger.reserve(weekly(), PINS, key="run-2", not_before=due))
    again = told(ledger.replace(feed(2), approval=LEE, key="run-2"))
    for held in (free, again):
        assert (held.state, held.reason) == (S.UNKNOWN, Reason.MIGRATED)
        assert code(ledger.grant(held.reservation_id, holder="run-2")) is C.ILLEGAL_EDGE
    later = told(ledger.reserve(weekly(2), PINS, key="run-2", not_before=ledger.now()))
    assert isinstance(ledger.grant(later.reservation_id, holder="run-2"), Grant)
    assert world.open().verify().faults == ()


def accepted_in_an_hour(world) -> None:
    """By a clock that was ahead then."""
    began = datetime.now(UTC)
    match world.kind:
        case "memory":
            world.kept.accepted_at = began + timedelta(hours=1)
        case "file":
            with FileLedger.open(world.root, clock=lambda: began + timedelta(hours=1)) as early:
                early.repair(accept_copy=True)
        case _:
            by_hand(world.where, "UPDATE opsguard.ledger_head SET accepted_at = clock_timestamp() + interval '1 hour'")


def test_a_clock_that_was_set_back_between_two_acceptances_frees_nothing(world):
    """The second one put back to its own time what the first had put in doubt until an hour later."""
    accepted_in_an_hour(world)
    with world.open() as accepting:
        assert accepting.repair(accept_copy=True).left == ()
    ledger = world.open()
    assert told(ledger.reserve(weekly(), PINS, key="run-2", not_before=ledger.now())).state is S.UNKNOWN


@pytest.mark.parametrize("call", ["grant", "abandon"])
def test_what_is_older_than_an_acceptance_and_still_prepared_is_doubted_when_it_is_asked_for(world, call):
    """Whatever kept the acceptance from reaching it. The store's own word on when that was counts, also when its clock was ahead."""
    accepted_in_an_hour(world)
    ledger = world.open()
    held = reserved(ledger)
    said = (
        ledger.grant(held.reservation_id, holder="run-2")
        if call == "grant"
        else ledger.abandon(held.reservation_id, reason=Reason.WITHDRAWN)
    )
    assert code(said) is C.ILLEGAL_EDGE
    assert "may have been sent" in said.message
    after = told(ledger.get(held.reservation_id))
    assert (after.state, after.reason) == (S.UNKNOWN, Reason.MIGRATED)
    assert ledger.verify().faults == ()


def test_only_one_of_two_handles_is_granted(world, ledger):
    other = world.open()
    grant = granted(ledger)
    for handle in (ledger, other):
        assert code(handle.grant(grant.reservation_id, holder="run-1")) is C.BUSY
        assert code(handle.grant(grant.reservation_id, holder="run-2")) is C.BUSY
        assert code(handle.expire(grant.reservation_id)) is C.LIVE


def test_a_grant_may_be_settled_through_another_handle(world, ledger):
    grant = granted(ledger)
    assert told(world.open().settle(grant, delivered(RECEIPT))).state is S.DELIVERED
    assert told(ledger.settle(grant, delivered(RECEIPT))).state is S.DELIVERED


def test_an_authorizations_holder_holds_the_grant(world, ledger):
    authorization = world.authorization("run-7")
    grant = ledger.grant(reserved(ledger).reservation_id, holder="ignored", authorization=authorization)
    assert isinstance(grant, Grant)
    assert grant.holder == "run-7"
    assert code(world.open().expire(grant.reservation_id)) is C.LIVE


def test_a_holder_that_is_gone_is_expired_and_never_sends_again(world, ledger):
    holder = world.open()
    grant = granted(holder)
    assert ledger.health().stale_sending == ()
    world.gone(holder)
    assert not told(ledger.get(grant.reservation_id)).is_live
    assert ledger.health().stale_sending == (grant.slot,)
    assert code(ledger.grant(grant.reservation_id, holder="run-2")) is C.BUSY
    expired = told(ledger.expire(grant.reservation_id))
    assert (expired.state, expired.reason, expired.fence, expired.holder) == (S.UNKNOWN, Reason.LEASE_ENDED, 1, "run-1")
    head = ledger.head()
    assert told(ledger.expire(grant.reservation_id)).state is S.UNKNOWN
    assert ledger.head() == head
    assert code(ledger.grant(grant.reservation_id, holder="run-1")) is C.ILLEGAL_EDGE


def test_a_holder_that_is_gone_but_was_not_expired_may_still_say_what_happened(world, ledger):
    """Its last words arrived through another process before the sensor came by."""
    holder = world.open()
    grant = granted(holder)
    world.gone(holder)
    assert told(ledger.settle(grant, delivered(RECEIPT))).state is S.DELIVERED


def test_closing_a_handle_ends_its_leases_and_no_others(world, ledger):
    one, two = world.open(), world.open()
    first, second = granted(one, feed(1)), granted(two, feed(2))
    one.close()
    assert told(ledger.expire(first.reservation_id)).state is S.UNKNOWN
    assert code(ledger.expire(second.reservation_id)) is C.LIVE
    one.close()


def test_a_renewed_lease_lives_and_an_ended_one_does_not_come_back(world, ledger):
    holder = world.open()
    grant = granted(holder)
    before = ledger.snapshot().revision
    holder.renew(grant, ttl_seconds=600)
    assert ledger.snapshot().revision == before
    with pytest.raises(LeaseLost):
        holder.renew(replace(grant, fence=9))
    told(holder.settle(grant, unknown(Reason.NO_ANSWER)))
    with pytest.raises(LeaseLost):
        holder.renew(grant)


@pytest.mark.parametrize(
    "stale", [{"fence": 2}, {"fence": 0}, {"holder": "run-2"}, {"attempt": 2}], ids=["newer", "older", "other", "attempt"]
)
def test_what_a_stale_grant_says_is_kept_and_changes_nothing(ledger, stale):
    grant = granted(ledger)
    assert code(ledger.settle(replace(grant, **stale), delivered(RECEIPT))) is C.STALE_GRANT
    held = told(ledger.get(grant.reservation_id))
    assert (held.state, held.is_live, held.is_contradicted) == (S.SENDING, True, True)
    (late,) = held.late
    assert late["receipt"] == RECEIPT
    assert told(ledger.settle(grant, unknown(Reason.NO_ANSWER))).late == held.late


def test_late_evidence_of_a_delivery_forbids_every_way_to_a_second_one(world, ledger):
    """The slow answer came in after the expiry: whoever asks now, the message is not sent again."""
    holder = world.open()
    grant = granted(holder)
    world.gone(holder)
    told(ledger.expire(grant.reservation_id))
    assert code(ledger.settle(grant, delivered(RECEIPT))) is C.STALE_GRANT
    by_kim = {"evidence": EVIDENCE, "approval": KIM}
    assert code(ledger.resolve(grant.reservation_id, was_sent=False, **by_kim)) is C.RECEIPT_CONFLICT
    assert code(ledger.replace(feed(), approval=LEE, key="run-2")) is C.RECEIPT_CONFLICT
    assert told(ledger.resolve(grant.reservation_id, was_sent=True, **by_kim)).state is S.RESOLVED_SENT


def test_late_evidence_after_not_sent_was_resolved_forbids_the_replacement(world, ledger):
    holder = world.open()
    grant = granted(holder)
    world.gone(holder)
    told(ledger.expire(grant.reservation_id))
    told(ledger.resolve(grant.reservation_id, was_sent=False, evidence=EVIDENCE, approval=KIM))
    assert code(ledger.settle(grant, delivered(RECEIPT))) is C.STALE_GRANT
    assert code(ledger.replace(feed(), approval=LEE, key="run-2")) is C.RECEIPT_CONFLICT


def test_late_evidence_about_a_replaced_attempt_is_kept_with_the_latest_and_stops_its_grant(ledger):
    first = brought_to(ledger, S.KNOWN_FAILURE, feed())
    second = told(ledger.replace(feed(), approval=LEE, key="run-2"))
    assert code(ledger.settle(first, delivered(RECEIPT))) is C.STALE_GRANT
    assert told(ledger.get(second.reservation_id)).is_contradicted
    assert code(ledger.grant(second.reservation_id, holder="run-2")) is C.RECEIPT_CONFLICT


def test_outside_evidence_about_a_replaced_attempt_is_kept_with_the_latest_and_stops_its_grant(world, ledger):
    """The provider's log arrived a day late: what a person had resolved as not sent was accepted after all."""
    first = brought_to(ledger, S.RESOLVED_NOT_SENT, feed())
    second = told(ledger.replace(feed(), approval=LEE, key="run-2"))
    assert code(ledger.reconcile(first.reservation_id, receipt=RECEIPT)) is C.RECEIPT_CONFLICT
    kept = world.content()
    assert code(ledger.reconcile(first.reservation_id, receipt=RECEIPT)) is C.RECEIPT_CONFLICT
    assert world.content() == kept, "the same is kept once"
    assert told(world.open().get(second.reservation_id)).is_contradicted
    assert code(ledger.grant(second.reservation_id, holder="run-2")) is C.RECEIPT_CONFLICT
    assert ledger.verify().faults == ()


def test_one_approval_opens_one_attempt_ever(world, ledger):
    """Lee's approval, then another, then Lee's again: what was allowed once would have been sent twice."""
    brought_to(ledger, S.KNOWN_FAILURE, feed())
    for number in range(3):
        held = told(ledger.replace(feed(), approval=LEE if not number else Approval(10 + number, "Kim"), key="run-2"))
        grant = ledger.grant(held.reservation_id, holder="run-2")
        assert isinstance(grant, Grant)
        told(ledger.settle(grant, known_failure(Reason.REJECTED)))
        for handle in (ledger, world.open()):
            assert code(handle.replace(feed(), approval=LEE, key="run-3")) is C.APPROVAL
    assert ledger.verify().faults == ()


def test_an_attempt_is_replaced_once_per_approval(ledger):
    grant = brought_to(ledger, S.KNOWN_FAILURE, feed())
    assert code(ledger.replace(feed(), approval=Approval(3, " "), key="run-2")) is C.APPROVAL
    second = told(ledger.replace(feed(), approval=LEE, key="run-2"))
    assert (second.attempt, second.state, second.fence, second.pins) == (2, S.PREPARED, 2, PINS)
    again = ledger.grant(second.reservation_id, holder="run-2")
    assert again.fence == 3
    told(ledger.settle(again, known_failure(Reason.NOT_PLACED)))
    assert code(ledger.replace(feed(), approval=LEE, key="run-3")) is C.APPROVAL
    third = told(ledger.replace(feed(), approval=KIM, key="run-3", pins=OTHER_PINS))
    assert (third.attempt, third.pins) == (3, OTHER_PINS)
    assert [(each.attempt, each.state) for each in ledger.of(feed())] == [
        (1, S.KNOWN_FAILURE),
        (2, S.KNOWN_FAILURE),
        (3, S.PREPARED),
    ]
    for outdated in (grant.reservation_id, second.reservation_id):
        assert code(ledger.grant(outdated, holder="run-1")) is C.ILLEGAL_EDGE
        assert code(ledger.audit(outdated)) is C.ILLEGAL_EDGE
        assert code(ledger.expire(outdated)) is C.ILLEGAL_EDGE


def test_the_same_pins_after_a_replacement_find_the_latest_attempt(ledger):
    brought_to(ledger, S.KNOWN_FAILURE, feed())
    told(ledger.replace(feed(), approval=LEE, key="run-2", pins=OTHER_PINS))
    assert told(ledger.reserve(feed(), OTHER_PINS, key="run-3")).attempt == 2
    assert code(ledger.reserve(feed(), PINS, key="run-3")) is C.PIN_CONFLICT


def test_a_pinned_fact_lets_another_kind_fail_for_certain(ledger):
    pins = Pins({"name": "x", "may_fail_known": True})
    grant = granted(ledger, weekly(), pins)
    assert told(ledger.settle(grant, known_failure(Reason.REJECTED))).state is S.KNOWN_FAILURE
    assert told(ledger.replace(weekly(), approval=LEE, key="run-2")).attempt == 2
    assert ledger.verify().faults == ()


def test_an_authority_is_given_whole_and_equal_or_the_reservation_is_abandoned(ledger):
    for number, given in enumerate((None, {}, {**OWED.authority, "owner": "cd" * 32})):
        held = reserved(ledger, weekly(number), OWED)
        assert code(ledger.grant(held.reservation_id, holder="run-1", authority=given)) is C.AUTHORITY
        after = told(ledger.get(held.reservation_id))
        assert (after.state, after.reason) == (S.ABANDONED, Reason.AUTHORITY)
        assert code(ledger.grant(held.reservation_id, holder="run-1", authority=OWED.authority)) is C.ILLEGAL_EDGE
    assert isinstance(granted(ledger, weekly("equal"), OWED), Grant)
    assert ledger.verify().faults == ()


def test_a_wrong_authority_never_abandons_a_send_in_flight(ledger):
    grant = granted(ledger, weekly(), OWED)
    assert code(ledger.grant(grant.reservation_id, holder="run-2")) is C.BUSY
    assert told(ledger.get(grant.reservation_id)).state is S.SENDING


def test_an_audit_inherits_the_receipt(ledger):
    grant = brought_to(ledger, S.DELIVERED, feed())
    audited = told(ledger.audit(grant.reservation_id))
    assert (audited.state, dict(audited.receipt)) == (S.SENT_AUDITED, RECEIPT)
    head = ledger.head()
    assert told(ledger.audit(grant.reservation_id)) == audited
    assert ledger.head() == head


def test_outside_evidence_settles_and_what_contradicts_it_is_kept_as_an_error(ledger):
    for number, state in enumerate((S.PREPARED, S.SENDING, S.UNKNOWN)):
        grant = brought_to(ledger, state, feed(number))
        settled = told(ledger.reconcile(grant.reservation_id, receipt=RECEIPT))
        assert settled.state.is_proven_sent
        assert dict(settled.receipt) == RECEIPT
        assert told(ledger.reconcile(grant.reservation_id, receipt=RECEIPT)) == settled
        assert code(ledger.reconcile(grant.reservation_id, receipt={"size_bytes": 8})) is C.RECEIPT_CONFLICT
        after = told(ledger.get(grant.reservation_id))
        assert (after.state, dict(after.receipt), len(after.late)) == (settled.state, RECEIPT, 1)
    assert ledger.verify().faults == ()


def test_evidence_that_a_failed_attempt_was_sent_stops_its_replacement(ledger):
    grant = brought_to(ledger, S.KNOWN_FAILURE, feed())
    assert code(ledger.reconcile(grant.reservation_id, receipt=RECEIPT)) is C.RECEIPT_CONFLICT
    assert code(ledger.replace(feed(), approval=LEE, key="run-2")) is C.RECEIPT_CONFLICT


def test_a_holder_gives_up_before_a_byte_went_out_and_the_slot_stays_taken(ledger):
    grant = granted(ledger)
    assert told(ledger.settle(grant, abandoned(Reason.TERMINAL_RESPONSE))).state is S.ABANDONED
    assert code(ledger.replace(feed(), approval=LEE, key="run-2")) is C.ILLEGAL_EDGE
    assert told(ledger.reserve(feed(), PINS, key="run-2")).state is S.ABANDONED


def test_what_is_not_there_is_not_found(world, ledger):
    nothing, before = "0" * 32, world.content()
    answers = [
        ledger.grant(nothing, holder="run-1"),
        ledger.settle(imagined(feed()), delivered(RECEIPT)),
        ledger.expire(nothing),
        ledger.abandon(nothing, reason=Reason.WITHDRAWN),
        ledger.resolve(nothing, was_sent=True, evidence=EVIDENCE, approval=KIM),
        ledger.replace(feed(), approval=KIM, key="run-1"),
        ledger.audit(nothing),
        ledger.reconcile(nothing, receipt=RECEIPT),
    ]
    assert {code(answer) for answer in answers} == {C.NOT_FOUND}
    assert (ledger.get(nothing), ledger.of(feed()), ledger.history("nobody")) == (None, (), ())
    assert world.content() == before


def test_history_is_looked_up_by_the_beginning_of_a_period_oldest_first(ledger):
    for period in ("0011-b", "0011-a", "00110", "0012-a", "0_11-a", "0"):
        reserved(ledger, replace(feed(), period=period))
    reserved(ledger, replace(feed(), customer="partner-2", period="0011-z"))
    granted(ledger, replace(feed(), period="0011-b"))
    assert [each.slot.period for each in ledger.history("partner-1", "0011-")] == ["0011-b", "0011-a"]
    assert [each.slot.period for each in ledger.history("partner-1", "0_")] == ["0_11-a"]
    assert len(ledger.history("partner-1")) == 6
    assert [each.slot.period for each in ledger.history_of("partner-1", ["0012", "0011"])] == [
        "0011-b",
        "0011-a",
        "00110",
        "0012-a",
    ]
    assert ledger.history_of("partner-1", []) == ()
    with pytest.raises(ValueError):
        ledger.history_of("partner-1", ["0", "00"])


def test_the_head_says_what_is_extended(ledger):
    assert (ledger.head(), ledger.extends(Head())) == (Head(), True)
    heads = []
    for number in range(3):
        reserved(ledger, feed(number))
        heads.append(ledger.head())
    assert all(ledger.extends(head) for head in heads)
    assert not ledger.extends(Head(2, heads[2].digest))
    assert not ledger.extends(Head(4, heads[2].digest))
    assert not ledger.extends(Head(0, heads[2].digest))


def test_health_counts_and_tells_the_oldest_that_is_being_sent(ledger):
    assert (dict(ledger.health().counts), ledger.health().oldest_sending_at) == ({}, None)
    for number, state in enumerate(S):
        brought_to(ledger, state, feed(number))
    other = granted(ledger, feed("later"))
    health = ledger.health()
    expected = dict.fromkeys([state.value for state in S], 1) | {"sending": 2}
    assert dict(health.counts) == dict(ledger.counts()) == dict(ledger.verify().counts) == expected
    first = told(ledger.get(feed(list(S).index(S.SENDING)).reservation_id(1)))
    assert (health.oldest_sending_at, health.recovery, health.head) == (first.changed_at, "", ledger.head())
    assert told(ledger.get(other.reservation_id)).changed_at > first.changed_at
    assert health.store


def test_every_refusal_code_is_reached():
    """`RECOVERY_REQUIRED` by tampering (test_tampering), the others in this directory; a new code has to be added to one of them."""
    here = {
        C.PIN_CONFLICT,
        C.OUTSIDE_WINDOW,
        C.BUSY,
        C.AUTHORITY,
        C.STALE_GRANT,
        C.LIVE,
        C.APPROVAL,
        C.ILLEGAL_EDGE,
        C.RECEIPT_CONFLICT,
        C.NOT_FOUND,
        C.INVALID,
    }
    assert here | {C.RECOVERY_REQUIRED} == set(C)


def test_two_attempts_never_share_a_fence(ledger):
    """An answer to the first attempt must not settle the second."""
    first = brought_to(ledger, S.KNOWN_FAILURE, feed())
    second = told(ledger.replace(feed(), approval=LEE, key="run-1"))
    again = ledger.grant(second.reservation_id, holder="run-1")
    assert again.fence > first.fence
    assert code(ledger.settle(first, delivered(RECEIPT))) is C.STALE_GRANT
    held = told(ledger.get(second.reservation_id))
    assert isinstance(held, Reservation)
    assert held.state is S.SENDING

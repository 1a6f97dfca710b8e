"""The judge: every verdict on a slot has a case, and every sentence says why and what to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from guards.delivery.bodies import Body, NoBody, NoTemplate
from guards.delivery.evidence import CheckIn, CheckIns, EvidenceUnreadable
from guards.delivery.judge import judge
from guards.delivery.message import provider_key
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Slot
from guards.delivery.standing import StandingApproval
from guards.delivery.verdict import DeliveryVerdict as V
from guards.delivery.world import DeliveryWorld, Endpoint
from guards.finding import Finding
from tests.unit.delivery.owing import (
    BODY,
    CLOSES,
    DUE,
    NOW,
    POLICY,
    checked_in,
    contradicted,
    customer,
    held,
    owed,
    pins,
    reminder,
    world,
)

pytestmark = pytest.mark.fast


def only(seen: DeliveryWorld) -> Finding:
    (one,) = judge(seen, POLICY)
    return one.finding()


def test_a_slot_in_its_window_is_due_and_says_until_when_on_the_customers_clock() -> None:
    found = only(world(owed()))

    assert found.verdict is V.DUE
    assert found.note == "Due since 2026-11-30 09:00 Asia/Seoul, until 2026-12-01 00:00; by slack to C0123456."
    assert found.subject == "acme-1:2026-11-30:daily"


def test_a_window_that_closes_on_the_same_day_is_told_without_the_date() -> None:
    """With both dates in full, six bullets did not fit on the plan's page, and lost their middles."""
    found = only(world(owed(closes_at=DUE + timedelta(hours=3))))

    assert found.note == "Due since 2026-11-30 09:00 Asia/Seoul, until 12:00; by slack to C0123456."


def test_a_slot_is_not_yet_due_a_second_before_its_time() -> None:
    found = only(world(owed(), now=DUE - timedelta(seconds=1)))

    assert found.verdict is V.NOT_YET
    assert "2026-11-30 09:00 Asia/Seoul" in found.note


def test_a_window_that_closed_with_nothing_reserved_was_missed_and_is_never_sent_late() -> None:
    found = only(world(owed(), now=CLOSES))

    assert found.verdict is V.MISSED
    assert "tell the customer by hand" in found.note


def test_a_ledger_that_may_have_lost_rows_calls_nothing_missed() -> None:
    """An older copy was restored, and everything that had gone out since was listed as missed."""
    found = only(world(owed(), now=CLOSES, incomplete="an older copy was put in its place"))

    assert found.verdict is V.IN_DOUBT
    assert "proves nothing" in found.note
    assert "not sent late" in found.note


ACCEPTED = DUE + timedelta(minutes=20)


@pytest.mark.parametrize(
    ("now", "verdict", "says"),
    [
        (DUE + timedelta(minutes=30), V.DUE, "opens it in doubt, for you to resolve, and sends nothing"),
        (CLOSES, V.IN_DOUBT, "look into the provider's records before you tell the customer"),
    ],
)
def test_what_was_due_before_an_older_ledger_was_accepted_is_said_to_be_doubt(now: datetime, verdict: V, says: str) -> None:
    """The plan said that it would be sent, and what had been sent by the rows that are gone was missed: tell the customer by hand."""
    found = only(world(owed(), now=now, doubt_before=ACCEPTED))

    assert found.verdict is verdict
    assert says in found.note
    assert f"{ACCEPTED:%Y-%m-%d %H:%M} UTC" in found.note
    assert says not in only(world(owed(), now=now, doubt_before=DUE)).note
    assert says not in only(world(owed(), now=now)).note


def test_what_is_reserved_already_does_not_open_in_doubt() -> None:
    one = owed()
    found = only(world(one, holds=[held(one, S.PREPARED)], doubt_before=ACCEPTED))
    assert "sends nothing" not in found.note


@pytest.mark.parametrize("now", [DUE, CLOSES])
@pytest.mark.parametrize("is_owed", [True, False])
def test_what_a_ledger_that_may_have_lost_rows_holds_as_reserved_is_in_doubt(now: datetime, is_owed: bool) -> None:
    """The rows of its call and its receipt were cut off, and it was reported as never sent, to be abandoned and told by hand."""
    one = owed()
    holds = [held(one, S.PREPARED)]

    found = only(world(*([one] if is_owed else []), now=now, holds=holds, incomplete="rows that were there are gone"))

    assert found.verdict is V.IN_DOUBT
    assert "proves nothing" in found.note


def test_what_closed_before_it_was_first_seen_was_never_promised() -> None:
    """A customer added at noon was reported as having missed the morning of two days."""
    assert judge(world(owed(), now=CLOSES, known_since={}), POLICY) == ()
    assert judge(world(owed(), now=CLOSES, known_since={"acme-1:daily": CLOSES}), POLICY) == ()


def test_a_reserved_slot_that_was_never_granted_is_missed_when_its_window_closes() -> None:
    one = owed()

    found = only(world(one, now=CLOSES, holds=[held(one, S.PREPARED)], known_since={}))

    assert found.verdict is V.MISSED
    assert "reserved and never sent" in found.note


@pytest.mark.parametrize("state", [S.DELIVERED, S.SENT_AUDITED, S.RESOLVED_SENT])
def test_what_the_ledger_proves_to_be_sent_is_sent_whatever_else_is_wrong(state: S) -> None:
    one = owed(customer(enabled=False))

    found = only(world(one, now=CLOSES, holds=[held(one, state)], body=NoBody("gone")))

    assert found.verdict is V.SENT
    assert "The ledger proves" in found.note


def test_what_has_a_receipt_is_sent_when_the_ledger_holds_nothing_about_it() -> None:
    """An empty ledger in the place of a lost one made every message of the day due again."""
    one = owed()

    found = only(replace(world(one), receipts={one.slot: "at 2026-11-30 00:05 UTC by run 7"}))

    assert found.verdict is V.SENT
    assert "a receipt proves that it was sent at 2026-11-30 00:05 UTC by run 7" in found.note


def test_a_live_call_is_sending_and_nobodys_gap() -> None:
    one = owed()

    found = only(world(one, holds=[held(one, S.SENDING, live=True)]))

    assert found.verdict is V.SENDING
    assert "run-1" in found.note


def test_a_call_whose_run_is_gone_is_doubt() -> None:
    one = owed()

    found = only(world(one, holds=[held(one, S.SENDING)]))

    assert found.verdict is V.IN_DOUBT
    assert "never sent again" in found.note


def test_doubt_says_why_what_the_provider_said_and_what_to_type() -> None:
    one = owed()
    unknown = held(one, S.UNKNOWN, reason=Reason.NO_ANSWER, note="read timed out")

    found = only(world(one, holds=[unknown], sightings={one.slot: "slack cannot tell: history is not readable"}))

    assert found.verdict is V.IN_DOUBT
    assert "Read timed out." in found.note
    assert "Slack cannot tell: history is not readable." in found.note
    assert "opsguard ledger resolve acme-1:2026-11-30:daily" in found.note


def test_doubt_names_the_key_once_when_the_provider_has_said_where_to_search() -> None:
    one = owed()
    unknown = held(one, S.UNKNOWN, reason=Reason.NO_ANSWER)
    key = provider_key(unknown)
    told = only(
        world(one, holds=[unknown], sightings={one.slot: f"webhook cannot tell: search the receiving system for the key {key}"})
    )
    untold = only(world(one, holds=[unknown]))
    assert told.note.count(key) == untold.note.count(key) == 1
    assert "Do that, or ask the recipient" in told.note
    assert f"Search the provider's records for {key}" in untold.note


def test_doubt_without_a_kept_reason_still_says_what_to_do() -> None:
    one = owed()

    found = only(world(one, holds=[held(one, S.UNKNOWN)]))

    assert "no reason was kept" in found.note


def test_a_known_failure_of_a_kind_that_allows_it_may_be_replaced() -> None:
    one = reminder()

    found = only(
        world(one, holds=[held(one, S.KNOWN_FAILURE, reason=Reason.REJECTED, note="channel_not_found: no such channel")])
    )

    assert found.verdict is V.FAILED
    assert "channel_not_found: no such channel." in found.note.lower()
    assert "opsguard ledger replace acme-1:2026-11-30:reminder" in found.note


def test_what_was_resolved_as_not_sent_of_another_kind_is_for_a_person_to_tell() -> None:
    one = owed()

    found = only(world(one, holds=[held(one, S.RESOLVED_NOT_SENT)]))

    assert found.verdict is V.FAILED
    assert "allows no second attempt" in found.note


@pytest.mark.parametrize("state", [S.UNKNOWN, S.KNOWN_FAILURE, S.PREPARED, S.ABANDONED])
def test_late_evidence_that_it_went_out_is_doubt_whatever_the_state_says(state: S) -> None:
    one = reminder()

    found = only(world(one, holds=[contradicted(held(one, state))]))

    assert found.verdict is V.IN_DOUBT
    assert "late evidence" in found.note


def test_a_reminder_given_up_for_its_check_in_is_suppressed() -> None:
    one = reminder()

    found = only(world(one, holds=[held(one, S.ABANDONED, reason=Reason.TERMINAL_RESPONSE)]))

    assert found.verdict is V.SUPPRESSED


def test_a_reservation_given_up_when_its_window_closed_is_missed() -> None:
    one = owed()

    found = only(world(one, holds=[held(one, S.ABANDONED, reason=Reason.STALE, note="its window closed")]))

    assert found.verdict is V.MISSED
    assert "Its window closed." in found.note


@pytest.mark.parametrize("note", ["", "the owner gave it up"])
def test_a_reservation_given_up_for_anything_else_keeps_its_slot(note: str) -> None:
    one = owed()

    found = only(world(one, holds=[held(one, S.ABANDONED, reason=Reason.WITHDRAWN if note else None, note=note)]))

    assert found.verdict is V.FAILED
    assert "Its slot stays taken" in found.note


def test_an_altered_record_is_doubt_for_its_own_slot_and_no_other() -> None:
    one, other = owed(), owed(customer("beta-2"))

    first, second = judge(world(one, other, altered={one.slot: "row 7 was altered"}), POLICY)

    assert first.ruling.verdict is V.IN_DOUBT
    assert "row 7 was altered" in first.ruling.note
    assert second.ruling.verdict is V.DUE


@pytest.mark.parametrize("prepared", [False, True])
def test_nothing_is_sent_to_a_disabled_customer(prepared: bool) -> None:
    one = owed(customer(enabled=False))

    found = only(world(one, holds=[held(one, S.PREPARED)] if prepared else []))

    assert found.verdict is V.CUSTOMER_DISABLED
    assert ("reserved and never sent" in found.note) is prepared


def test_a_check_in_of_the_local_date_makes_a_reminder_needless_however_early_it_was() -> None:
    """00:05 in Seoul is the day before in UTC: a comparison of UTC dates reminded customers who had checked in."""
    found = only(world(reminder(), check_ins=checked_in(at=datetime(2026, 11, 29, 15, 5, tzinfo=UTC))))

    assert found.verdict is V.SUPPRESSED
    assert "2026-11-30 00:05 Asia/Seoul (app)" in found.note


def test_a_check_in_of_the_day_before_does_not() -> None:
    found = only(world(reminder(), check_ins=checked_in(at=datetime(2026, 11, 29, 14, 59, tzinfo=UTC))))

    assert found.verdict is V.DUE


def test_a_reminder_that_was_not_needed_was_not_missed() -> None:
    assert only(world(reminder(), now=CLOSES, check_ins=checked_in())).verdict is V.SUPPRESSED


@pytest.mark.parametrize("state", [None, S.PREPARED])
def test_a_reminder_that_nobody_can_tell_was_needed_is_not_called_missed(state: S | None) -> None:
    """A line of the check-ins was broken until evening, and customers who had checked in were told by hand that they had not."""
    one = reminder()
    holds = [held(one, state)] if state else []

    found = only(world(one, now=CLOSES, holds=holds, check_ins=EvidenceUnreadable("line 3 is not one JSON object")))

    assert found.verdict is V.EVIDENCE_UNREADABLE
    assert "line 3" in found.note
    assert "not sent late" in found.note


def test_evidence_that_cannot_be_read_blocks_reminders_and_nothing_else() -> None:
    unreadable = EvidenceUnreadable("line 3 of the check-ins is not one JSON object")

    first, second = judge(world(owed(), reminder(), check_ins=unreadable), POLICY)

    assert first.ruling.verdict is V.DUE
    assert second.ruling.verdict is V.EVIDENCE_UNREADABLE
    assert "line 3" in second.ruling.note


def test_a_missing_body_is_a_gap_with_its_reason() -> None:
    found = only(world(owed(), body=NoBody("outbox/acme-1/2026-11-30/daily.md cannot be read: it is not there")))

    assert found.verdict is V.BODY_MISSING
    assert "outbox/acme-1/2026-11-30/daily.md" in found.note


def test_a_body_that_nobody_looked_for_is_not_there() -> None:
    assert only(world(owed(), body=None)).verdict is V.BODY_MISSING


def test_a_template_that_changed_since_its_approval_is_a_gap_of_its_own() -> None:
    found = only(world(reminder(), body=NoTemplate("template missing-checkin-v1 was changed")))

    assert found.verdict is V.TEMPLATE_UNAPPROVED


def test_a_reservation_that_a_crash_left_prepared_is_due_again() -> None:
    one = owed()

    found = only(world(one, holds=[held(one, S.PREPARED)]))

    assert found.verdict is V.DUE
    assert "it goes on" in found.note


@pytest.mark.parametrize(("by", "shown"), [("Kim", "Kim"), ("Kim \u202e\u2066evil", r"Kim \u202e\u2066evil"), ("", "A person")])
def test_another_attempt_says_who_allowed_it(by: str, shown: str) -> None:
    """It was told as left by a run that died, and whoever approved the plan looked for a crash that never was."""
    one = reminder()
    second = replace(held(one, S.PREPARED), attempt=2, opened_under={"approved_by": by})

    found = only(world(one, holds=[second]))

    assert found.verdict is V.DUE
    assert found.note.startswith(f"{shown} allowed another attempt, number 2. Due since")


def test_another_registry_under_a_prepared_reservation_is_a_conflict_that_names_it() -> None:
    one = owed()
    before = replace(held(one, S.PREPARED), pins=pins(one, registry="b3" * 32))

    found = only(world(one, holds=[before]))

    assert found.verdict is V.PIN_CONFLICT
    assert "registry_sha256" in found.note


def test_another_body_under_a_prepared_reservation_is_a_conflict_too() -> None:
    one = owed()

    found = only(world(one, holds=[held(one, S.PREPARED)], body=Body("something else")))

    assert found.verdict is V.PIN_CONFLICT
    assert "body_sha256" in found.note
    assert "`opsguard ledger abandon acme-1:2026-11-30:daily`" in found.note, "what ends it"


def test_a_route_without_settings_is_due_and_cannot_be_sent() -> None:
    (one,) = judge(world(owed(), endpoint=Endpoint(missing="the settings of this watch have no slack")), POLICY)

    assert one.ruling.verdict is V.DUE
    assert one.ruling.pins is None
    assert "no slack" in one.ruling.note


@pytest.mark.parametrize(("state", "verdict"), [(S.UNKNOWN, V.IN_DOUBT), (S.SENDING, V.IN_DOUBT), (S.PREPARED, V.PIN_CONFLICT)])
def test_an_open_reservation_that_is_not_owed_any_more_is_not_forgotten(state: S, verdict: V) -> None:
    gone = held(owed(), state)

    found = only(world(holds=[gone]))

    assert found.verdict is verdict
    assert found.subject == "acme-1:2026-11-30:daily"
    assert found.facts["state"] == state.value


def test_a_prepared_reservation_of_long_ago_has_lapsed() -> None:
    found = only(world(now=CLOSES, holds=[held(owed(), S.PREPARED)]))

    assert found.verdict is V.MISSED


def test_a_prepared_reservation_of_another_programs_making_is_a_conflict() -> None:
    other = replace(held(owed(), S.PREPARED), pins=Pins({"name": "x"}))

    assert only(world(holds=[other], now=CLOSES)).verdict is V.PIN_CONFLICT


def test_what_is_settled_or_of_another_guard_is_no_finding_here() -> None:
    feed = replace(held(owed(), S.UNKNOWN), slot=Slot("partner-1", "x", "feed"))

    assert judge(world(holds=[feed, held(owed(), S.DELIVERED)]), POLICY) == ()


def test_an_altered_stray_is_doubt() -> None:
    assert only(world(altered={owed().slot: "its content was altered"})).verdict is V.IN_DOUBT


def test_facts_show_what_would_be_sent_without_its_text() -> None:
    one = owed()

    facts = only(world(one)).facts

    assert (facts["body_sha256"], facts["size_bytes"], facts["address"]) == (BODY.sha256, 33, "C0123456")
    assert facts["standing_approval"] is False
    assert "arrived" not in str(facts)


def test_facts_say_whether_a_standing_approval_covers_it() -> None:
    one = owed()
    standing = StandingApproval(
        id=1,
        watch="customers",
        customers=("acme-1",),
        kinds=("daily",),
        approved_by="Kim",
        comment="",
        until=NOW + timedelta(days=1),
        recorded_at=NOW - timedelta(days=1),
    )

    assert only(world(one, standing=(standing,))).facts["standing_approval"] is True


def test_every_note_is_a_sentence() -> None:
    one, asked = owed(), reminder()
    for state in S:
        for seen in (world(one, holds=[held(one, state)]), world(asked, holds=[held(asked, state)])):
            for judged in judge(seen, POLICY):
                assert judged.ruling.note.endswith((".", "`."))


def test_what_was_missed_is_reported_longer_than_what_was_sent() -> None:
    """A week after Monday's message was missed, while that week's own was still open, nothing said so any more."""
    later = CLOSES + timedelta(days=POLICY.look_back_days)
    sent, missed = owed(), owed(customer("beta-2"))

    judged = judge(world(sent, missed, now=later, holds=[held(sent, S.DELIVERED)]), POLICY)

    assert [(one.slot.customer, one.ruling.verdict) for one in judged] == [("beta-2", V.MISSED)]
    assert len(judge(world(sent, missed, now=later - timedelta(seconds=1), holds=[held(sent, S.DELIVERED)]), POLICY)) == 2


@pytest.mark.parametrize(
    ("strangers", "named"),
    [(1, "(nobody-0): see"), (5, "(nobody-0, nobody-1, nobody-2 and 2 more): see")],
)
def test_a_due_reminder_names_check_ins_of_nobody_in_the_registry(strangers: int, named: str) -> None:
    """A check-in under a misspelt key was nobody's, and its customer was reminded."""
    seen = CheckIns.of([CheckIn(f"nobody-{number}", DUE, "app") for number in range(strangers)])

    (judged,) = judge(world(reminder(), check_ins=seen), POLICY)

    assert judged.ruling.verdict is V.DUE
    assert named in judged.ruling.note

"""The ledger over PostgreSQL: the table of the specification, its projections, its chain, and what tampering leads to."""

from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval, Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.replay import FaultKind
from guards.delivery.reservation import ReservationState as S
from guards.delivery.row import MOST_ROW_BYTES, Head
from guards.delivery.slot import Grant, Slot
from resources.state import LeaseLost, StateStore
from tests.contract.state.test_plans import HOSTILE_NAMES
from tests.contract.state.worlds import SCOPE, approved_and_leased, by_hand, leased

FEED = Slot("partner-1", "0011223344556677-" + "ab" * 32, "feed")
OTHER = Slot("partner-1", "8811223344556677-" + "cd" * 32, "feed")
PINS = Pins({"name": "a.csv", "size_bytes": 7})
KIM, LEE = Approval(1, "Kim"), Approval(2, "Lee")


@pytest.fixture
def ledger(state_store):
    return state_store.ledger


def reserved(ledger, slot=FEED, pins=PINS) -> Reservation:
    held = ledger.reserve(slot, pins, key="run-1")
    assert isinstance(held, Reservation), held
    return held


def granted(ledger, slot=FEED, *, holder="run-1", ttl_seconds=900) -> Grant:
    grant = ledger.grant(reserved(ledger, slot).reservation_id, holder=holder, ttl_seconds=ttl_seconds)
    assert isinstance(grant, Grant), grant
    return grant


def code(answer) -> LedgerCode:
    assert isinstance(answer, LedgerRefused), answer
    return answer.code


def test_a_slot_is_reserved_granted_and_settled_once(ledger):
    held = reserved(ledger)
    assert (held.state, held.attempt, held.is_live) == (S.PREPARED, 1, False)
    grant = ledger.grant(held.reservation_id, holder="run-1")
    assert (grant.fence, grant.holder, grant.reservation_id) == (1, "run-1", held.reservation_id)
    assert ledger.get(held.reservation_id).is_live
    done = ledger.settle(grant, delivered({"size_bytes": 7}))
    assert (done.state, done.receipt, done.is_live) == (S.DELIVERED, {"size_bytes": 7}, False)
    assert ledger.get(held.reservation_id) == done
    assert ledger.audit(held.reservation_id).state is S.SENT_AUDITED
    assert ledger.counts() == {"sent_audited": 1}
    assert ledger.verify().faults == ()


def test_what_is_stored_is_found_by_the_same_request_and_defended_from_another(ledger):
    first = reserved(ledger)
    assert ledger.reserve(FEED, PINS, key="run-9") == first
    assert code(ledger.reserve(FEED, Pins({"name": "b.csv"}), key="run-1")) is LedgerCode.PIN_CONFLICT
    assert ledger.head().sequence == 1, "neither left a row"


def test_only_one_grant_is_given(ledger):
    grant = granted(ledger)
    assert code(ledger.grant(grant.reservation_id, holder="run-1")) is LedgerCode.BUSY
    assert code(ledger.grant(grant.reservation_id, holder="run-2")) is LedgerCode.BUSY
    assert code(ledger.expire(grant.reservation_id)) is LedgerCode.LIVE


def test_a_window_is_judged_by_the_database_clock(state_store):
    now = state_store.now()
    assert code(state_store.ledger.reserve(FEED, PINS, key="k", not_after=now)) is LedgerCode.OUTSIDE_WINDOW
    assert isinstance(state_store.ledger.reserve(FEED, PINS, key="k", not_before=now), Reservation)


def test_a_grant_whose_lease_ended_expires_to_unknown_and_its_holder_is_kept_as_late_evidence(ledger, database_url):
    grant = granted(ledger)
    by_hand(database_url, "UPDATE opsguard.ledger_slots SET lease_expires_at = now() - interval '1 second'")
    expired = ledger.expire(grant.reservation_id)
    assert (expired.state, expired.reason) == (S.UNKNOWN, Reason.LEASE_ENDED)
    assert code(ledger.settle(grant, delivered({"size_bytes": 7}))) is LedgerCode.STALE_GRANT
    told = ledger.get(grant.reservation_id)
    assert (told.state, told.is_contradicted) == (S.UNKNOWN, True)
    not_sent = ledger.resolve(grant.reservation_id, was_sent=False, evidence={"seen": "nothing"}, approval=KIM)
    assert code(not_sent) is LedgerCode.RECEIPT_CONFLICT
    assert ledger.resolve(grant.reservation_id, was_sent=True, evidence={"a": 1}, approval=KIM).state is S.RESOLVED_SENT
    assert ledger.verify().faults == ()


def test_a_holder_renews_its_own_lease_until_it_has_ended(ledger, database_url):
    grant = granted(ledger, ttl_seconds=300)
    ledger.renew(grant, ttl_seconds=600)
    assert ledger.get(grant.reservation_id).lease_expires_at > grant.lease_expires_at
    by_hand(database_url, "UPDATE opsguard.ledger_slots SET lease_expires_at = now()")
    with pytest.raises(LeaseLost):
        ledger.renew(grant)


def test_a_grant_under_a_writers_lease_lives_and_ends_with_it(state_store):
    """The scope's next writer need not wait: that it has the scope proves the holder gone."""
    authorization = approved_and_leased(state_store, holder="run-2")
    ledger = state_store.ledger
    grant = ledger.grant(reserved(ledger).reservation_id, authorization=authorization)
    assert (grant.holder, ledger.get(grant.reservation_id).is_live) == ("run-2", True)
    assert code(ledger.expire(grant.reservation_id)) is LedgerCode.LIVE
    leased(state_store, holder="run-2", scope=SCOPE)
    assert not ledger.get(grant.reservation_id).is_live
    assert ledger.expire(grant.reservation_id).state is S.UNKNOWN
    with pytest.raises(LeaseLost):
        ledger.grant(reserved(ledger, OTHER).reservation_id, authorization=authorization)


def test_late_evidence_about_a_replaced_attempt_ends_no_live_lease(ledger):
    first = granted(ledger)
    ledger.settle(first, known_failure(Reason.REJECTED))
    second = ledger.replace(FEED, approval=LEE, key="run-2")
    grant = ledger.grant(second.reservation_id, holder="run-2")
    assert code(ledger.settle(first, unknown(Reason.NO_ANSWER))) is LedgerCode.STALE_GRANT
    assert ledger.get(second.reservation_id).is_live
    assert ledger.settle(grant, delivered({"x": 1})).state is S.DELIVERED


def test_a_failed_attempt_is_replaced_and_stays_in_the_history(ledger):
    first = granted(ledger)
    ledger.settle(first, known_failure(Reason.NOT_PLACED, "disk full at the partner"))
    second = ledger.replace(FEED, approval=LEE, key="run-2")
    assert (second.attempt, second.state, second.pins) == (2, S.PREPARED, PINS)
    assert [(each.attempt, each.state) for each in ledger.of(FEED)] == [(1, S.KNOWN_FAILURE), (2, S.PREPARED)]
    assert code(ledger.audit(first.reservation_id)) is LedgerCode.ILLEGAL_EDGE
    assert code(ledger.replace(FEED, approval=LEE, key="run-3")) is LedgerCode.ILLEGAL_EDGE
    assert code(ledger.replace(OTHER, approval=LEE, key="run-3")) is LedgerCode.NOT_FOUND
    assert code(ledger.grant("0" * 32, holder="run-1")) is LedgerCode.NOT_FOUND
    assert ledger.get("0" * 32) is None
    assert ledger.verify().faults == ()


def test_what_was_only_prepared_can_be_abandoned_or_reconciled(ledger):
    abandoned_one = ledger.abandon(reserved(ledger).reservation_id, reason=Reason.TERMINAL_RESPONSE)
    assert abandoned_one.state is S.ABANDONED
    settled = ledger.reconcile(reserved(ledger, OTHER).reservation_id, receipt={"seen": 7})
    assert (settled.state, settled.receipt) == (S.RESOLVED_SENT, {"seen": 7})
    assert ledger.head().sequence == 5, "prepared to unknown to resolved: two rows, one step"
    assert code(ledger.reconcile(settled.reservation_id, receipt={"seen": 8})) is LedgerCode.RECEIPT_CONFLICT
    assert ledger.verify().faults == ()


def test_a_holder_gives_up_before_a_byte_went_out(ledger):
    assert ledger.settle(granted(ledger), abandoned(Reason.STALE)).state is S.ABANDONED


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_hostile_names_are_pinned_and_told_as_they_are(ledger, name):
    pins = Pins({"name": name})
    held = ledger.reserve(FEED, pins, key="run-1")
    grant = ledger.grant(held.reservation_id, holder="run-1")
    ledger.settle(grant, known_failure(Reason.REJECTED, name[:500]))
    (told,) = ledger.history("partner-1")
    assert (told.pins, told.note) == (pins, name[:500])
    assert ledger.verify().faults == ()


def test_history_is_looked_up_by_the_beginning_of_a_period(ledger):
    for period in ("0011-a", "0011-b", "00110", "0012-a", "0_11-a", "0"):
        reserved(ledger, Slot("partner-1", period, "feed"))
    reserved(ledger, Slot("partner-2", "0011-z", "feed"))
    assert [each.slot.period for each in ledger.history("partner-1", "0011-")] == ["0011-a", "0011-b"]
    assert [each.slot.period for each in ledger.history("partner-1", "0_")] == ["0_11-a"]
    assert len(ledger.history("partner-1")) == 6
    assert ledger.history("nobody") == ()


def test_a_snapshot_has_bounded_pages_and_a_token_that_changes_with_every_row(ledger):
    for number in range(5):
        reserved(ledger, Slot("partner-1", f"p{number}", "feed"))
    first = ledger.snapshot(limit=2)
    second = ledger.snapshot(limit=2, after=first.following)
    last = ledger.snapshot(limit=2, after=second.following)
    assert [each.slot.period for page in (first, second, last) for each in page.reservations] == ["p0", "p1", "p2", "p3", "p4"]
    assert last.following is None
    assert first.revision == last.revision
    assert ledger.snapshot(customer="nobody").reservations == ()
    ledger.grant(first.reservations[0].reservation_id, holder="run-1")
    assert ledger.snapshot().revision != first.revision


def test_a_refused_call_leaves_the_ledger_byte_for_byte(ledger, database_url):
    grant = granted(ledger)
    ledger.settle(grant, delivered({"x": 1}))

    def content():
        with psycopg.connect(database_url) as connection:
            return [
                connection.execute(f"SELECT * FROM opsguard.{table} ORDER BY 1, 2").fetchall()
                for table in ("ledger_slots", "ledger_reservations", "ledger_rows", "ledger_head")
            ]

    before = content()
    refusals = [
        ledger.reserve(FEED, Pins({"name": "z"}), key="k"),
        ledger.reserve(OTHER, PINS, key="free text"),
        ledger.grant(grant.reservation_id, holder="run-2"),
        ledger.grant(grant.reservation_id, holder="free text"),
        ledger.settle(grant, delivered({})),
        ledger.settle(grant, known_failure(Reason.REJECTED, "n" * 501)),
        ledger.expire(grant.reservation_id),
        ledger.resolve(grant.reservation_id, was_sent=False, evidence={"x": 1}, approval=KIM),
        ledger.resolve(grant.reservation_id, was_sent=False, evidence={"x": 1}, approval=Approval(1, "")),
        ledger.replace(FEED, approval=KIM, key="k"),
        ledger.abandon(grant.reservation_id, reason=Reason.WITHDRAWN),
    ]
    assert all(isinstance(refused, LedgerRefused) for refused in refusals)
    assert content() == before


def test_the_largest_pins_fit_a_row(ledger):
    held = ledger.reserve(FEED, Pins({"body": "b" * 49_000}), key="run-1")
    assert isinstance(held, Reservation)
    assert MOST_ROW_BYTES > 49_000


TAMPERING = {
    "state_rewound": ("UPDATE opsguard.ledger_reservations SET state = 'prepared'", FaultKind.PROJECTION),
    "fence_rewound": ("UPDATE opsguard.ledger_slots SET fence = 0", FaultKind.PROJECTION),
    "pins_changed": ("UPDATE opsguard.ledger_reservations SET body = replace(body, 'a.csv', 'b.csv')", FaultKind.PROJECTION),
    "row_changed": ("UPDATE opsguard.ledger_rows SET \"row\" = replace(\"row\", 'a.csv', 'b.csv')", FaultKind.DIGEST),
    "row_digest_changed": ("UPDATE opsguard.ledger_rows SET digest = repeat('f', 64) WHERE sequence = 2", FaultKind.DIGEST),
    "row_gone": ("DELETE FROM opsguard.ledger_rows WHERE sequence = 2", FaultKind.HEAD),
    "claim_gone": ("DELETE FROM opsguard.ledger_slots", FaultKind.CLAIM),
    "answer_gone": ("DELETE FROM opsguard.ledger_reservations", FaultKind.PROJECTION),
    "head_rewound": ("UPDATE opsguard.ledger_head SET sequence = 1", FaultKind.HEAD),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_what_was_altered_by_hand_is_named(ledger, database_url, name):
    granted(ledger)
    statement, kind = TAMPERING[name]
    by_hand(database_url, statement)
    assert kind in {fault.kind for fault in ledger.verify().faults}


@pytest.mark.parametrize("name", ["state_rewound", "fence_rewound", "pins_changed", "row_digest_changed", "row_gone"])
def test_an_altered_slot_is_not_sent_and_blocks_no_other(ledger, database_url, name):
    """Its state set back to `prepared` by hand: the next run would send the same message again."""
    grant = granted(ledger)
    by_hand(database_url, TAMPERING[name][0])
    for answer in (ledger.grant(grant.reservation_id, holder="run-2"), ledger.reserve(FEED, PINS, key="k")):
        assert code(answer) is LedgerCode.RECOVERY_REQUIRED
    if name != "row_gone":
        assert isinstance(granted(ledger, OTHER), Grant)


ELSEWHERE = "UPDATE opsguard.ledger_head SET server = '7000000000000000000/1/5'"


def test_another_server_asks_for_a_person_first(ledger, database_url):
    """A copy restored elsewhere, or a replica promoted, may lack rows: what it holds as open may have been sent since."""
    grant = granted(ledger)
    waiting = reserved(ledger, Slot("partner-1", "p-9", "feed"))
    by_hand(database_url, ELSEWHERE)
    assert code(ledger.settle(grant, delivered({"x": 1}))) is LedgerCode.RECOVERY_REQUIRED
    assert code(ledger.reserve(OTHER, PINS, key="k")) is LedgerCode.RECOVERY_REQUIRED
    assert ledger.of(OTHER) == (), "the claim was not kept either"
    assert ledger.verify().faults == ()
    assert code(ledger.grant(waiting.reservation_id, holder="run-2")) is LedgerCode.RECOVERY_REQUIRED, "a look accepts nothing"
    assert ledger.repair().left == ()
    assert "--accept-copy" in ledger.health().recovery
    assert ledger.repair(accept_copy=True).left == ()
    assert ledger.health().recovery == ""
    assert code(ledger.grant(waiting.reservation_id, holder="run-2")) is LedgerCode.ILLEGAL_EDGE
    assert ledger.get(waiting.reservation_id).state is S.UNKNOWN
    assert code(ledger.settle(grant, delivered({"x": 1}))) is LedgerCode.STALE_GRANT
    assert isinstance(granted(ledger, OTHER), Grant)
    assert ledger.verify().faults == ()


def test_another_database_of_the_same_server_asks_for_a_person_first(ledger, database_url, other_database_url):
    """A backup restored beside the database that it was made of."""
    reserved(ledger)
    with psycopg.connect(database_url) as one:
        server = one.execute("SELECT server FROM opsguard.ledger_head").fetchone()[0]
    with StateStore.open(other_database_url) as other:
        by_hand(other_database_url, f"UPDATE opsguard.ledger_head SET server = '{server}'")
        assert code(other.ledger.reserve(FEED, PINS, key="run-1")) is LedgerCode.RECOVERY_REQUIRED


def test_an_older_dump_that_is_restored_into_the_same_database_asks_for_a_person_first(ledger, database_url):
    """As `pg_restore --clean` does it: what had been sent since was free again, and nothing noticed."""
    tables = ("ledger_slots", "ledger_reservations", "ledger_rows", "ledger_head")
    reserved(ledger)
    dump = {}
    with psycopg.connect(database_url, autocommit=True) as one:
        for table in tables:
            with one.cursor().copy(f"COPY opsguard.{table} TO STDOUT") as copy:
                dump[table] = b"".join(bytes(block) for block in copy)
    assert ledger.settle(granted(ledger, OTHER), delivered({"x": 1})).state is S.DELIVERED
    by_hand(database_url, "DROP SCHEMA opsguard CASCADE")
    StateStore.open(database_url).close()
    with psycopg.connect(database_url, autocommit=True) as one:
        one.execute("SET session_replication_role = replica")
        one.execute("DELETE FROM opsguard.ledger_head")
        for table in tables:
            with one.cursor().copy(f"COPY opsguard.{table} FROM STDIN") as copy:
                copy.write(dump[table])
    with StateStore.open(database_url) as restored:
        assert "--accept-copy" in restored.ledger.health().recovery
        assert code(restored.ledger.reserve(OTHER, PINS, key="run-2")) is LedgerCode.RECOVERY_REQUIRED


def test_a_dump_that_was_made_before_the_first_row_asks_for_a_person_first(empty_database_url):
    """It named no place: in whichever database it was restored, all that had been sent since was free again."""
    url = empty_database_url
    with StateStore.open(url) as store, psycopg.connect(url) as one:
        before = one.execute("SELECT * FROM opsguard.ledger_head").fetchone()
        assert store.ledger.settle(granted(store.ledger, OTHER), delivered({"x": 1})).state is S.DELIVERED
    by_hand(url, "DROP SCHEMA opsguard CASCADE")
    with StateStore.open(url) as restored:
        by_hand(url, f"UPDATE opsguard.ledger_head SET server = '{before[3]}'")
        assert "--accept-copy" in restored.ledger.health().recovery
        assert code(restored.ledger.reserve(OTHER, PINS, key="run-2")) is LedgerCode.RECOVERY_REQUIRED
        assert code(restored.ledger.adopt([])) is LedgerCode.RECOVERY_REQUIRED
        assert restored.ledger.repair(accept_copy=True).left == ()
        due = restored.ledger.now() - timedelta(hours=1)
        assert restored.ledger.reserve(OTHER, PINS, key="run-2", not_before=due).state is S.UNKNOWN


def test_a_head_that_names_no_table_yet_is_believed_and_named_by_the_next_row(ledger, database_url):
    reserved(ledger)
    by_hand(database_url, "UPDATE opsguard.ledger_head SET server = regexp_replace(server, '/[0-9]+$', '')")
    with StateStore.open(database_url) as later:
        assert later.ledger.health().recovery == ""
        assert isinstance(granted(later.ledger, OTHER), Grant)
    with psycopg.connect(database_url) as one:
        (server,) = one.execute("SELECT server FROM opsguard.ledger_head").fetchone()
    assert server.count("/") == 3


def test_a_faulty_chain_is_not_accepted_on_another_server(ledger, database_url):
    granted(ledger)
    by_hand(database_url, ELSEWHERE, "DELETE FROM opsguard.ledger_rows WHERE sequence = 2")
    assert ledger.verify().faults
    assert ledger.repair(accept_copy=True).left
    assert code(ledger.reserve(OTHER, PINS, key="k")) is LedgerCode.RECOVERY_REQUIRED


def test_an_empty_ledger_verifies(ledger):
    found = ledger.verify()
    assert (found.rows, found.slots, found.head, found.faults) == (0, 0, Head(), ())


def test_the_stored_answer_equals_the_fold_of_the_rows(ledger):
    grant = granted(ledger)
    ledger.settle(grant, unknown(Reason.NO_ANSWER))
    ledger.settle(replace(grant, fence=9), delivered({"late": True}))
    ledger.resolve(grant.reservation_id, was_sent=True, evidence={"seen": True}, approval=KIM)
    found = ledger.verify()
    assert (found.rows, found.slots, found.counts, found.faults) == (5, 1, {"resolved_sent": 1}, ())

"""One writer needs no look before each row, eight writers starve nobody, and a cut connection never says what is not so."""

import json
import subprocess
import sys
import threading

import psycopg
import pytest

from guards.delivery.outcome import Approval, Reason, delivered, known_failure
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.replay import FaultKind
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant, Slot
from resources.errors import OutcomeUnknown
from resources.state import StateStore, ledger_calls
from resources.state import ledger_sql as sql
from tests.contract.state.worlds import by_hand
from tests.integration.state.children import ROOT
from tests.integration.state.test_ledger_waits import until_somebody_waits
from tests.patience import PATIENCE_SECONDS

PINS = Pins({"name": "a"})
WRITERS, MESSAGES = 8, 12


def feed(number: object) -> Slot:
    return Slot("partner-1", f"p-{number}", "feed")


def warm(ledger) -> None:
    """It has written, and has seen that it is alone."""
    for number in range(2):
        ledger.reserve(feed(f"warm-{number}"), PINS, key="run-1")


def statements_of(monkeypatch) -> list[str]:
    """The statements of the ledger's own sessions, by name."""
    names = {
        statement: name
        for name, statement in vars(sql).items()
        if isinstance(statement, str) and name in ("LOOK", "OPEN", "MOVE", "OPEN_UNSEEN", "MOVE_UNSEEN", "LOCK_HEAD")
    }
    seen: list[str] = []
    ask = ledger_calls.ask

    def noting(session, statement, parameters):
        if statement in names:
            seen.append(names[statement])
        return ask(session, statement, parameters)

    monkeypatch.setattr(ledger_calls, "ask", noting)
    return seen


def test_who_is_alone_writes_each_row_with_one_statement(state_store, monkeypatch):
    ledger = state_store.ledger
    warm(ledger)
    seen = statements_of(monkeypatch)
    held = ledger.reserve(feed(1), PINS, key="run-1")
    grant = ledger.grant(held.reservation_id, holder="run-1")
    done = ledger.settle(grant, delivered({"size": 7}))
    assert seen == ["OPEN_UNSEEN", "MOVE_UNSEEN", "MOVE_UNSEEN"]
    assert ledger.get(held.reservation_id) == done
    assert ledger.verify().faults == ()


def test_a_row_of_somebody_else_in_between_is_seen(state_store, database_url, monkeypatch):
    ledger = state_store.ledger
    warm(ledger)
    held = ledger.reserve(feed(1), PINS, key="run-1")
    with StateStore.open(database_url) as other:
        assert isinstance(other.ledger.grant(held.reservation_id, holder="run-9"), Grant)
    seen = statements_of(monkeypatch)
    answer = ledger.grant(held.reservation_id, holder="run-1")
    assert isinstance(answer, LedgerRefused)
    assert answer.code is LedgerCode.BUSY
    assert seen == ["MOVE_UNSEEN", "LOOK"]
    assert ledger.verify().faults == ()


def test_a_slot_that_is_taken_is_found_taken_without_a_look_before(state_store):
    ledger = state_store.ledger
    held = ledger.reserve(feed(1), PINS, key="run-1")
    warm(ledger)
    assert ledger.reserve(feed(1), PINS, key="run-2") == held
    assert ledger.reserve(feed(1), Pins({"name": "b"}), key="run-2").code is LedgerCode.PIN_CONFLICT


def test_a_caller_that_changes_what_it_was_given_changes_nothing_that_is_written(state_store):
    ledger = state_store.ledger
    warm(ledger)
    held = ledger.reserve(feed(1), PINS, key="run-1")
    done = ledger.settle(ledger.grant(held.reservation_id, holder="run-1"), delivered({"size": 7}))
    done.receipt["size"] = 8
    assert ledger.audit(held.reservation_id).receipt == {"size": 7}
    assert ledger.verify().faults == ()


TAMPERING = {
    "claim_gone": "DELETE FROM opsguard.ledger_slots WHERE period = 'p-1'",
    "fence_set": "UPDATE opsguard.ledger_slots SET fence = 7 WHERE period = 'p-1'",
    "answer_gone": "DELETE FROM opsguard.ledger_reservations WHERE period = 'p-1'",
    "answer_names_another_row": "UPDATE opsguard.ledger_reservations SET row_sequence = 1 WHERE period = 'p-1'",
    "head_rewound": "UPDATE opsguard.ledger_head SET sequence = sequence - 1",
}


@pytest.mark.parametrize("name", TAMPERING)
def test_what_was_altered_since_the_last_row_is_noticed_before_the_next(state_store, database_url, name):
    ledger = state_store.ledger
    warm(ledger)
    held = ledger.reserve(feed(1), PINS, key="run-1")
    by_hand(database_url, TAMPERING[name])
    answer = ledger.grant(held.reservation_id, holder="run-1")
    assert isinstance(answer, LedgerRefused)
    assert answer.code is LedgerCode.RECOVERY_REQUIRED


def test_another_server_is_noticed_by_who_wrote_last(state_store, database_url):
    """The server was replaced by a copy of this morning while the connection stayed (a pooler in between)."""
    ledger = state_store.ledger
    warm(ledger)
    by_hand(database_url, "UPDATE opsguard.ledger_head SET server = '7000000000000000000/1'")
    assert ledger.reserve(feed(1), PINS, key="run-1").code is LedgerCode.RECOVERY_REQUIRED


@pytest.mark.parametrize("gone", ["claim", "claim and answer"])
def test_a_claim_deleted_by_hand_is_no_free_slot(state_store, database_url, gone):
    """Reserved again it would be sent again: the rows still say that it was."""
    ledger = state_store.ledger
    grant = ledger.grant(ledger.reserve(feed(1), PINS, key="run-1").reservation_id, holder="run-1")
    ledger.settle(grant, delivered({"size": 7}))
    statements = ["DELETE FROM opsguard.ledger_slots", "DELETE FROM opsguard.ledger_reservations"]
    by_hand(database_url, *(statements if gone == "claim and answer" else statements[:1]))
    for handle in (ledger, StateStore(state_store.engine).ledger):
        assert handle.reserve(feed(1), PINS, key="run-1").code is LedgerCode.RECOVERY_REQUIRED
        assert handle.grant(grant.reservation_id, holder="run-2").code is LedgerCode.RECOVERY_REQUIRED
    repaired = ledger.repair()
    assert (len(repaired.made), repaired.left) == (1, ())
    assert ledger.reserve(feed(1), PINS, key="run-1").state is S.DELIVERED
    assert ledger.verify().faults == ()


def test_tables_restored_from_an_older_copy_than_the_rows_open_no_third_attempt(state_store, database_url):
    """Slots and answers came from last night's copy, in which the first attempt had failed; the second was delivered since."""
    ledger = state_store.ledger
    grant = ledger.grant(ledger.reserve(feed(1), PINS, key="run-1").reservation_id, holder="run-1")
    ledger.settle(grant, known_failure(Reason.REJECTED))
    with psycopg.connect(database_url, autocommit=True) as copying:
        for table in ("ledger_slots", "ledger_reservations"):
            copying.execute(f"CREATE TABLE public.{table} AS TABLE opsguard.{table}")
    second = ledger.replace(feed(1), approval=Approval(2, "Lee"), key="run-2")
    ledger.settle(ledger.grant(second.reservation_id, holder="run-2"), delivered({"size": 7}))
    for table in ("ledger_slots", "ledger_reservations"):
        by_hand(database_url, f"DELETE FROM opsguard.{table}", f"INSERT INTO opsguard.{table} SELECT * FROM public.{table}")
    again = ledger.replace(feed(1), approval=Approval(3, "Kim"), key="run-3")
    assert again.code is LedgerCode.RECOVERY_REQUIRED
    assert ledger.repair().left == ()
    assert [each.state for each in ledger.of(feed(1))] == [S.KNOWN_FAILURE, S.DELIVERED]


def test_a_repair_touches_no_chain_that_does_not_verify(state_store, database_url):
    ledger = state_store.ledger
    warm(ledger)
    by_hand(
        database_url,
        "UPDATE opsguard.ledger_rows SET digest = repeat('f', 64) WHERE sequence = 1",
        "DELETE FROM opsguard.ledger_slots",
    )
    repaired = ledger.repair()
    assert repaired.made == ()
    assert {FaultKind.DIGEST, FaultKind.CLAIM} <= {fault.kind for fault in repaired.left}


def test_a_row_filed_under_another_reservation_is_named(state_store, database_url):
    ledger = state_store.ledger
    warm(ledger)
    by_hand(database_url, "UPDATE opsguard.ledger_rows SET reservation = repeat('0', 32) WHERE sequence = 2")
    assert [(fault.kind, fault.sequence) for fault in ledger.verify().faults] == [(FaultKind.PROJECTION, 2)]


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_session_ended_while_its_row_waits_is_an_unknown_outcome(state_store, database_url, postgres_url, is_warm):
    """An administrator ends the session of a grant that is waiting: nobody told it whether it had the right to call."""
    ledger, raised = state_store.ledger, []
    held = ledger.reserve(feed(1), PINS, key="run-1")
    if is_warm:
        warm(ledger)

    def ask():
        try:
            ledger.grant(held.reservation_id, holder="run-1")
        except OutcomeUnknown as error:
            raised.append(error)

    waiting = threading.Thread(target=ask)
    with psycopg.connect(database_url) as holding, psycopg.connect(postgres_url, autocommit=True) as admin:
        holding.execute("SELECT FROM opsguard.ledger_head FOR UPDATE")
        waiting.start()
        until_somebody_waits(database_url)
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        waiting.join(PATIENCE_SECONDS)
    assert [type(error) for error in raised] == [OutcomeUnknown]
    assert ledger.get(held.reservation_id).state is S.PREPARED
    assert isinstance(ledger.grant(held.reservation_id, holder="run-1"), Grant), "it goes on over a new connection"


def test_connections_that_broke_while_idle_are_not_noticed_by_a_caller(state_store, postgres_url):
    ledger = state_store.ledger
    held = ledger.reserve(feed(1), PINS, key="run-1")
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'opsguard'")
    assert isinstance(ledger.grant(held.reservation_id, holder="run-1"), Grant)


WRITER = """
import json, sys, time
from guards.delivery.outcome import delivered
from guards.delivery.pins import Pins
from guards.delivery.slot import Slot
from resources.state import StateStore
url, me, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with StateStore.open(url) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    sent = []
    for number in range(count):
        slot = Slot("partner-1", f"{me}-{number}", "feed")
        held = store.ledger.reserve(slot, Pins({"n": number}), key=me)
        grant = store.ledger.grant(held.reservation_id, holder=me)
        sent.append(store.ledger.settle(grant, delivered({"by": me})).state.value)
    print(json.dumps(sent), flush=True)
"""


def test_eight_writers_at_once_lose_no_row_and_starve_nobody(state_store, database_url):
    """Whoever lost the race for the head again and again would never get to send."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, database_url, f"run-{number}", str(MESSAGES)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        said, _ = writer.communicate(timeout=120)
        assert json.loads(said) == ["delivered"] * MESSAGES
    found = state_store.ledger.verify()
    assert (found.rows, found.counts, found.faults) == (3 * WRITERS * MESSAGES, {"delivered": WRITERS * MESSAGES}, ())

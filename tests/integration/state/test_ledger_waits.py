"""A call that had to wait for the ledger sees it as the other left it, not as it was when the wait began."""

import threading
import time

import psycopg
import pytest

from guards.delivery import transition
from guards.delivery.entry import Reservation
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Slot
from resources.state.ledger_calls import Calls
from resources.state.ledger_steps import Call
from resources.state.sessions import Sessions
from tests.integration.state.children import SLOT
from tests.patience import PATIENCE_SECONDS

PINS = Pins({"name": "a"})
OTHER = Slot("partner-1", "other", "feed")


def until_somebody_waits(database_url: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    with psycopg.connect(database_url, autocommit=True) as looking:
        while time.monotonic() < deadline:
            waiting = looking.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            if waiting != (0,):
                return
    raise AssertionError("nobody waits")


@pytest.mark.parametrize("call", ["reserve", "reserve another", "grant", "abandon"])
def test_a_call_that_waited_sees_what_was_committed_meanwhile(state_store, database_url, call):
    """Six processes wanted one slot: the losers of the claim read the winner's slot beside rows older than it, and called it altered."""
    ledger, answers = state_store.ledger, []
    held = ledger.reserve(SLOT, PINS, key="run-1")
    asked = {
        "reserve": lambda: ledger.reserve(OTHER, Pins({"name": "b"}), key="run-2"),
        "reserve another": lambda: ledger.reserve(Slot("partner-1", "third", "feed"), PINS, key="run-2"),
        "grant": lambda: ledger.grant(held.reservation_id, holder="run-2"),
        "abandon": lambda: ledger.abandon(held.reservation_id, reason=transition.Reason.WITHDRAWN),
    }[call]
    first = Call(
        what="the grant",
        reservation=held.reservation_id,
        rule=lambda it, _: transition.grant(it, holder="run-1"),
        lease_seconds=900,
    )
    if call.startswith("reserve"):
        first = Call(
            what="it", slot=OTHER, rule=lambda it, now: transition.reserve(it, slot=OTHER, pins=PINS, key="run-1", now=now)
        )
    waiting = threading.Thread(target=lambda: answers.append(asked()))
    sessions = Sessions(state_store.engine)
    calls = Calls(sessions)
    with sessions.one() as session:
        seen = calls.look(session, first, locked=True)
        assert seen
        waiting.start()
        until_somebody_waits(database_url)
        assert isinstance(calls.answer(session, first, seen, locked=True), Reservation)
    sessions.close()
    waiting.join(PATIENCE_SECONDS)
    (answer,) = answers
    match call:
        case "reserve":
            assert isinstance(answer, LedgerRefused)
            assert answer.code is LedgerCode.PIN_CONFLICT
        case "reserve another":
            assert answer.state is ReservationState.PREPARED
        case "grant":
            assert isinstance(answer, LedgerRefused)
            assert answer.code is LedgerCode.BUSY
        case _:
            assert isinstance(answer, LedgerRefused)
            assert answer.code is LedgerCode.ILLEGAL_EDGE
    assert ledger.verify().faults == ()


def test_an_expiry_that_waited_for_a_renewed_lease_finds_the_holder_alive(state_store, database_url):
    """The lease had run out when it was looked at; its holder had asked for more before, and was still waiting for the answer."""
    ledger, answers = state_store.ledger, []
    held = ledger.reserve(SLOT, PINS, key="run-1")
    ledger.grant(held.reservation_id, holder="run-1", ttl_seconds=0)
    waiting = threading.Thread(target=lambda: answers.append(ledger.expire(held.reservation_id)))
    with psycopg.connect(database_url) as renewing:
        renewing.execute("UPDATE opsguard.ledger_slots SET lease_expires_at = clock_timestamp() + interval '1 hour'")
        waiting.start()
        until_somebody_waits(database_url)
    waiting.join(PATIENCE_SECONDS)
    (answer,) = answers
    assert isinstance(answer, LedgerRefused)
    assert answer.code is LedgerCode.LIVE
    assert ledger.get(held.reservation_id).state is ReservationState.SENDING
    assert ledger.verify().faults == ()


def test_a_grant_that_waited_while_its_writer_lost_the_scope_is_not_given(state_store, database_url):
    """The lease was whole when the ledger was looked at, and another run's when the row was due."""
    from resources.state import LeaseLost
    from tests.contract.state.worlds import SCOPE, approved_and_leased

    ledger, answers = state_store.ledger, []
    authorization = approved_and_leased(state_store)
    held = ledger.reserve(SLOT, PINS, key="run-1")

    def ask():
        try:
            answers.append(ledger.grant(held.reservation_id, authorization=authorization))
        except LeaseLost as lost:
            answers.append(lost)

    waiting = threading.Thread(target=ask)
    with psycopg.connect(database_url) as taking:
        taking.execute("UPDATE opsguard.leases SET fence = fence + 1, holder = 'run-9' WHERE scope = %s", [SCOPE])
        waiting.start()
        until_somebody_waits(database_url)
    waiting.join(PATIENCE_SECONDS)
    assert isinstance(answers[0], LeaseLost)
    assert ledger.get(held.reservation_id).state is ReservationState.PREPARED
    assert ledger.verify().faults == ()

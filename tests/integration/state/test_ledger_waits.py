"""A call that had to wait for a slot sees it as the other left it, not as it was when the wait began."""

import threading
import time

import psycopg
import pytest

from guards.delivery import transition
from guards.delivery.entry import Reservation
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from resources.state.ledger_rows import Lease, append, lock_slot
from tests.integration.state.children import SLOT

PINS = Pins({"name": "a"})
PATIENCE_SECONDS = 30.0


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


@pytest.mark.parametrize("call", ["reserve", "grant", "expire"])
def test_a_call_that_waited_sees_what_was_committed_meanwhile(state_store, database_url, call):
    """Six processes wanted one slot: the losers of the claim read the winner's slot beside rows older than it, and called it altered."""
    ledger = state_store.ledger
    held = ledger.reserve(SLOT, PINS, key="run-1")
    answers: list[object] = []
    asked = {
        "reserve": lambda: ledger.reserve(SLOT, PINS, key="run-2"),
        "grant": lambda: ledger.grant(held.reservation_id, holder="run-2"),
        "expire": lambda: ledger.expire(held.reservation_id),
    }[call]
    waiting = threading.Thread(target=lambda: answers.append(asked()))
    with state_store.engine.begin() as connection:
        current = lock_slot(connection, SLOT)
        assert isinstance(current, Reservation)
        append(connection, current, transition.grant(current, holder="run-1").entries, lease=Lease(900))
        waiting.start()
        until_somebody_waits(database_url)
    waiting.join(PATIENCE_SECONDS)
    (answer,) = answers
    if call == "reserve":
        assert isinstance(answer, Reservation)
        assert (answer.state, answer.holder) == (ReservationState.SENDING, "run-1")
    else:
        assert isinstance(answer, LedgerRefused)
        assert answer.code is (LedgerCode.BUSY if call == "grant" else LedgerCode.LIVE)
    assert ledger.verify().faults == ()

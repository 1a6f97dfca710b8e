"""The ledger's own connections: opened as the URL says, and none is kept that was found unfit."""

import psycopg
import pytest

from guards.delivery import transition
from guards.delivery.pins import Pins
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from resources.errors import Unreachable
from resources.state import StateStore
from resources.state.ledger_calls import Calls
from resources.state.ledger_steps import Call
from resources.state.sessions import Sessions
from tests.integration.state.children import SLOT

PINS = Pins({"a": 1})


def test_what_a_url_says_of_the_connection_is_no_argument_given_twice(database_url):
    """`?connect_timeout=5` is in many a URL: the store opened with it, and the first reservation ended in a TypeError."""
    with StateStore.open(f"{database_url}?connect_timeout=5&application_name=mine&sslmode=prefer") as store:
        assert store.ledger.reserve(SLOT, PINS, key="k").state is ReservationState.PREPARED


@pytest.mark.parametrize("style", ["German, DMY", "SQL, MDY", "Postgres, DMY"])
def test_how_a_database_spells_its_dates_changes_nothing(database_url, style):
    """Everything else worked, and each reservation ended in a ValueError."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE \"{connection.info.dbname}\" SET DateStyle = '{style}'")
        try:
            with StateStore.open(database_url) as store:
                assert store.ledger.reserve(SLOT, PINS, key="k").state is ReservationState.PREPARED
        finally:
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" RESET DateStyle')


def test_a_session_that_failed_is_not_used_again(state_store):
    """A pooler put another server behind it, where nothing was prepared: every reservation of the process failed from then on."""
    reservation = state_store.ledger.reserve(SLOT, PINS, key="k")
    again = Call(
        what="the reservation",
        slot=SLOT,
        rule=lambda held, place: transition.reserve(held, slot=SLOT, pins=PINS, key="k", now=place.now),
    )
    sessions = Sessions(state_store.engine)
    calls = Calls(sessions)
    assert calls.make(again) == reservation
    with sessions.one() as session:
        session.execute("DEALLOCATE ALL")
    with pytest.raises(Unreachable, match="prepared statement"):
        calls.make(again)
    assert calls.make(again) == reservation
    sessions.close()


def test_a_take_over_whose_connection_is_cut_takes_nothing_and_says_so(state_store, other_database_url, postgres_url):
    state_store.ledger.reserve(SLOT, PINS, key="k")
    (row,) = state_store.ledger.rows()

    def cut():
        yield row
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'opsguard'")

    with StateStore.open(other_database_url) as other:
        with pytest.raises(Unreachable, match="could not be used"):
            other.ledger.adopt(cut())
        assert other.ledger.head() == Head()

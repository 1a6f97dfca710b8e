"""The ledger's own connections: opened as the URL says, and none is kept that was found unfit."""

from guards.delivery.pins import Pins
from guards.delivery.reservation import ReservationState
from resources.state import StateStore
from tests.integration.state.children import SLOT

PINS = Pins({"a": 1})


def test_what_a_url_says_of_the_connection_is_no_argument_given_twice(database_url):
    """`?connect_timeout=5` is in many a URL: the store opened with it, and the first reservation ended in a TypeError."""
    with StateStore.open(f"{database_url}?connect_timeout=5&application_name=mine&sslmode=prefer") as store:
        assert store.ledger.reserve(SLOT, PINS, key="k").state is ReservationState.PREPARED

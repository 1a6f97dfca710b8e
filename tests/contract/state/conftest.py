"""Fixtures of the store's contract."""

from datetime import timedelta

import pytest

from guards.delivery.outcome import delivered
from guards.delivery.pins import Pins
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from tests.contract.state.worlds import approved_and_leased, receipt_of


@pytest.fixture
def filled(state_store):
    """A store with a row in every table."""
    authorization = approved_and_leased(state_store, "a.csv")
    state_store.use_approval(authorization)
    state_store.outcome(authorization, state_store.intend(authorization, subject="a.csv", step="place", detail={}), {"ok": True})
    state_store.add_receipt(authorization, receipt_of(authorization))
    held = state_store.ledger.reserve(Slot("partner-1", "p-1", "feed"), Pins({"name": "a\udc80\0"}), key="run-2")
    grant = state_store.ledger.grant(held.reservation_id, authorization=authorization)
    state_store.ledger.settle(grant, delivered({"size": 7}))
    state_store.first_seen("shelf", "one", ["a.csv", "b\0\udc80"])
    state_store.outbox.enqueue("k", {"text": "\udc80"})
    standing = state_store.standing.allow(
        "customers", customers=["acme-1"], kinds=["daily"], by="Kim", until=state_store.now() + timedelta(days=1)
    )
    state_store.standing.revoke(standing.id, by="Lee", comment="\udc80\0")
    state_store.published.publish("file 1", Head(1, "a" * 64), run_id="run-2")
    return state_store

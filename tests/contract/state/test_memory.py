"""First-seen times and the outbox."""

from datetime import timedelta

import pytest

from resources.state.outbox import CLAIM_LASTS
from tests.contract.state.test_plans import HOSTILE_NAMES
from tests.contract.state.worlds import by_hand


def test_a_name_keeps_the_time_it_was_first_seen(state_store):
    first = state_store.first_seen("spool", "acme", ["a", "b"])
    later = state_store.first_seen("spool", "acme", ["b", "c", "c"])
    assert later["b"] == first["b"] < later["c"] <= state_store.now()
    assert set(later) == {"b", "c"}
    assert state_store.first_seen("spool", "other", ["b"])["b"] > first["b"]
    assert state_store.first_seen("spool", "acme", []) == {}


def test_hostile_names_are_remembered_apart(state_store):
    names = [*HOSTILE_NAMES, "x" * 4000, "\udc80", "\udc81", "\\udc80", "é", "e\u0301"]
    first = state_store.first_seen("spool", "acme", names)
    assert set(first) == set(names)
    assert state_store.first_seen("spool", "acme", names) == first


def test_twenty_thousand_names_are_remembered(state_store):
    names = [f"orders-{number:05}.csv" for number in range(20_000)]
    assert state_store.first_seen("spool", "acme", names) == state_store.first_seen("spool", "acme", names)


def test_a_key_is_queued_once_for_ever(state_store):
    assert state_store.outbox.enqueue("plan:abc", {"text": "\udc80\0"}) is True
    assert state_store.outbox.enqueue("plan:abc", {"text": "other"}) is False
    (row,) = state_store.outbox.claim(10)
    assert (row.key, row.payload, row.status, row.attempts) == ("plan:abc", {"text": "\udc80\0"}, "sending", 1)
    state_store.outbox.sent(row.outbox_id, "1700000000.000100")
    assert state_store.outbox.enqueue("plan:abc", {}) is False
    assert state_store.outbox.pending() == []
    assert state_store.outbox.counts() == {"sent": 1}


def test_a_claimed_alert_is_nobody_elses(state_store):
    for number in range(3):
        state_store.outbox.enqueue(f"k{number}", number)
    assert [row.key for row in state_store.outbox.claim(2)] == ["k0", "k1"]
    assert [row.key for row in state_store.outbox.claim(2)] == ["k2"]
    assert state_store.outbox.claim(2) == []


def test_an_alert_provably_not_sent_is_due_again_later(state_store):
    state_store.outbox.enqueue("k", {})
    (row,) = state_store.outbox.claim(1)
    state_store.outbox.failed(row.outbox_id, "429", state_store.now() + timedelta(hours=1))
    assert state_store.outbox.claim(1) == []
    (waiting,) = state_store.outbox.pending()
    assert (waiting.status, waiting.why) == ("queued", "429")


def test_an_alert_whose_retry_is_due_is_claimed_again(state_store):
    state_store.outbox.enqueue("k", {})
    (row,) = state_store.outbox.claim(1)
    state_store.outbox.failed(row.outbox_id, "connection refused", state_store.now())
    assert [row.attempts for row in state_store.outbox.claim(1)] == [2]


@pytest.mark.parametrize("how", ["unknown", "failed"])
def test_an_alert_in_doubt_or_given_up_is_not_sent_again_and_is_said(state_store, how):
    state_store.outbox.enqueue("k", {})
    (row,) = state_store.outbox.claim(1)
    if how == "unknown":
        state_store.outbox.unknown(row.outbox_id, "the answer was lost")
    else:
        state_store.outbox.failed(row.outbox_id, "channel_not_found", None)
    assert state_store.outbox.claim(9) == []
    assert [(each.status, bool(each.why)) for each in state_store.outbox.in_doubt()] == [(how, True)]


def test_a_claim_whose_process_died_becomes_unknown(state_store, database_url):
    """Killed between the call and its answer: sending again might post twice, so it is said instead."""
    state_store.outbox.enqueue("k", {})
    (row,) = state_store.outbox.claim(1)
    by_hand(database_url, f"UPDATE opsguard.outbox SET claimed_at = now() - interval '{CLAIM_LASTS.total_seconds() + 1} seconds'")
    assert state_store.outbox.claim(1) == []
    (doubtful,) = state_store.outbox.in_doubt()
    assert (doubtful.status, doubtful.key) == ("unknown", "k")
    state_store.outbox.failed(row.outbox_id, "late word", state_store.now())
    assert state_store.outbox.counts() == {"unknown": 1}
    state_store.outbox.sent(row.outbox_id, "17.1")
    assert state_store.outbox.counts() == {"sent": 1}

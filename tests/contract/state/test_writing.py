"""Leases, journal and receipts: one writer per scope, and every change carries the newest fence."""

import pytest

from guards.gate import Lease
from guards.refusal import RefusalCode, Refused
from resources.state import LeaseLost
from tests.contract.state.test_plans import HOSTILE_NAMES
from tests.contract.state.worlds import SCOPE, approved_and_leased, leased, receipt_of


def test_one_run_holds_a_scope_and_the_others_hear_who_and_until_when(state_store):
    lease = leased(state_store, holder="run-1")
    refused = state_store.acquire_lease(SCOPE, holder="run-2", ttl_seconds=60)
    assert isinstance(refused, Refused)
    assert refused.code is RefusalCode.BUSY
    assert "run-1" in refused.message
    assert f"{lease.expires_at:%H:%M:%S}" in refused.message
    assert isinstance(state_store.acquire_lease("shelf/two", holder="run-2", ttl_seconds=60), Lease)


def test_a_fence_is_never_given_out_twice(state_store):
    fences = []
    for holder in ("run-1", "run-1", "run-2", "run-3"):
        lease = leased(state_store, holder=holder)
        fences.append(lease.fence)
        if holder != "run-1" or len(fences) == 2:
            state_store.release(lease)
    assert fences == [1, 2, 3, 4]


def test_a_heartbeat_prolongs_and_a_lost_lease_does_not_come_back(state_store):
    lease = leased(state_store, holder="run-1")
    assert state_store.heartbeat(lease).expires_at > lease.expires_at
    state_store.release(lease)
    with pytest.raises(LeaseLost):
        state_store.heartbeat(lease)
    state_store.release(lease)


def test_releasing_an_old_lease_does_not_end_the_new_one(state_store):
    old = leased(state_store, holder="run-1")
    state_store.release(old)
    new = leased(state_store, holder="run-2")
    state_store.release(old)
    assert state_store.heartbeat(new).fence == new.fence


@pytest.mark.parametrize(("holder", "ttl_seconds"), [("", 60), ("run-1", 0), ("run-1", -1), ("run-1", 86_401)])
def test_a_lease_has_a_holder_and_a_bounded_life(state_store, holder, ttl_seconds):
    with pytest.raises(ValueError):
        state_store.acquire_lease(SCOPE, holder=holder, ttl_seconds=ttl_seconds)


def test_everything_a_writer_records_is_refused_once_its_fence_is_old(state_store):
    """A run frozen for an hour wakes up: another has the scope, and nothing of the first may be recorded as done."""
    authorization = approved_and_leased(state_store, holder="run-2")
    intent = state_store.intend(authorization, subject="a.csv", step="place", detail={})
    state_store.require_live(authorization)
    leased(state_store, holder="run-2")
    for attempt in (
        lambda: state_store.require_live(authorization),
        lambda: state_store.intend(authorization, subject="a.csv", step="place", detail={}),
        lambda: state_store.outcome(authorization, intent, {"ok": True}),
        lambda: state_store.add_receipt(authorization, receipt_of(authorization)),
    ):
        with pytest.raises(LeaseLost):
            attempt()
    assert state_store.receipts() == []
    assert [row.is_open for row in state_store.journal(guard="shelf", watch="one")] == [True]


def test_an_intent_without_outcome_stays_open_for_the_next_run(state_store):
    first = approved_and_leased(state_store, "a.csv", holder="run-2")
    done = state_store.intend(first, subject="a.csv", step="upload", detail={"temp": ".a.part"})
    left = state_store.intend(first, subject="a.csv", step="place", detail={})
    state_store.outcome(first, done, {"result": "uploaded"})
    state_store.release(leased(state_store, holder="run-2"))
    (row,) = state_store.journal(guard="shelf", watch="one", open_only=True)
    assert (row.intent_id, row.step, row.run_id, row.outcome) == (left, "place", "run-2", None)
    second = approved_and_leased(state_store, "b.csv", holder="run-3")
    state_store.outcome(second, left, {"result": "not placed"})
    assert state_store.journal(guard="shelf", watch="one", open_only=True) == []
    assert state_store.journal(guard="shelf", watch="one", subject="a.csv")[1].outcome_run_id == "run-3"
    assert state_store.journal(guard="shelf", watch="two") == []


def test_an_intent_has_one_outcome(state_store):
    authorization = approved_and_leased(state_store)
    intent = state_store.intend(authorization, subject="a.csv", step="place", detail={})
    state_store.outcome(authorization, intent, {"ok": True})
    state_store.outcome(authorization, intent, {"ok": True})
    with pytest.raises(ValueError, match="another outcome"):
        state_store.outcome(authorization, intent, {"ok": False})
    with pytest.raises(ValueError, match="no intent"):
        state_store.outcome(authorization, intent + 99, {"ok": True})


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_hostile_names_in_journal_and_receipts_come_back_as_they_were(state_store, name):
    authorization = approved_and_leased(state_store, name)
    state_store.intend(authorization, subject=name, step="place", detail={"name": name})
    (row,) = state_store.journal(guard="shelf", watch="one", subject=name)
    assert (row.subject, row.detail) == (name, {"name": name})
    made = state_store.add_receipt(authorization, receipt_of(authorization, name, evidence={"name": name}))
    assert (made.subject, made.evidence) == (name, {"name": name})


def test_a_receipt_is_recorded_once_with_the_database_time(state_store):
    """The answer to the first may be lost: the same again is the one already recorded, another is an error."""
    authorization = approved_and_leased(state_store)
    first = state_store.add_receipt(authorization, receipt_of(authorization))
    assert first.recorded_at is not None
    assert state_store.add_receipt(authorization, receipt_of(authorization)) == first
    assert state_store.receipts(plan_digest=authorization.plan_digest) == [first]
    with pytest.raises(ValueError, match="another receipt"):
        state_store.add_receipt(authorization, receipt_of(authorization, size_bytes=8))


@pytest.mark.parametrize(
    "changes", [{"guard": "spool"}, {"watch": "two"}, {"plan_digest": "f" * 64}, {"approval_id": 99}, {"approved_by": "M"}]
)
def test_a_receipt_belongs_to_its_authorization(state_store, changes):
    authorization = approved_and_leased(state_store)
    with pytest.raises(ValueError, match="does not belong"):
        state_store.add_receipt(authorization, receipt_of(authorization, **changes))


def test_receipts_come_newest_first_and_can_be_narrowed(state_store):
    authorization = approved_and_leased(state_store, "a", "b")
    for name in ("a", "b"):
        state_store.add_receipt(authorization, receipt_of(authorization, name))
    assert [each.subject for each in state_store.receipts()] == ["b", "a"]
    assert [each.subject for each in state_store.receipts(guard="shelf", watch="one", limit=1)] == ["b"]
    assert state_store.receipts(guard="spool") == []

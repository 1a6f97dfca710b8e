"""The latest attempts of many slots at once, and what is unfinished, however much else there is."""

from guards.delivery.outcome import Approval, Reason, known_failure, unknown
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Slot
from tests.ledgers.builders import KIM, brought_to, feed, granted, reserved, told, weekly


def test_each_slot_that_is_asked_for_is_answered_with_its_latest_attempt_and_a_free_one_with_nothing(world, ledger):
    grant = granted(ledger, feed(1))
    told(ledger.settle(grant, known_failure(Reason.REJECTED)))
    told(ledger.replace(feed(1), approval=KIM, key="run-2"))
    reserved(ledger, weekly(2))
    reserved(ledger, feed(3))
    before = world.content()

    found = ledger.latest([weekly(2), feed(1), feed(99), feed(1)])

    assert set(found) == {feed(1), weekly(2)}
    assert (found[feed(1)].attempt, found[feed(1)].state) == (2, S.PREPARED)
    assert found[weekly(2)] == ledger.of(weekly(2))[-1]
    assert ledger.latest([]) == {}
    assert world.content() == before


def test_many_slots_are_one_question(ledger):
    for number in range(30):
        reserved(ledger, feed(number))

    found = ledger.latest([Slot("partner-1", f"p-{number}", "feed") for number in range(6_000)])

    assert len(found) == 30


def test_what_is_unfinished_is_what_is_prepared_sending_or_unknown_in_slot_order(ledger):
    for number, state in enumerate(S):
        brought_to(ledger, state, feed(number))
    reserved(ledger, weekly(0))

    found = ledger.unfinished()

    assert {each.state for each in found.values()} == {S.PREPARED, S.SENDING, S.UNKNOWN}
    assert list(found) == sorted(found)
    assert len(found) == 4
    assert all(found[slot] == ledger.of(slot)[-1] for slot in found)


def test_a_live_call_is_told_from_one_whose_holder_is_gone(world, ledger):
    other = world.open()
    grant = granted(other, feed(1))
    assert ledger.unfinished()[feed(1)].is_live
    assert ledger.latest([feed(1)])[feed(1)].is_live

    world.gone(other, grant)

    assert not ledger.unfinished()[feed(1)].is_live


def test_what_was_resolved_is_finished(ledger):
    grant = granted(ledger, feed(1))
    told(ledger.settle(grant, unknown(Reason.NO_ANSWER)))
    told(ledger.resolve(grant.reservation_id, was_sent=False, evidence={"asked": "Kim"}, approval=Approval(0, "Kim")))

    assert ledger.unfinished() == {}

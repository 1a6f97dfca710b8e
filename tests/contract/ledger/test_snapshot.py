"""Snapshots: read-only, in bounded pages, with a token that changes iff something did, also while others write."""

import threading

from guards.delivery.outcome import Reason, unknown
from guards.delivery.slot import Grant
from resources.ledger.interface import MOST_PER_PAGE, Ledger, Snapshot
from tests.ledgers.builders import LEE, OTHER_PINS, RECEIPT, code, feed, granted, reserved, told, weekly


def all_pages(ledger: Ledger, *, limit: int) -> list[Snapshot]:
    pages = [ledger.snapshot(limit=limit)]
    while pages[-1].following is not None:
        pages.append(ledger.snapshot(limit=limit, after=pages[-1].following))
    return pages


def test_pages_hold_the_latest_attempts_in_slot_order(world, ledger):
    for number in range(7):
        reserved(ledger, feed(number))
        reserved(ledger, weekly(number))
    before = world.content()
    pages = all_pages(ledger, limit=4)
    assert [len(page.reservations) for page in pages] == [4, 4, 4, 2]
    slots = [each.slot for page in pages for each in page.reservations]
    assert slots == sorted(slots)
    assert len(set(slots)) == 14
    assert len({page.revision for page in pages}) == 1
    assert [each.slot for each in ledger.snapshot(customer="partner-1").reservations] == [feed(number) for number in range(7)]
    assert ledger.snapshot(customer="nobody").reservations == ()
    assert world.content() == before


def test_a_page_is_bounded_whatever_is_asked(ledger):
    for number in range(3):
        reserved(ledger, feed(number))
    assert len(ledger.snapshot(limit=0).reservations) == 1
    assert len(ledger.snapshot(limit=1_000_000).reservations) == 3
    assert MOST_PER_PAGE == 500


def test_slots_are_in_the_order_of_their_parts_not_of_a_language(world, ledger):
    """A collation that ignores dashes once skipped a slot between two pages."""
    periods = ["A", "Z", "a", "a-", "a-b", "a_b", "aB", "ab", "b", "0", "2026-W48", "2026W48"]
    for period in periods:
        reserved(ledger, type(feed())("acme-1", period, "feed"))
        reserved(ledger, type(feed())("acme_1", period, "feed"))
    slots = [each.slot for page in all_pages(ledger, limit=1) for each in page.reservations]
    assert slots == sorted(slots)
    assert len(slots) == 2 * len(periods)


def test_the_token_changes_iff_something_did(world, ledger):
    seen = [ledger.snapshot().revision]

    def changed() -> bool:
        seen.append(world.open().snapshot().revision)
        return seen[-1] != seen[-2]

    held = reserved(ledger)
    assert changed()
    reserved(ledger)
    assert code(ledger.reserve(feed(), OTHER_PINS, key="run-1"))
    ledger.get(held.reservation_id)
    ledger.verify()
    ledger.health()
    assert not changed()
    grant = ledger.grant(held.reservation_id, holder="run-1")
    assert isinstance(grant, Grant)
    assert changed()
    assert code(ledger.grant(held.reservation_id, holder="run-1"))
    assert not changed()
    told(ledger.settle(grant, unknown(Reason.NO_ANSWER)))
    assert changed()
    told(ledger.settle(grant, unknown(Reason.NO_ANSWER)))
    assert not changed()
    assert code(ledger.settle(type(grant)(grant.slot, grant.reservation_id, 1, 9, "run-9"), unknown(Reason.NO_ANSWER)))
    assert changed(), "late evidence is a row"
    told(ledger.reconcile(held.reservation_id, receipt=RECEIPT))
    assert changed()
    assert code(ledger.replace(feed(), approval=LEE, key="run-2"))
    assert not changed()
    assert len(set(seen)) == 6


def test_looking_changes_nothing_and_a_fresh_handle_sees_the_same(world, ledger):
    grant = granted(ledger)
    before = world.content()
    other = world.open()
    looks = [
        [
            handle.get(grant.reservation_id),
            handle.of(feed()),
            handle.history("partner-1"),
            handle.snapshot(),
            handle.head(),
            dict(handle.counts()),
            handle.health(),
            handle.verify(),
            list(handle.rows()),
            handle.extends(handle.head()),
        ]
        for handle in (ledger, other)
    ]
    assert looks[0] == looks[1]
    assert world.content() == before


def test_pages_taken_while_others_write_are_each_whole(world, ledger):
    """Every page shows each slot in one state, never half of a step, and never a slot twice."""
    numbers = 60
    writer = world.open()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(numbers):
                grant = granted(writer, feed(f"{number:03}"))
                told(writer.settle(grant, unknown(Reason.NO_ANSWER)))
                told(writer.reconcile(grant.reservation_id, receipt=RECEIPT))
        except BaseException as error:
            failed.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    revisions: list[str] = []
    while writing.is_alive():
        page = ledger.snapshot()
        slots = [each.slot for each in page.reservations]
        assert slots == sorted(set(slots)) == [feed(f"{number:03}") for number in range(len(slots))]
        assert all(each.state.is_proven_sent for each in page.reservations[:-1])
        rows = list(ledger.rows())
        assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
        if not revisions or revisions[-1] != page.revision:
            revisions.append(page.revision)
    writing.join()
    assert failed == []
    assert len(set(revisions)) == len(revisions), "a token came back"
    assert ledger.snapshot().following is None
    assert ledger.verify().faults == ()

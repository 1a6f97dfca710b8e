"""Export and import: the same rows are the same ledger, whichever store they are in."""

import contextlib
import dataclasses
from datetime import timedelta

from guards.delivery.outcome import Reason, delivered, unknown
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.reservation import ReservationState as S
from resources.ledger.interface import StoredRow, Verification
from resources.ledger.memory import MemoryLedger
from resources.ledger.transfer import export_to, import_from
from tests.ledgers.builders import (
    KIM,
    LEE,
    OTHER_PINS,
    OWED,
    PINS,
    RECEIPT,
    brought_to,
    code,
    feed,
    granted,
    reserved,
    told,
    weekly,
)


def filled(ledger):
    """Every state, a second attempt, late evidence, an authority, and text that only just fits JSON."""
    for number, state in enumerate(S):
        brought_to(ledger, state, feed(number))
    told(ledger.replace(feed(list(S).index(S.KNOWN_FAILURE)), approval=LEE, key="run-2", pins=OTHER_PINS))
    grant = granted(ledger, weekly(), OWED)
    told(ledger.settle(grant, unknown(Reason.NO_ANSWER, "a\0\udc80\u2028가")))
    assert code(ledger.settle(grant, delivered(RECEIPT))) is C.STALE_GRANT
    told(ledger.reserve(feed("approved"), PINS, key="k", approval=KIM))
    return ledger


def attempts(ledger):
    """All that is answered, but for leases, which do not travel."""
    return [
        dataclasses.replace(each, is_live=False, lease_expires_at=None)
        for page in [ledger.snapshot()]
        for latest in page.reservations
        for each in ledger.of(latest.slot)
    ]


def test_the_same_rows_in_any_two_stores_give_the_same_head_and_the_same_answers(world, other_world):
    source, target = filled(world.open()), other_world.open()
    rows = list(source.rows())
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    found = target.adopt(iter(rows))
    assert isinstance(found, Verification), found
    assert (found.head, found.rows, found.faults, dict(found.counts)) == (source.head(), len(rows), (), dict(source.counts()))
    looking = other_world.open()
    assert looking.head() == source.head()
    assert list(looking.rows()) == rows
    assert attempts(looking) == attempts(source)
    assert looking.verify().faults == ()
    assert [each.reservation_id for each in looking.history("partner-1")] == [
        each.reservation_id for each in source.history("partner-1")
    ]


def test_the_ledger_that_was_taken_over_goes_on(world, ledger):
    source = filled(MemoryLedger())
    assert isinstance(ledger.adopt(source.rows()), Verification)
    sending = feed(list(S).index(S.SENDING))
    assert code(ledger.grant(sending.reservation_id(1), holder="run-2")) is C.BUSY
    assert told(ledger.expire(sending.reservation_id(1))).state is S.UNKNOWN, "a lease does not travel"
    assert told(world.open().reserve(feed("new"), PINS, key="run-2")).state is S.PREPARED
    assert ledger.extends(source.head())
    assert not source.extends(ledger.head())
    assert ledger.verify().faults == ()


def test_what_was_due_before_a_copy_was_accepted_stays_in_doubt_where_its_ledger_is_moved_to(world, other_world, tmp_path):
    """The acceptance is in no row: the store that took the rows over opened as unsent what the newer copy had sent."""
    brought_to(world.open(), S.DELIVERED, weekly("sent"))
    with world.open() as source:
        due = source.now()
        brought_to(source, S.KNOWN_FAILURE, feed("failed"))
        source.repair(accept_copy=True)
        brought_to(source, S.DELIVERED, weekly("later"))
        export_to(source, tmp_path / "ledger.jsonl", retired=True)
    with other_world.open() as target:
        assert isinstance(import_from(tmp_path / "ledger.jsonl", target), Verification)
    moved = other_world.open()
    held = told(moved.reserve(weekly("due"), PINS, key="run-2", not_before=due))
    again = told(moved.replace(feed("failed"), approval=LEE, key="run-2"))
    assert [(each.state, each.reason) for each in (held, again)] == [(S.UNKNOWN, Reason.MIGRATED)] * 2
    assert told(moved.reserve(weekly("new"), PINS, key="run-2", not_before=moved.now())).state is S.PREPARED
    assert moved.verify().faults == ()


def test_of_a_copy_that_is_taken_over_nobody_is_granted_anything_before_it_is_accepted(world, other_world, tmp_path, monkeypatch):
    """It was taken over first and accepted then: who was killed in between, or another process there, sent what its store had sent."""
    with world.open() as source:
        held = reserved(source)
        export_to(source, tmp_path / "ledger.jsonl")
    target, other = other_world.open(), other_world.open()

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(type(target), "repair", killed)
        import_from(tmp_path / "ledger.jsonl", target, accept_copy=True)
    assert code(other.grant(held.reservation_id, holder="run-2")) in (C.ILLEGAL_EDGE, C.RECOVERY_REQUIRED)
    other.repair(accept_copy=True)
    assert [each.state for each in other.of(held.slot)] == [S.UNKNOWN]
    again = told(other.reserve(weekly("due"), PINS, key="run-2", not_before=other.now() - timedelta(hours=1)))
    assert again.state is S.UNKNOWN
    assert other.verify().faults == ()


def test_the_same_rows_again_are_fine_and_others_are_refused(world, other_world):
    source, target = filled(world.open()), other_world.open()
    rows = list(source.rows())
    assert isinstance(target.adopt(rows), Verification)
    before = other_world.content()
    again = target.adopt(rows)
    assert isinstance(again, Verification)
    assert again.faults == ()
    assert code(target.adopt(rows[:-1])) is C.INVALID, "an older copy"
    assert code(target.adopt([])) is C.INVALID
    assert other_world.content() == before
    reserved(target, feed("mine"))
    before = other_world.content()
    assert code(target.adopt(rows)) is C.INVALID, "it holds more by now"
    assert other_world.content() == before


def test_rows_with_a_fault_are_taken_over_by_no_store(world, ledger):
    rows = list(filled(MemoryLedger()).rows())
    middle = len(rows) // 2
    row = rows[middle]
    faulty = {
        "a missing row": [*rows[:middle], *rows[middle + 1 :]],
        "the first rows missing": rows[3:],
        "two rows swapped": [*rows[:middle], rows[middle + 1], row, *rows[middle + 2 :]],
        "a row twice": [*rows[: middle + 1], *rows[middle:]],
        "a changed byte": [*rows[:middle], row._replace(row=row.row.replace(b"run-1", b"run-9")), *rows[middle + 1 :]],
        "a changed digest": [*rows[:middle], row._replace(digest="f" * 64), *rows[middle + 1 :]],
        "another number": [*rows[:middle], row._replace(sequence=row.sequence + 1), *rows[middle + 1 :]],
        "not a row": [*rows[:-1], rows[-1]._replace(row=b"{}")],
        "not text": [*rows[:-1], rows[-1]._replace(row=b"\xff\0")],
        "an uncanonical row": [*rows[:-1], rows[-1]._replace(row=rows[-1].row.replace(b":", b": ", 1))],
        "an uncanonical digest": [*rows[:-1], rows[-1]._replace(digest=rows[-1].digest.upper())],
    }
    before = world.content()
    for what, taken in faulty.items():
        answer = ledger.adopt([StoredRow(*each) for each in taken])
        assert code(answer) is C.INVALID, what
        assert world.content() == before, what
    assert ledger.verify().faults == ()
    assert told(ledger.reserve(feed(), PINS, key="k")).state is S.PREPARED


def test_what_fails_half_way_leaves_nothing(world, ledger):
    """The file that the rows came from could not be read to its end."""
    rows = list(filled(MemoryLedger()).rows())
    before = world.content()

    def cut():
        yield from rows[:5]
        raise OSError("cut")

    with contextlib.suppress(OSError):
        ledger.adopt(cut())
    assert world.content() == before
    assert isinstance(ledger.adopt(rows), Verification)


def test_nothing_from_nothing_is_an_empty_ledger(world, ledger):
    before = world.content()
    found = ledger.adopt([])
    assert isinstance(found, Verification)
    assert (found.rows, found.faults) == (0, ())
    assert world.content() == before

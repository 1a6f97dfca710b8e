"""What a person allows in advance, until when, and who ended it: recorded once, by the database clock."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

import psycopg
import pytest

from guards.delivery.row import Head
from guards.delivery.slot import Slot
from guards.delivery.standing import StandingApproval, covers
from guards.refusal import RefusalCode, Refused
from resources.errors import ConfigurationError
from tests.contract.state.worlds import by_hand
from tests.patience import until

DAILY = Slot("acme-1", "2026-11-30", "daily")


def allowed(
    store, *, watch="customers", customers=("acme-1",), kinds=("daily",), by="Kim", comment="", days=7
) -> StandingApproval:
    return store.standing.allow(
        watch, customers=customers, kinds=kinds, by=by, comment=comment, until=store.now() + timedelta(days=days)
    )


def test_what_is_allowed_is_live_until_it_is_revoked(state_store):
    first = allowed(state_store, customers=("beta-2", "acme-1", "acme-1"), comment="agreed\0\udc80")
    second = allowed(state_store, by="Lee")
    assert (first.customers, first.kinds, first.comment) == (("acme-1", "beta-2"), ("daily",), "agreed\0\udc80")
    assert state_store.standing.live("customers") == (first, second)
    assert covers(state_store.standing.live("customers"), [DAILY], watch="customers", now=state_store.now())
    ended = state_store.standing.revoke(first.id, by="Ada", comment="left")
    assert (ended.revoked_by, ended.revoked_at is not None) == ("Ada", True)
    assert state_store.standing.live("customers") == (second,)
    assert state_store.standing.all() == (ended, second)
    assert state_store.standing.live("others") == ()


def test_who_revoked_first_stays(state_store):
    made = allowed(state_store)
    first = state_store.standing.revoke(made.id, by="Ada")
    assert state_store.standing.revoke(made.id, by="Bob") == first


def test_what_was_never_allowed_cannot_be_revoked(state_store):
    refused = state_store.standing.revoke(99, by="Ada")
    assert isinstance(refused, Refused)
    assert refused.code is RefusalCode.NOT_APPROVED


def test_it_ends_by_itself(state_store, database_url):
    allowed(state_store)
    by_hand(
        database_url,
        "UPDATE opsguard.standing_approvals SET recorded_at = now() - interval '2 days', until = now() - interval '1 s'",
    )
    assert state_store.standing.live("customers") == ()
    assert len(state_store.standing.all()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"watch": ""},
        {"customers": ()},
        {"customers": ("Acme",)},
        {"customers": ("*",)},
        {"customers": tuple(f"acme-{number}" for number in range(1001))},
        {"kinds": ()},
        {"kinds": ("letter",)},
        {"by": ""},
        {"by": " "},
        {"by": "K\n"},
        {"comment": "c" * 2001},
        {"days": 0},
        {"days": 367},
    ],
    ids=str,
)
def test_bad_words_record_nothing(state_store, changes):
    with pytest.raises(ConfigurationError, match="nothing was recorded"):
        allowed(state_store, **changes)
    assert state_store.standing.all() == ()


def test_a_time_without_a_zone_is_refused(state_store):
    with pytest.raises(ConfigurationError):
        state_store.standing.allow(
            "customers",
            customers=("acme-1",),
            kinds=("daily",),
            by="Kim",
            until=datetime(2099, 1, 1),  # noqa: DTZ001
        )


def test_the_last_published_head_of_each_ledger_is_remembered_once(state_store, database_url):
    one, two = Head(3, "a" * 64), Head(7, "b" * 64)
    assert state_store.published.last("file 1") is None
    for head in (one, one, two, two):
        state_store.published.publish("file 1", head, run_id="run-1")
    state_store.published.publish("file 2", one, run_id="run-2\udc80")
    assert state_store.published.last("file 1") == two
    assert state_store.published.last("file 2") == one
    state_store.published.publish("file 1", one, run_id="run-3")
    assert state_store.published.last("file 1") == one, "a ledger that was cut back is published as it is"
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM opsguard.published_heads").fetchone() == (4,)


def test_an_older_head_that_is_published_while_a_newer_one_is_being_is_not_taken_for_the_newest(state_store, database_url):
    """A ledger that was cut back to between the two was then taken for the one that is known."""
    older, newer = Head(3, "a" * 64), Head(7, "b" * 64)
    publish = partial(state_store.published.publish, "file 1", older, run_id="run-1", watch="acme")
    with psycopg.connect(database_url) as first, ThreadPoolExecutor(max_workers=1) as second:
        first.execute(
            "INSERT INTO opsguard.published_heads (watch, store, sequence, digest, slot_identity, run_id, accepted_by, comment, recorded_at)"
            " VALUES ('acme', 'file 1', %s, %s, '', 'run-2', '', '', clock_timestamp())",
            (newer.sequence, newer.digest),
        )
        late = second.submit(publish)
        until(lambda: late.done() or _waits(database_url), "the older head, published or waiting")
        first.commit()
        late.result()
    known = state_store.published.of_watch("acme")
    assert known is not None
    assert known.head == newer


def _waits(database_url):
    with psycopg.connect(database_url) as looking:
        (waiting,) = looking.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return waiting > 0


def test_a_watch_remembers_its_ledger_how_far_it_got_and_what_it_counts_as_one_message(state_store):
    """Another store in the old one's place looked like a ledger in which nothing had been sent."""
    one, two, other = Head(3, "a" * 64), Head(7, "b" * 64), Head(0, "0" * 64)
    published = state_store.published
    assert published.of_watch("acme") is None
    published.publish("file 1", two, run_id="run-1", watch="acme", slot_identity="period")
    published.publish("file 1", one, run_id="run-0", watch="acme")
    published.publish("file 9", one, run_id="run-2", watch="globex")

    known = published.of_watch("acme")
    assert known is not None
    assert (known.store, known.head, known.slot_identity, known.accepted_by) == ("file 1", two, "period", "")
    assert published.last("file 1") == two, "what a slower run had seen before came later"

    published.accept("acme", "file 2", other, slot_identity="day", by="Ada", comment="the disk of file 1 is gone")
    known = published.of_watch("acme")
    assert known is not None
    assert (known.store, known.head, known.slot_identity, known.accepted_by) == ("file 2", other, "day", "Ada")
    published.publish("file 2", one, run_id="run-4", watch="acme")
    assert published.of_watch("acme").slot_identity == "day"


def test_what_a_run_had_seen_before_a_person_accepted_another_ledger_takes_nothing_back(state_store):
    """Published a moment later, it made the store that was given up the watch's own again, without a person."""
    seen, other = Head(7, "b" * 64), Head(9, "c" * 64)
    published = state_store.published
    published.publish("file 1", seen, run_id="run-1", watch="acme", slot_identity="period")
    published.accept("acme", "file 2", other, slot_identity="day", by="Ada", comment="the disk of file 1 is gone")
    accepted = published.of_watch("acme")

    published.publish("file 1", Head(8, "d" * 64), run_id="run-2", watch="acme", slot_identity="period")
    assert published.of_watch("acme") == accepted
    published.publish("file 2", Head(10, "d" * 64), run_id="run-3", watch="acme", slot_identity="period")
    assert published.of_watch("acme") == accepted
    published.publish("file 2", Head(10, "d" * 64), run_id="run-4", watch="acme", slot_identity="day")
    assert published.of_watch("acme").head == Head(10, "d" * 64)

"""Every verdict, from what real servers hold: nothing is built by hand but files on their disks."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from assets.spool_report import make_report
from guards.delivery.outcome import Approval, Reason, delivered, unknown
from guards.delivery.pins import Pins
from guards.delivery.slot import Grant
from guards.spool.policy import SpoolPolicy
from guards.spool.verdict import SpoolVerdict
from resources.errors import Unreachable
from resources.spool.memory import feed_slot
from tests.integration.spool.world import Place, at_partner, sha256
from tests.servers.ftp_faults import Faults, faulty_ftp
from tests.servers.peer import Peer
from tests.servers.timeless import timeless_peer

On = Callable[..., Place]
HALF = b"one,two\n"
WHOLE = HALF * 16


def test_one_night_with_every_verdict_that_a_spool_alone_can_cause(on: On, peer: Peer) -> None:
    """All of them in one spool: none may change what is said of another."""
    world = on(peer)
    expected = {}

    def entry(name: str, verdict: SpoolVerdict, content: bytes = WHOLE, *, minutes_old: float = 180) -> None:
        world.feed(name, content, minutes_old=minutes_old)
        expected[name] = verdict

    entry("busy.csv.part", SpoolVerdict.WRITER_MARKER, minutes_old=5)
    entry("busy.csv", SpoolVerdict.WRITER_ACTIVE)
    entry("stuck.csv.lock", SpoolVerdict.WRITER_MARKER, minutes_old=3000)
    entry("stuck.csv", SpoolVerdict.WRITER_STUCK)
    entry("line\x07bell.csv", SpoolVerdict.NAME_UNSAFE)
    entry("README", SpoolVerdict.NOT_DELIVERABLE)
    entry("-rf.csv", SpoolVerdict.NOT_DELIVERABLE)
    world.spool.on_disk("folder.csv").mkdir()
    expected["folder.csv"] = SpoolVerdict.TYPE_UNEXPECTED
    entry("empty.csv", SpoolVerdict.EMPTY_SOURCE, b"")
    large = world.spool.on_disk("large.csv")
    with large.open("wb") as file:
        file.truncate(2 * 1024 * 1024)
    os.utime(large, (1_767_323_045, 1_767_323_045))
    expected["large.csv"] = SpoolVerdict.TOO_LARGE
    entry("tomorrow.csv", SpoolVerdict.CLOCK_SKEW, minutes_old=-600)
    entry("young.csv", SpoolVerdict.WITHIN_SLA, minutes_old=1)
    entry("again.csv", SpoolVerdict.ALREADY_ARCHIVED)
    world.archive_has("again.csv", WHOLE)
    entry("missing.csv", SpoolVerdict.MISSING, minutes_old=900)
    entry("short.csv", SpoolVerdict.SHORT_DELIVERY, minutes_old=800)
    world.partner_has("short.csv", HALF)
    entry("longer.csv", SpoolVerdict.DIVERGED)
    world.partner_has("longer.csv", WHOLE + HALF)
    entry("same.csv", SpoolVerdict.DELIVERED_SIZE_ONLY)
    world.partner_has("same.csv", WHOLE)
    entry("Case.csv", SpoolVerdict.OVER_CEILING, minutes_old=200)
    found = world.verdicts(max_file_megabytes=1, max_files_per_run=2)
    assert found == {name: verdict.value for name, verdict in expected.items()}
    assert [target.subject for target in world.report(max_file_megabytes=1, max_files_per_run=2).plan.targets] == [
        "missing.csv",
        "short.csv",
    ]


def test_other_bytes_of_the_same_size_are_only_seen_by_their_checksum(on: On, peer: Peer) -> None:
    world = on(peer)
    for name, theirs in (("equal.csv", WHOLE), ("other.csv", WHOLE.replace(b"one", b"two"))):
        world.feed(name, WHOLE)
        world.partner_has(name, theirs)
    assert set(world.verdicts().values()) == {"delivered_size_only"}
    assert world.verdicts(verify_delivered="checksum") == {"equal.csv": "delivered_verified", "other.csv": "content_mismatch"}


def test_a_partner_that_folds_case_may_hold_the_feed_under_another_name(on: On, peer: Peer) -> None:
    folding, exact = on(peer, case_sensitive=False), on(peer)
    for world in (folding, exact):
        world.feed("Feed.csv", WHOLE)
        world.partner_has("feed.CSV", WHOLE)
    assert folding.verdicts() == {"Feed.csv": "possible_alias"}
    assert exact.verdicts() == {"Feed.csv": "missing"}


def test_a_copy_that_grows_between_two_looks_is_still_arriving(on: On, sftp: Peer) -> None:
    """The partner's own job was writing slowly; a second upload beside it would have destroyed it."""
    world = on(sftp)
    world.feed("slow.csv", WHOLE)
    world.feed("cut.csv", WHOLE)
    world.partner_has("slow.csv", HALF)
    world.partner_has("cut.csv", HALF)
    looks = []

    def partner_writes(what: str, done: int, of: int) -> None:
        if what == "confirming by name" and done == of:
            looks.append(of)
            if len(looks) == 2:  # the spool was asked, then the partner; the second look is still to come
                with world.inbox.on_disk("slow.csv").open("ab") as file:
                    file.write(HALF)

    policy = world.route.policy.model_copy(update={"stable_seconds": 1})
    report = make_report(world.route, world.store, policy=policy, run_id="r", progress=partner_writes)
    assert {one.subject: str(one.verdict) for one in report.plan.findings} == {
        "slow.csv": "short_growing",
        "cut.csv": "short_delivery",
    }


def test_what_the_ledger_knows_is_asked_before_anything_is_sent(on: On, peer: Peer) -> None:
    """Sent by us and gone: at a partner that takes files away that is the end of it, at any other somebody has to ask."""
    consuming, keeping, doubtful = on(peer, consumes_on_arrival=True), on(peer, name="keeping"), on(peer, name="doubtful")
    for world, outcome in (
        (consuming, delivered({"why": "a test"})),
        (keeping, delivered({"why": "a test"})),
        (doubtful, unknown(Reason.NO_ANSWER, "a test")),
    ):
        world.feed("feed.csv", WHOLE)
        _settled(world, "feed.csv", WHOLE, outcome)
    assert consuming.verdicts() == {"feed.csv": "delivered_consumed"}
    assert keeping.verdicts() == {"feed.csv": "lost_after_delivery"}
    assert keeping.report().plan.targets == ()
    assert doubtful.verdicts() == {"feed.csv": "delivery_unknown"}
    keeping.partner_has("feed.csv", WHOLE)
    assert keeping.verdicts() == {"feed.csv": "delivered_verified"}
    keeping.feed("feed.csv", WHOLE + HALF)
    assert keeping.verdicts() == {"feed.csv": "short_delivery"}, "other bytes are another feed"


def _settled(world: Place, name: str, content: bytes, outcome: object) -> None:
    ledger = world.store.ledger
    pins = Pins(facts={"name": name})
    held = ledger.reserve(feed_slot(world.route, name, sha256(content)), pins, key="earlier-run")
    grant = ledger.grant(held.reservation_id, holder="earlier-run")  # type: ignore[union-attr]
    assert isinstance(grant, Grant), grant
    ledger.settle(grant, outcome)  # type: ignore[arg-type]


def test_a_spool_that_gives_no_times_is_believed_once_an_earlier_report_saw_the_feed(on: On, sftp: Peer, tmp_path: Path) -> None:
    with timeless_peer(tmp_path) as source:
        world = on(source, sftp, policy=SpoolPolicy(sla_minutes=0))
        world.feed("feed.csv", WHOLE)
        assert world.verdicts() == {"feed.csv": "date_unknown"}
        assert world.verdicts() == {"feed.csv": "missing"}
        assert world.verdicts(sla_minutes=60) == {"feed.csv": "within_sla"}


@pytest.mark.parametrize("rows", [999, 1000])
def test_an_inbox_that_ends_at_a_round_number_may_be_cut(on: On, ftp: Peer, sftp: Peer, rows: int) -> None:
    """A server's limit of 1,000 rows made delivered feeds look missing, and they were all sent again."""
    world = on(sftp, ftp)
    world.feed("feed.csv", WHOLE)
    for number in range(rows):
        world.partner_has(f"old-{number:04}.csv", b"x")
    assert world.verdicts() == {"feed.csv": "listing_incomplete" if rows == 1000 else "missing"}


def test_a_listing_that_reaches_the_limit_is_never_cut(on: On, peer: Peer) -> None:
    world = on(peer)
    world.feed("feed.csv", WHOLE)
    for number in range(3):
        world.partner_has(f"old-{number}.csv", b"x")
    assert world.verdicts(listing_limit=3) == {"feed.csv": "listing_incomplete"}
    assert world.report(listing_limit=3).plan.targets == ()
    assert world.verdicts(listing_limit=4) == {"feed.csv": "missing"}


def test_an_unreadable_row_in_the_inbox_makes_nothing_missing(on: On, sftp: Peer) -> None:
    with faulty_ftp(Faults(list_raw=b"no row of any kind\r\n")) as server:
        world = at_partner(on(sftp), server.endpoint())
        world.feed("feed.csv", WHOLE)
        report = world.report()
        assert [str(one.verdict) for one in report.plan.findings] == ["listing_incomplete"]
        assert (report.plan.targets, report.stored.state.value) == ((), "incomplete")


def test_an_inbox_that_cannot_be_listed_gives_no_report_at_all(on: On, sftp: Peer) -> None:
    """Tried again by the session, three times and not nine: a listing that hangs would hold the run for minutes."""
    with faulty_ftp(Faults(list_rows_cut=1, list_end="426 Cut"), {b"a.csv": WHOLE}) as server:
        world = at_partner(on(sftp), server.endpoint())
        world.feed("feed.csv", WHOLE)
        with pytest.raises(Unreachable, match=r"partner: list /inbox: .*Cut.*tried 3 times"):
            world.report()
        assert server.said("LIST") == 3
        assert world.store.plans() == []


def test_every_verdict_has_a_test_here() -> None:
    text = Path(__file__).read_text()
    assert [
        verdict for verdict in SpoolVerdict if f'"{verdict.value}"' not in text and f"SpoolVerdict.{verdict.name}" not in text
    ] == []


def test_a_resolved_attempt_is_a_feed_again(on: On, ftp: Peer) -> None:
    world = on(ftp)
    world.feed("feed.csv", WHOLE)
    _settled(world, "feed.csv", WHOLE, unknown(Reason.NO_ANSWER, "a test"))
    (held,) = world.store.ledger.of(feed_slot(world.route, "feed.csv", sha256(WHOLE)))
    world.store.ledger.resolve(
        held.reservation_id, was_sent=False, evidence={"asked": "the partner"}, approval=Approval(0, "Kim")
    )
    assert world.verdicts() == {"feed.csv": "missing"}

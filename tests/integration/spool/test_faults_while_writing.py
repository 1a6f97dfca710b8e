"""Servers that misbehave while a feed is written: what is said of it is what the partner really holds, and the final name is untouched
by everything that is called failed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from guards.decision import DecisionKind
from resources.file_servers.connect import Patience
from resources.spool.sent import Outcome
from tests.integration.spool.world import BRISK, IMPATIENT, Applied, Place, at_partner
from tests.servers.ftp_faults import Faults, FaultyFtp, faulty_ftp
from tests.servers.peer import Peer
from tests.servers.sftp import asyncssh_peer

On = Callable[..., Place]
WHOLE = b"0123456789abcdef" * 2048
SHORT = WHOLE[:100]


def applied_with(world: Place, server: FaultyFtp, **faults: object) -> Applied:
    """The report sees an honest server; the faults begin with the apply run."""
    report = world.report()
    world.approve(report)
    for name, value in faults.items():
        setattr(server.faults, name, value)
    return world.apply(report)


def honest_again(server: FaultyFtp) -> None:
    for name, value in vars(Faults(machine=True)).items():
        setattr(server.faults, name, value)


@contextmanager
def faulty(
    on: On, sftp: Peer, *, holds: bytes | None = None, patience: Patience = BRISK, **profile: object
) -> Iterator[tuple[Place, FaultyFtp]]:
    files = {} if holds is None else {b"feed.csv": holds}
    with faulty_ftp(Faults(machine=True), files) as server:
        world = at_partner(on(sftp), server.endpoint(**profile), patience=patience)
        world.feed("feed.csv", WHOLE)
        yield world, server


FAILS_BEFORE_PLACING = {
    "a 226 that lies": {"stor_keeps": 1000},
    "cut in the middle": {"stor_cut_at": 5000},
    "disk full": {"stor_full_at": 5000},
    "an error that only the close shows": {"stor_end": "552 Exceeded storage allocation"},
    "a storm of 4xx": {"storms": {"STOR": 1000}},
    "not allowed to write": {"stor_begin": "550 Permission denied"},
    "silence in the middle": {"stor_stalls_at": 5000},
    "the read back is cut": {"retr_cut_at": 5000},
    "the read back lies": {"retr_lies_after": 5000},
    "the rename is refused": {"rename_refused": "553 Not allowed"},
    "the rename is not understood": {"rename_refused": "502 Not implemented"},
}


@pytest.mark.parametrize(
    ("holds", "faults"),
    [
        pytest.param(holds, faults, id=f"{'missing' if holds is None else 'short'}, {what}")
        for holds in (None, SHORT)
        for what, faults in FAILS_BEFORE_PLACING.items()
        if holds is None or "rename" in what
    ],
)
def test_what_failed_left_the_final_name_as_it_was_and_is_sent_later(
    on: On, sftp: Peer, faults: dict[str, object], holds: bytes | None
) -> None:
    patience = IMPATIENT if "stor_stalls_at" in faults else BRISK
    with faulty(on, sftp, holds=holds, patience=patience) as (world, server):
        applied = applied_with(world, server, **faults)
        assert applied.outcomes == {"feed.csv": Outcome.FAILED}, applied.sent["feed.csv"].message
        assert server.files.get(b"feed.csv") == holds
        assert world.held()[:2] == ({"feed.csv": WHOLE}, {})
        honest_again(server)
        at_partner(world, world.route.partner).repair_until_done()
        assert server.files == {b"feed.csv": WHOLE}
        assert world.held()[:2] == ({}, {"feed.csv": WHOLE})


def test_a_storm_of_4xx_that_passes_is_weathered(on: On, sftp: Peer) -> None:
    with faulty(on, sftp) as (world, server):
        applied = applied_with(world, server, storms={"STOR": 1, "USER": 1, "RNFR": 1, "EPSV": 1, "RETR": 1})
        assert applied.outcomes == {"feed.csv": Outcome.DELIVERED}
        assert server.files == {b"feed.csv": WHOLE}


def test_the_reply_after_the_last_byte_is_lost_and_the_copy_is_made_anew_under_its_temporary_name(on: On, sftp: Peer) -> None:
    """The bytes are there, but who can tell: under a temporary name doing it again harms nobody. Here the answer never comes."""
    with faulty(on, sftp) as (world, server):
        applied = applied_with(world, server, after_reply_lost="STOR")
        assert applied.outcomes == {"feed.csv": Outcome.FAILED}
        assert b"feed.csv" not in server.files
        assert server.said("RNTO") == 0


@pytest.mark.parametrize("holds", [None, SHORT], ids=["missing", "short"])
def test_the_reply_to_the_rename_is_lost_and_the_bytes_are_found_where_they_belong(
    on: On, sftp: Peer, holds: bytes | None
) -> None:
    """A job that took the lost answer for a failure sent the feed a second time, and the partner booked it twice."""
    with faulty(on, sftp, holds=holds) as (world, server):
        applied = applied_with(world, server, after_reply_lost="RNTO")
        assert applied.outcomes == {"feed.csv": Outcome.DELIVERED}
        assert server.files == {b"feed.csv": WHOLE}
        assert server.said("RNTO") == 1
        assert world.held()[:2] == ({}, {"feed.csv": WHOLE})


@pytest.mark.parametrize("lost", ["", "DELE", "RNTO"], ids=["answers", "DELE lost", "RNTO lost"])
def test_a_server_that_never_replaces_gets_the_short_copy_moved_aside(on: On, sftp: Peer, lost: str) -> None:
    with faulty(on, sftp, holds=SHORT) as (world, server):
        applied = applied_with(world, server, rename_never_replaces=True, after_reply_lost=lost)
        if lost == "RNTO":  # the answer to moving aside is lost: nothing was placed, the short copy gets its name back
            assert applied.outcomes == {"feed.csv": Outcome.FAILED}
            honest_again(server)
            world.repair_until_done()
        else:
            assert applied.outcomes == {"feed.csv": Outcome.DELIVERED}
        assert server.files == {b"feed.csv": WHOLE}


def test_a_partner_that_cannot_be_seen_after_the_rename_leaves_the_delivery_unknown_and_the_rest_unsent(
    on: On, sftp: Peer
) -> None:
    with faulty(on, sftp) as (world, server):
        world.feed("younger.csv", WHOLE, minutes_old=100)
        report = world.report()
        world.approve(report)

        def blinded(step: object, moment: object, _name: str) -> None:
            if (step, moment) == ("place", "after"):
                server.faults.login = "530 Maintenance"
                server.faults.closes = frozenset({"MLST", "SIZE", "STAT"})

        applied = world.apply(report, watcher=blinded)
        assert applied.outcomes == {"feed.csv": Outcome.UNKNOWN, "younger.csv": Outcome.FAILED}
        assert "'feed.csv' is in doubt" in applied.sent["younger.csv"].message
        assert world.held()[1] == {}
        honest_again(server)
        world.repair_until_done()
        assert server.files == {b"feed.csv": WHOLE, b"younger.csv": WHOLE}
        renames = [line for line in server.record if line == "RNTO /inbox/feed.csv"]
        assert len(renames) == 1


def test_a_partner_that_cannot_rename_is_written_in_place_only_when_that_was_accepted(on: On, sftp: Peer) -> None:
    with faulty(on, sftp, holds=SHORT, rename_supported="no", allow_inplace=True) as (world, server):
        applied = applied_with(world, server, rename_refused="502 Not implemented")
        assert applied.outcomes == {"feed.csv": Outcome.DELIVERED}
        assert server.files == {b"feed.csv": WHOLE}


def test_an_upload_in_place_that_was_cut_is_seen_for_what_it_is(on: On, sftp: Peer) -> None:
    with faulty(on, sftp, rename_supported="no", allow_inplace=True) as (world, server):
        applied = applied_with(world, server, stor_cut_at=5000)
        assert applied.outcomes == {"feed.csv": Outcome.FAILED}
        honest_again(server)
        assert world.verdicts() == {"feed.csv": "short_delivery"}
        world.repair_until_done()
        assert server.files == {b"feed.csv": WHOLE}


SFTP_FAULTS = {
    "error_on_close": Outcome.FAILED,
    "full_after:5000": Outcome.FAILED,
    "cut_upload:5000": Outcome.FAILED,
    "cut_close": Outcome.FAILED,
    "cut_open": Outcome.FAILED,
    "rename_refused": Outcome.FAILED,
    "rename_reply_lost": Outcome.DELIVERED,
    "rename_overwrites": Outcome.DELIVERED,
    "no_posix_rename": Outcome.DELIVERED,
    "remove_reply_lost": Outcome.DELIVERED,
    "short_reads": Outcome.DELIVERED,
    "sha256": Outcome.DELIVERED,
    "sha256_wrong_length": Outcome.DELIVERED,
}


@pytest.mark.parametrize(("fault", "outcome"), SFTP_FAULTS.items(), ids=SFTP_FAULTS)
def test_an_sftp_partner_with_a_fault_ends_known(on: On, ftp: Peer, tmp_path: Path, fault: str, outcome: Outcome) -> None:
    """A missing and a short feed each; `inbox` is the partner's disk."""
    with asyncssh_peer(tmp_path, fault=fault) as partner:
        world = on(ftp, partner)
        world.feed("missing.csv", WHOLE)
        world.feed("short.csv", WHOLE, minutes_old=120)
        world.partner_has("short.csv", SHORT)
        applied = world.repair()
        assert applied.outcomes == dict.fromkeys(("missing.csv", "short.csv"), outcome), applied.sent
        inbox = world.held()[2]
        visible = {name: content for name, content in inbox.items() if not name.startswith(".")}
        if outcome is Outcome.DELIVERED:
            assert inbox == {"missing.csv": WHOLE, "short.csv": WHOLE}
            assert world.held()[:2] == ({}, {"missing.csv": WHOLE, "short.csv": WHOLE})
        else:
            assert visible == {"short.csv": SHORT}
            assert set(world.held()[0]) == {"missing.csv", "short.csv"}
    with asyncssh_peer_again(tmp_path, world) as healed:
        healed.repair_until_done()
        assert healed.held()[2] == {"missing.csv": WHOLE, "short.csv": WHOLE}


@contextmanager
def asyncssh_peer_again(base: Path, world: Place) -> Iterator[Place]:
    """The same server, repaired: same disk, same key, another port and so another partner to the ledger."""
    (base / "ready").unlink()
    with asyncssh_peer(base) as partner:
        yield at_partner(world, partner.at(directory=world.inbox.path))


def test_a_source_that_vanishes_while_it_is_sent_is_a_failure_of_that_feed_alone(on: On, ftp: Peer, sftp: Peer) -> None:
    world = on(sftp, ftp)
    world.feed("gone.csv", WHOLE)
    world.feed("next.csv", WHOLE, minutes_old=100)
    report = world.report()
    world.approve(report)

    def vanishes(step: object, moment: object, name: str) -> None:
        if (step, moment, name) == ("upload", "before", "gone.csv"):
            world.spool.on_disk("gone.csv").unlink()

    applied = world.apply(report, watcher=vanishes)
    assert applied.outcomes == {"gone.csv": Outcome.FAILED, "next.csv": Outcome.DELIVERED}
    assert world.held() == ({}, {"next.csv": WHOLE}, {"next.csv": WHOLE})


def test_a_person_who_declines_the_plan_that_is_being_carried_out_stops_the_rest(on: On, ftp: Peer, sftp: Peer) -> None:
    world = on(sftp, ftp)
    world.feed("first.csv", WHOLE)
    world.feed("next.csv", WHOLE, minutes_old=100)
    report = world.report()
    world.approve(report)

    def declined(step: object, moment: object, name: str) -> None:
        if (step, moment, name) == ("upload", "before", "first.csv"):
            world.store.decide(
                report.plan.digest, kind=DecisionKind.DECLINED, by="Lee", comment="", valid_for=timedelta(hours=1), channel="cli"
            )

    applied = world.apply(report, watcher=declined)
    assert applied.outcomes == {"first.csv": Outcome.DELIVERED, "next.csv": Outcome.FAILED}
    assert "Lee declined the plan" in applied.sent["next.csv"].message
    assert world.held()[2] == {"first.csv": WHOLE}
    assert world.verdicts()["next.csv"] == "missing"


def test_a_source_that_changes_while_it_is_sent_is_not_delivered(on: On, ftp: Peer, sftp: Peer) -> None:
    world = on(sftp, ftp)
    world.feed("feed.csv", WHOLE)
    report = world.report()
    world.approve(report)

    def rewritten(step: object, moment: object, name: str) -> None:
        if (step, moment) == ("upload", "before"):
            world.spool.put("feed.csv", WHOLE.replace(b"0", b"1"))

    applied = world.apply(report, watcher=rewritten)
    assert applied.outcomes == {"feed.csv": Outcome.FAILED}
    assert world.held()[2] == {}


def test_a_source_that_changes_after_it_was_sent_stays_in_the_spool_as_a_new_feed(on: On, ftp: Peer, sftp: Peer) -> None:
    world = on(sftp, ftp)
    world.feed("feed.csv", WHOLE)
    report = world.report()
    world.approve(report)
    newer = WHOLE + b"one more line"

    def rewritten(step: object, moment: object, name: str) -> None:
        if (step, moment) == ("archive", "before"):
            world.feed("feed.csv", newer)

    applied = world.apply(report, watcher=rewritten)
    assert applied.archive_outcomes == {"feed.csv": "source_changed_after_send"}
    assert world.held() == ({"feed.csv": newer}, {}, {"feed.csv": WHOLE})
    assert world.verdicts() == {"feed.csv": "short_delivery"}


def test_an_archive_name_that_was_taken_meanwhile_gets_time_and_content_behind_it(on: On, ftp: Peer) -> None:
    world = on(ftp)
    world.feed("feed.csv", WHOLE)
    report = world.report()
    world.approve(report)

    def taken(step: object, moment: object, name: str) -> None:
        if (step, moment) == ("archive", "before"):
            world.archive_has("feed.csv", b"somebody else's")

    world.apply(report, watcher=taken)
    spool, archive, _ = world.held()
    (ours,) = archive.keys() - {"feed.csv"}
    assert ours.startswith("feed.csv.2")
    assert (spool, archive["feed.csv"], archive[ours]) == ({}, b"somebody else's", WHOLE)


def test_an_upload_that_is_hidden_by_the_partner_is_swept_by_name_after_a_failure(on: On, sftp: Peer) -> None:
    """DELE is refused when the run fails, so its temporary copy stays; the next run that may remove it does."""
    with faulty(on, sftp) as (world, server):
        applied_with(world, server, stor_keeps=1000, closes=frozenset({"DELE"}))
        assert any(name.startswith(b".feed.csv.") for name in server.files)
        honest_again(server)
        world.repair_until_done()
        assert server.files == {b"feed.csv": WHOLE}

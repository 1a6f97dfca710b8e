"""The main job on real servers: a lost feed is found, sent once, proven, archived; and everything that must stop it does."""

from collections.abc import Callable

import pytest

from guards.delivery.pins import Pins
from guards.spool.policy import SpoolPolicy
from resources.spool.memory import attempts, feed_slot
from resources.spool.sent import ArchiveOutcome, Outcome
from tests.integration.spool.world import Place, sha256
from tests.servers.peer import Peer

On = Callable[..., Place]


@pytest.mark.parametrize(("source", "partner"), [("ftp", "ftp"), ("ftp", "sftp"), ("sftp", "ftp"), ("sftp", "sftp")])
def test_a_missing_and_a_short_feed_are_sent_proven_and_archived(
    on: On, request: pytest.FixtureRequest, source: str, partner: str
) -> None:
    world = on(request.getfixturevalue(source), request.getfixturevalue(partner))
    missing = world.feed("missing.csv", b"m" * 300_000)
    short = world.feed("short.csv", b"s" * 5000)
    world.partner_has("short.csv", b"s" * 100)
    neighbour = world.partner_has("theirs.csv", b"not ours")
    applied = world.repair()
    assert applied.outcomes == {"missing.csv": Outcome.DELIVERED, "short.csv": Outcome.DELIVERED}
    assert applied.archive_outcomes == dict.fromkeys(applied.sent, ArchiveOutcome.ARCHIVED)
    feeds = {"missing.csv": missing, "short.csv": short}
    assert world.held() == ({}, feeds, {**feeds, "theirs.csv": neighbour})
    assert [world.placed(name) for name in feeds] == [1, 1]
    again = world.report()
    assert (again.plan.targets, again.plan.gaps) == ((), ())


HOSTILE = ("<!channel> *bold*.csv", "$(touch x);.csv", "a b'c\"d.csv", "ünïcode.csv", "n" * 251 + ".csv", "100%s{name}.csv")
UNSAFE = ("\udcff\udcfe.csv", "evil\u202evsc.csv", "esc\x1b[31m.csv")


def test_hostile_names_are_delivered_as_they_are_or_not_at_all(on: On, peer: Peer) -> None:
    """Names that could act somewhere (a shell, a format string, Slack) are only bytes here; what cannot be shown safely is no target."""
    world = on(peer, policy=SpoolPolicy(deliverable_pattern=r"(?s).+\.csv", max_files_per_run=20))
    feeds = {name: world.feed(name, f"feed {number}".encode()) for number, name in enumerate(HOSTILE)}
    for name in UNSAFE:
        world.feed(name)
    report = world.report()
    assert {target.subject for target in report.plan.targets} == set(HOSTILE)
    unsafe = {one.subject for one in report.plan.findings if str(one.verdict) == "name_unsafe"}
    assert len(unsafe) == len(UNSAFE)
    world.approve(report)
    applied = world.apply(report)
    assert set(applied.outcomes.values()) == {Outcome.DELIVERED}, applied.sent
    spool, archive, inbox = world.held()
    assert (archive, inbox) == (feeds, feeds)
    assert set(spool) == set(UNSAFE)


def test_progress_tells_every_feed_and_its_bytes(on: On, sftp: Peer) -> None:
    world = on(sftp)
    world.feed("feed.csv", b"x" * 600_000)
    report = world.report()
    world.approve(report)
    told: list[tuple[str, int, int]] = []
    world.apply(report, progress=lambda what, done, of: told.append((what, done, of)))
    sending = [(done, of) for what, done, of in told if what == "sending feed.csv"]
    assert sending[-1] == (600_000, 600_000)
    assert [done for done, _ in sending] == sorted({done for done, _ in sending})
    assert [what for what, *_ in told[:4]] == [
        "listing the outbound spool",
        "listing the archive",
        "listing the partner's inbox",
        "listed",
    ]


def test_the_ledger_is_asked_for_the_names_at_hand_and_not_for_its_whole_history(on: On, sftp: Peer) -> None:
    """A partner of three years: 20,000 names in the spool were looked up by reading everything that was ever sent."""
    world = on(sftp)
    route, ledger = world.route, world.store.ledger
    for number in range(40):
        ledger.reserve(feed_slot(route, f"f{number}.csv", sha256(b"x")), Pins(facts={"n": number}), key="earlier")
    names = [f"f{number}.csv" for number in range(20, 20_020)]
    found = attempts(world.store, route, names)
    assert set(found) == {f"f{number}.csv" for number in range(20, 40)}
    assert {one.sha256 for held in found.values() for one in held} == {sha256(b"x")}
    assert attempts(world.store, route, []) == {}

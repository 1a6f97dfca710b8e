"""The main job on real servers: a lost feed is found, sent once, proven, archived; and everything that must stop it does."""

from collections.abc import Callable

import pytest

from resources.spool.sent import ArchiveOutcome, Outcome
from tests.integration.spool.world import Place

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

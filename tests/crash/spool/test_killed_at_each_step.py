"""SIGKILL before and after each of the eight steps, then any number of further runs. Judged by the disks and by the partner's own log.

The night that made this necessary: a redelivery job was killed by the machine's memory limit between its upload and its bookkeeping,
the next night sent the same invoices again, and the partner booked them twice.
"""

from collections.abc import Callable

import pytest

from resources.spool.steps import Moment, Step
from tests.crash.spool.children import killed_at
from tests.integration.spool.world import Place, contents

pytestmark = pytest.mark.crash

On = Callable[..., Place]
MISSING = b"missing at the partner\n" * 40
SHORT = b"short at the partner\n" * 40
THEIRS = b"somebody else's"
FEEDS = {"missing.csv": MISSING, "short.csv": SHORT}
POINTS = [
    pytest.param(protocol, step, moment, victim, id=f"{protocol}-{moment}-{step}-{victim}")
    for protocol in ("ftp", "sftp")
    for step in Step
    for moment in Moment
    for victim in FEEDS
    if protocol == "ftp" or victim == "short.csv" or step in (Step.PLACE, Step.OBSERVE)
]
"""Every point of both feeds over FTP; over SFTP all of the one that replaces a copy, and what places the other."""


def two_feeds(world: Place) -> Place:
    """The missing one is older: its delivery comes first."""
    world.feed("missing.csv", MISSING, minutes_old=300)
    world.feed("short.csv", SHORT, minutes_old=200)
    world.partner_has("short.csv", SHORT[:100])
    world.partner_has("theirs.csv", THEIRS)
    return world


def assert_nothing_was_lost(world: Place) -> None:
    """At any moment: every feed is in the spool or in the archive, and in the archive only if the partner has the whole of it."""
    spool, archive, inbox = world.held()
    assert {**spool, **archive} == FEEDS
    for name, content in archive.items():
        assert inbox[name] == content, f"{name} was archived and the partner does not have it"
    assert inbox["theirs.csv"] == THEIRS


def assert_all_is_done(world: Place) -> None:
    assert world.held() == ({}, FEEDS, {**FEEDS, "theirs.csv": THEIRS}), "and no name of ours is left at the partner"
    assert {name: world.placed(name) for name in FEEDS} == dict.fromkeys(FEEDS, 1)


@pytest.mark.parametrize(("protocol", "step", "moment", "victim"), POINTS)
def test_a_run_killed_anywhere_is_finished_by_later_runs_without_a_second_delivery(
    on: On, request: pytest.FixtureRequest, protocol: str, step: Step, moment: Moment, victim: str
) -> None:
    world = two_feeds(on(request.getfixturevalue(protocol)))
    report = world.report()
    world.approve(report)
    killed_at(world, report, step, moment, victim)
    assert_nothing_was_lost(world)
    world.time_passes()
    world.repair_until_done()
    assert_all_is_done(world)
    uploads = len(world.uploads())
    assert world.report().plan.gaps == ()
    assert len(world.uploads()) == uploads


def test_a_run_killed_twice_in_a_row_is_still_finished_once(on: On, ftp: object) -> None:
    world = two_feeds(on(ftp))
    for step, name in ((Step.PLACE, "missing.csv"), (Step.RESERVE, "missing.csv"), (Step.PROVE, "short.csv")):
        report = world.report()
        world.approve(report)
        killed_at(world, report, step, Moment.AFTER, name)
        assert_nothing_was_lost(world)
        world.time_passes()
    world.repair_until_done()
    assert_all_is_done(world)


def test_the_dead_runs_place_is_kept_until_its_lease_has_ended(on: On, ftp: object) -> None:
    world = two_feeds(on(ftp))
    report = world.report()
    world.approve(report)
    killed_at(world, report, Step.UPLOAD, Moment.AFTER, "missing.csv")
    waiting = world.report()
    assert {one.subject: str(one.verdict) for one in waiting.plan.findings}["missing.csv"] == "delivery_unknown"
    assert [target.subject for target in waiting.plan.targets] == ["short.csv"], "a run may be sending the other right now"
    world.approve(waiting)
    refused = world.apply(waiting).refused
    assert refused is not None
    assert refused.code == "busy"
    assert contents(world.inbox)["short.csv"] == SHORT[:100]

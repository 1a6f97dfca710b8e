"""A partner that takes every feed away the moment it arrives: absence proves nothing, only what was proven before the rename does."""

from collections.abc import Callable

import pytest

from resources.spool.steps import Moment, Step
from tests.crash.spool.children import killed_at
from tests.integration.spool.world import Place, contents

pytestmark = pytest.mark.crash

On = Callable[..., Place]
CONTENT = b"taken at once\n" * 50


def takes(world: Place) -> Callable[[Step, Moment, str], None]:
    """The partner, whenever anybody looks."""

    def taking(_step: Step, _moment: Moment, name: str) -> None:
        world.inbox.on_disk(name).unlink(missing_ok=True)

    return taking


def test_a_feed_that_is_taken_at_once_is_archived_after_one_delivery(on: On, sftp: object) -> None:
    world = on(sftp, consumes_on_arrival=True)
    world.feed("feed.csv", CONTENT)
    report = world.report()
    world.approve(report)
    applied = world.apply(report, watcher=takes(world))
    assert {name: one.outcome.value for name, one in applied.sent.items()} == {"feed.csv": "consumed"}
    assert world.held() == ({}, {"feed.csv": CONTENT}, {})
    assert world.report().plan.gaps == ()


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("step", [Step.PROVE, Step.PLACE, Step.OBSERVE, Step.SETTLE, Step.ARCHIVE])
def test_a_run_killed_at_a_consuming_partner_sends_nothing_twice(on: On, ftp: object, step: Step, moment: Moment) -> None:
    """The server's yes to the rename of the proven copy was written down: with it, absence is arrival."""
    world = on(ftp, consumes_on_arrival=True)
    world.feed("feed.csv", CONTENT)
    report = world.report()
    world.approve(report)
    killed_at(world, report, step, moment, "feed.csv")
    world.inbox.on_disk("feed.csv").unlink(missing_ok=True)
    world.time_passes()
    for _ in range(5):
        report = world.report()
        if not report.plan.targets:
            break
        world.approve(report)
        world.apply(report, watcher=takes(world))
    assert contents(world.archive) == {"feed.csv": CONTENT}
    assert (contents(world.spool), contents(world.inbox)) == ({}, {})
    assert world.placed("feed.csv") == 1
    assert world.report().plan.gaps == ()

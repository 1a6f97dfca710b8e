"""SIGKILL between a write at the partner and our knowledge of it: the server does it (or not) and never answers, then the run dies.

This is the moment that no bookkeeping of ours can see: only the journal's intent before it and what the servers hold decide.
"""

from collections.abc import Callable, Iterator

import pytest

from guards.delivery.outcome import Approval
from resources.spool.memory import feed_slot
from tests.crash.spool.children import applying
from tests.crash.spool.test_killed_at_each_step import (
    MISSING,
    assert_all_is_done,
    assert_nothing_was_lost,
    two_feeds,
)
from tests.integration.spool.world import Place, sha256
from tests.patience import until
from tests.servers.stalling import StallingPeer, stalling_peer

pytestmark = pytest.mark.crash

On = Callable[..., Place]

UPLOAD = ("upload", r"missing\.csv.*\.part -> ")
PLACE = ("rename", r"missing\.csv.*\.part -> .*/missing\.csv$")
REPLACE = ("rename", r"short\.csv.*\.part -> .*/short\.csv$")
ARCHIVE = ("rename", r"/spool-[^ ]*missing\.csv -> .*/archive-")
ASIDE = ("rename", r"/short\.csv -> .*\.aside$")
DROP_ASIDE = ("remove", r"short\.csv.*\.aside -> ")


@pytest.fixture(scope="module", params=["ftp", "sftp"])
def replacing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StallingPeer]:
    with stalling_peer(tmp_path_factory.mktemp("stalling"), request.param) as peer:
        yield peer


@pytest.fixture(scope="module", params=["ftp", "sftp"])
def refusing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StallingPeer]:
    """A rename onto an existing name is refused, so the short copy has to be moved aside."""
    with stalling_peer(tmp_path_factory.mktemp("refusing"), request.param, never_replaces=True) as peer:
        yield peer


def killed_inside(world: Place, peer: StallingPeer, event: str, pattern: str, when: str) -> None:
    report = world.report()
    world.approve(report)
    before = peer.stalled()
    peer.arm(event, when, pattern)
    with applying(world, report):
        until(lambda: peer.stalled() > before, f"{event} {when}")
    world.time_passes()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", [UPLOAD, PLACE, REPLACE, ARCHIVE], ids=["upload", "place", "replace", "archive"])
def test_a_run_killed_inside_a_write_is_finished_without_a_second_delivery(
    on: On, replacing: StallingPeer, write: tuple[str, str], when: str
) -> None:
    world = two_feeds(on(replacing))
    killed_inside(world, replacing, *write, when)
    assert_nothing_was_lost(world)
    world.repair_until_done()
    assert_all_is_done(world)
    assert world.report().plan.gaps == ()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", [ASIDE, REPLACE, DROP_ASIDE], ids=["aside", "replace", "drop_aside"])
def test_a_run_killed_while_the_short_copy_is_aside_leaves_no_copy_of_it_behind(
    on: On, refusing: StallingPeer, write: tuple[str, str], when: str
) -> None:
    """The partner's copy is never lost on the way: under its own name, under ours, or replaced by the proven one."""
    world = two_feeds(on(refusing))
    killed_inside(world, refusing, *write, when)
    assert_nothing_was_lost(world)
    assert any(name.startswith("short.csv") or ".short.csv" in name for name in world.held()[2])
    world.repair_until_done()
    assert_all_is_done(world)


def test_a_feed_that_a_consuming_partner_may_have_taken_is_never_sent_again(on: On, replacing: StallingPeer) -> None:
    """Killed between the rename and its answer, and the partner is quick: nobody can tell, so nothing is sent until a person has asked."""
    world = on(replacing, consumes_on_arrival=True)
    world.feed("missing.csv", MISSING)
    killed_inside(world, replacing, *PLACE, "after")
    world.inbox.on_disk("missing.csv").unlink()
    report = world.report()
    assert world.verdicts() == {"missing.csv": "delivery_unknown"}
    world.approve(report)
    assert {one.outcome.value for one in world.apply(report).sent.values()} == {"unknown"}
    assert world.verdicts() == {"missing.csv": "delivery_unknown"}
    assert world.placed("missing.csv") == 1
    (held,) = world.store.ledger.of(feed_slot(world.route, "missing.csv", sha256(MISSING)))
    by = Approval(approval_id=0, approved_by="Kim", comment="ticket 4711 at the partner")
    world.store.ledger.resolve(held.reservation_id, was_sent=True, evidence={"asked": "the partner"}, approval=by)
    assert world.verdicts() == {"missing.csv": "delivered_consumed"}
    world.repair_until_done()
    assert world.held() == ({}, {"missing.csv": MISSING}, {})
    assert world.placed("missing.csv") == 1


def test_what_the_partner_has_done_to_the_feed_since_is_not_taken_for_the_copy_that_was_to_be_replaced(
    on: On, replacing: StallingPeer
) -> None:
    """A partner cut the feed after it had arrived, and the run that sent it had died: "unchanged since the last look" proved nothing."""
    world = on(replacing)
    world.feed("missing.csv", MISSING)
    killed_inside(world, replacing, *PLACE, "after")
    world.partner_has("missing.csv", MISSING[:10])
    report = world.report()
    world.approve(report)
    assert {one.outcome.value for one in world.apply(report).sent.values()} == {"unknown"}
    assert world.verdicts() == {"missing.csv": "delivery_unknown"}
    assert world.placed("missing.csv") == 1

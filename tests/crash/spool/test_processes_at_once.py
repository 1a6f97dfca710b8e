"""Real processes at the same time: two applies, a report beside one, a writer that was asleep, a database that is killed."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from resources.spool.steps import Moment, Step
from resources.state import StateStore
from resources.state.embedded import leave, open_embedded
from resources.state.errors import LeaseLost
from tests.crash.spool.children import applying, forked
from tests.integration.spool.world import Place, contents, place
from tests.patience import ended, until
from tests.servers.peer import Peer
from tests.servers.stalling import StallingPeer, stalling_peer

pytestmark = pytest.mark.crash

On = Callable[..., Place]
CONTENT = b"sent exactly once\n" * 500


@pytest.fixture(scope="module")
def stalling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StallingPeer]:
    with stalling_peer(tmp_path_factory.mktemp("stalling"), "ftp") as peer:
        yield peer


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StallingPeer]:
    with stalling_peer(tmp_path_factory.mktemp("refusing"), "ftp", never_replaces=True) as peer:
        yield peer


def assert_delivered_once(world: Place, **feeds: bytes) -> None:
    named = {f"{name}.csv": content for name, content in feeds.items()}
    assert world.held() == ({}, named, named)
    assert {name: world.placed(name) for name in named} == dict.fromkeys(named, 1)


def test_two_applies_of_one_plan_at_once_have_one_winner(on: On, ftp: Peer, tmp_path: Path) -> None:
    """Two people pressed the button; both runs were green, and the partner got every feed twice."""
    world = on(ftp)
    world.feed("feed.csv", CONTENT)
    report = world.report()
    world.approve(report)
    start = tmp_path / "start"

    def race(mine: Place, number: int) -> None:
        (tmp_path / f"ready{number}").touch()
        until(start.exists, "the start")
        applied = mine.apply(report)
        (tmp_path / f"said{number}").write_text("won" if applied.refused is None else applied.refused.code)

    children = [forked(world, lambda mine, number=number: race(mine, number)) for number in range(3)]
    until(lambda: all((tmp_path / f"ready{number}").exists() for number in range(3)), "all are ready")
    start.touch()
    assert [ended(child) for child in children] == [0, 0, 0]
    said = sorted((tmp_path / f"said{number}").read_text() for number in range(3))
    assert said[-1] == "won"
    assert set(said[:-1]) <= {"busy", "already_used"}
    assert len(world.uploads()) == 1
    assert_delivered_once(world, feed=CONTENT)


def test_a_report_beside_a_running_apply_says_so_and_plans_nothing_twice(on: On, stalling: StallingPeer) -> None:
    world = on(stalling)
    world.feed("feed.csv", CONTENT)
    report = world.report()
    world.approve(report)
    stalling.arm("upload", "after", r"\.part -> ")
    with applying(world, report):
        until(lambda: not stalling.is_armed(), "the upload")
        during = world.report()
        (finding,) = during.plan.findings
        assert str(finding.verdict) == "delivery_unknown"
        assert finding.note.startswith("A run is sending it right now")
        assert during.plan.targets == ()
    world.time_passes()
    world.repair_until_done()
    assert_delivered_once(world, feed=CONTENT)


def slept(world: Place, step: Step, tmp_path: Path) -> str:
    """What a writer said that was stopped before this step, past its lease, and woke when another had finished its work."""
    report = world.report()
    world.approve(report)
    said = tmp_path / "said"

    def work(mine: Place) -> None:
        def stop(at: Step, moment: Moment, _name: str) -> None:
            if (at, moment) == (step, Moment.BEFORE):
                os.kill(os.getpid(), signal.SIGSTOP)

        try:
            applied = mine.apply(report, watcher=stop)
            said.write_text(repr({name: one.outcome.value for name, one in applied.sent.items()}))
        except LeaseLost:
            said.write_text("LeaseLost")

    child = forked(world, work)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    world.time_passes()
    world.repair_until_done()
    os.kill(child, signal.SIGCONT)
    assert ended(child) == 0
    return said.read_text()


@pytest.mark.parametrize("step", [Step.UPLOAD, Step.PROVE, Step.PLACE, Step.OBSERVE, Step.SETTLE])
def test_a_writer_that_slept_past_its_lease_writes_nothing_any_more(on: On, ftp: Peer, tmp_path: Path, step: Step) -> None:
    """The machine was suspended in the middle of a delivery and resumed an hour later, when another had long finished it."""
    world = on(ftp)
    world.feed("feed.csv", CONTENT)
    said = slept(world, step, tmp_path)
    assert said == "LeaseLost"
    assert_delivered_once(world, feed=CONTENT)


def test_a_rename_that_was_long_on_its_way_does_not_move_the_new_copy_aside(on: On, refusing: StallingPeer) -> None:
    """Refused since its temporary copy is gone, taken for "this server cannot replace", it would have moved the good new copy away."""
    world = on(refusing)
    world.feed("short.csv", CONTENT)
    world.partner_has("short.csv", CONTENT[:50])
    report = world.report()
    world.approve(report)
    refusing.arm("rename", "held", r"\.part -> ")
    child = forked(world, lambda mine: mine.apply(report))
    until(lambda: not refusing.is_armed(), "the rename is on its way")
    world.time_passes()
    world.repair_until_done()
    assert_delivered_once(world, short=CONTENT)
    refusing.release()
    assert ended(child) == 1, "its lease is lost, and it says so"
    assert_delivered_once(world, short=CONTENT)


def test_a_hosts_clock_that_is_an_hour_off_changes_nothing(on: On, ftp: Peer) -> None:
    """Ages, leases and approvals are judged by the database's clock alone."""
    world = on(ftp)
    world.feed("late.csv", CONTENT, minutes_old=90)
    world.feed("young.csv", CONTENT, minutes_old=30)
    for hours in (-1, 1):

        def work(mine: Place, hours: int = hours) -> None:
            real = time.time
            time.time = lambda: real() + hours * 3600  # the host's clock, in this child only
            assert mine.verdicts() == {"late.csv": "missing", "young.csv": "within_sla"}

        assert ended(forked(world, work)) == 0

    def apply_an_hour_ahead(mine: Place) -> None:
        real = time.time
        time.time = lambda: real() + 3600
        mine.repair()

    assert ended(forked(world, apply_an_hour_ahead)) == 0
    assert contents(world.inbox) == {"late.csv": CONTENT}
    assert contents(world.spool) == {"young.csv": CONTENT}


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="RLIMIT_FSIZE of another process is set by prlimit, which is Linux"
)
def test_a_partner_whose_disk_is_full_fails_the_feed_and_loses_nothing(on: On, sftp: Peer) -> None:
    """A file size limit on the server's process stands for the full disk: the write itself fails there."""
    import resource

    process = sftp.process  # type: ignore[attr-defined]
    world = on(sftp)
    world.feed("large.csv", CONTENT * 40)
    report = world.report()
    world.approve(report)
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        applied = world.apply(report)
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
    assert {name: one.outcome.value for name, one in applied.sent.items()} == {"large.csv": "failed"}
    assert world.held()[:2] == ({"large.csv": CONTENT * 40}, {})
    assert "large.csv" not in world.held()[2]
    world.repair_until_done()
    assert_delivered_once(world, large=CONTENT * 40)


def test_four_feeds_at_once_and_one_that_fails_alone(on: On, ftp: Peer) -> None:
    world = on(ftp)
    feeds = {f"f{number}": CONTENT + str(number).encode() for number in range(6)}
    for name, content in feeds.items():
        world.feed(f"{name}.csv", content)
    report = world.report(max_parallel_files=4, max_files_per_run=10)
    world.approve(report)

    def vanishes(step: Step, moment: Moment, name: str) -> None:
        if (step, moment, name) == (Step.UPLOAD, Moment.BEFORE, "f3.csv"):
            world.spool.on_disk(name).unlink()

    applied = world.apply(report, watcher=vanishes)
    assert {name for name, one in applied.sent.items() if one.outcome.value == "failed"} == {"f3.csv"}
    assert list(applied.sent) == [target.subject for target in report.plan.targets]
    del feeds["f3"]
    assert_delivered_once(world, **feeds)


def test_postgres_is_killed_during_an_apply_and_nothing_acknowledged_is_lost(stalling: StallingPeer, tmp_path: Path) -> None:
    """SIGKILL on the whole database while a rename waits for its answer; it recovers, and the next run finds what was done."""
    home = tmp_path / "home"
    try:
        with StateStore.open(open_embedded(home)) as store:
            world = place(store, stalling, stalling)
            world.feed("feed.csv", CONTENT)
            report = world.report()
            world.approve(report)
            stalling.arm("rename", "after", r"\.part -> ")
            before = server_of(store)
            with applying(world, report):
                until(lambda: not stalling.is_armed(), "the rename")
                os.kill(postmaster_of(home), signal.SIGKILL)
            until(lambda: server_of(store) not in (None, before), "the database is back")
            assert store.ledger.verify().faults == ()
            world.time_passes()
            world.repair_until_done()
            assert_delivered_once(world, feed=CONTENT)
    finally:
        leave(home)


def postmaster_of(home: Path) -> int:
    (pid_file,) = home.rglob("postmaster.pid")
    return int(pid_file.read_text().splitlines()[0])


def server_of(store: StateStore) -> datetime | None:
    """When the server that answers was started: processes of a killed one answer until they have noticed."""
    try:
        with store.engine.connect() as connection:
            started: datetime = connection.execute(text("SELECT pg_postmaster_start_time()")).scalar_one()
    except DBAPIError:
        return None
    return started


def test_a_long_delivery_keeps_its_short_lease_while_it_moves(on: On, sftp: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small feeds took longer than the lease, no single one did: the run lost its place half way, every night."""
    monkeypatch.setattr("resources.pulse.HEARTBEAT_SECONDS", 0.0)  # a heartbeat with every movement
    world = on(sftp)
    for number in range(12):
        world.feed(f"f{number:02}.csv", CONTENT)
    report = world.report(max_files_per_run=50)
    world.approve(report)
    each, lease_seconds, passed = 100, 600, []

    def slow(step: Step, moment: Moment, name: str) -> None:
        if (step, moment) == (Step.PROVE, Moment.AFTER):
            with world.store.engine.begin() as connection:
                connection.execute(text(f"UPDATE opsguard.leases SET expires_at = expires_at - interval '{each} seconds'"))
            passed.append(name)

    applied = world.apply(report, watcher=slow, lease_seconds=lease_seconds)
    assert len(passed) * each > lease_seconds, "else this test shows nothing"
    assert {one.outcome.value for one in applied.sent.values()} == {"delivered"}
    assert len(applied.archived) == 12

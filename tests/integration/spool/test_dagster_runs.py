"""The same through Dagster: what a run says, what it refuses, what stops it, and what the definitions hold."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest

from guards.decision import DecisionKind
from guards.spool.policy import SpoolPolicy
from opsguard_defs import runs
from opsguard_defs.definitions import definitions
from resources.state import StateStore
from tests.integration.command import Command
from tests.integration.spool.dagster_world import Installed, installed
from tests.integration.spool.world import Place, at_partner, events, place
from tests.servers.ftp_faults import Faults, faulty_ftp
from tests.servers.peer import Peer

CONTENT = b"through dagster\n" * 100
Approve = Callable[[str], None]


@pytest.fixture
def acme(state_store: StateStore, database_url: str, tmp_path: Path, ftp: Peer, sftp: Peer) -> Iterator[Installed]:
    """SFTP to FTP."""
    with installed(tmp_path / "home", database_url, place(state_store, sftp, ftp)) as (one,):
        yield one


def approve(store: StateStore, digest: str, *, kind: DecisionKind = DecisionKind.APPROVED, seconds: float = 3600) -> None:
    decided = store.decide(digest, kind=kind, by="Kim", comment="", valid_for=timedelta(seconds=seconds), channel="cli")
    assert not hasattr(decided, "code"), decided


def write(digest: str, **changed: object) -> dict[str, object]:
    return {"approved_plan": digest, "dry_run": False, "auto_remediate": True, **changed}


def test_every_refusal_is_a_green_run_that_says_its_code_and_writes_nothing(
    state_store: StateStore, database_url: str, tmp_path: Path, ftp: Peer, sftp: Peer
) -> None:
    places = place(state_store, sftp, ftp), place(state_store, sftp, ftp, name="other")
    with installed(tmp_path / "home", database_url, *places) as (acme, other):
        acme.place.feed("feed.csv", CONTENT)
        digest = acme.report().stored.digest

        def refused(config: dict[str, object], by: Installed = acme) -> str:
            code = by.refusal_of(by.launch("redeliver", config))
            assert acme.place.uploads() == []
            assert acme.place.held()[:2] == ({"feed.csv": CONTENT}, {})
            return code

        assert refused({}) == "dry_run"
        assert refused(write(digest, auto_remediate=False)) == "remediation_disabled"
        assert refused(write(digest)) == "not_approved"
        assert refused(write("0" * 64)) == "not_approved"
        assert refused(write(digest, approved_by="Kim"), other) == "not_approved", "a plan of another watch"
        assert state_store.decisions(digest) == (), "nothing of this was a decision"

        approve(state_store, digest, seconds=0.2)
        while (decision := state_store.decision(digest)) is not None and state_store.now() < decision.valid_until:
            continue  # each turn asks the database for the time
        assert refused(write(digest)) == "expired"

        approve(state_store, digest)
        lease = state_store.acquire_lease("spool/acme", holder="somebody-else", ttl_seconds=600)
        assert refused(write(digest)) == "busy"
        state_store.release(lease)  # type: ignore[arg-type]

        intruder = acme.place.inbox.put("feed.csv", b"somebody was faster")
        assert refused(write(digest)) == "stale"
        intruder.unlink()

        for number in range(1000):
            acme.place.inbox.put(f"{number}.dat", b"")
        assert refused(write(digest)) == "observation_incomplete"
        for number in range(1000):
            acme.place.inbox.on_disk(f"{number}.dat").unlink()

        watch = acme.watch.model_copy(update={"policy": SpoolPolicy(sla_minutes=61)})
        assert refused(write(digest), acme.other(watches=(watch,))) == "policy_changed"

        applied = runs.apply(acme.settings, digest)
        assert (applied.outcome, applied.exit_code, applied.failure) == ("applied", 0, "")
        assert acme.place.held() == ({}, {"feed.csv": CONTENT}, {"feed.csv": CONTENT})
        assert acme.refusal_of(acme.launch("redeliver", write(digest))) == "already_used"

        nothing = acme.report().stored.digest
        assert acme.refusal_of(acme.launch("redeliver", write(nothing))) == "nothing_to_do"

        acme.place.feed("second.csv", CONTENT)
        second = acme.report().stored.digest
        approve(state_store, second, kind=DecisionKind.DECLINED)
        assert acme.refusal_of(acme.launch("redeliver", write(second))) == "declined"
        assert len(acme.place.uploads()) == 1


def test_a_repair_turns_the_plans_own_check_green_and_its_checks_can_be_asked_again(
    acme: Installed, state_store: StateStore
) -> None:
    acme.place.feed("feed.csv", CONTENT)
    acme.place.feed("young.csv", CONTENT, minutes_old=1)
    digest = acme.report().stored.digest
    assert acme.plan_check_passed() is False
    approve(state_store, digest)
    applied = runs.apply(acme.settings, digest)
    assert {one.name: one.passed for one in applied.checks} == dict.fromkeys(
        (
            "partner_bytes_match",
            "feeds_present",
            "sources_left_spool",
            "sources_archived",
            "untargeted_untouched",
            "final_audit",
        ),
        True,
    )
    assert [(one.subject, one.action, one.approved_by) for one in reversed(applied.receipts)] == [
        ("feed.csv", "send", "Kim"),
        ("feed.csv", "archive", "Kim"),
    ]
    assert acme.plan_check_passed() is True
    assert all(one.passed for one in runs.verify(acme.settings, acme.watch).checks)
    acme.place.archive.put("feed.csv", CONTENT[::-1])
    failed = {one.name for one in runs.verify(acme.settings, acme.watch).checks if not one.passed}
    assert failed == {"sources_archived", "final_audit"}


def test_an_approval_in_the_run_config_is_a_decision_and_is_recorded_once(acme: Installed, state_store: StateStore) -> None:
    acme.place.feed("feed.csv", CONTENT)
    digest = acme.report().stored.digest
    assert acme.refusal_of(acme.launch("redeliver", {"approved_plan": digest, "approved_by": "Kim"})) == "dry_run"
    assert state_store.decisions(digest) == (), "a dry run decides nothing"
    closed = acme.other(approve_in_ui=False)
    with pytest.raises(dg.DagsterConfigMappingFunctionError) as refused:
        closed.launch("redeliver", write(digest, approved_by="Kim"))
    assert "command line only" in str(refused.value.__cause__)
    result = acme.launch("redeliver", write(digest[:12], approved_by="Kim", approval_comment="go"))
    assert result.success
    (decision,) = state_store.decisions(digest)
    assert (decision.decided_by, decision.comment, decision.channel) == ("Kim", "go", "run_config")
    assert acme.place.held() == ({}, {"feed.csv": CONTENT}, {"feed.csv": CONTENT})


def test_bytes_that_change_between_sending_and_archiving_stop_the_archiving(acme: Installed, state_store: StateStore) -> None:
    """And the same plan again is refused: its approval was used. What is still open needs a new report and a new approval."""
    first, second = acme.place.feed("1.csv", CONTENT, minutes_old=300), acme.place.feed("2.csv", CONTENT)
    digest = acme.report().stored.digest
    approve(state_store, digest)

    def tampers(what: str, _done: int, _of: int) -> None:
        if what == "sending 2.csv":
            acme.place.inbox.put("1.csv", CONTENT[::-1])

    applied = runs.apply(acme.settings, digest, progress=tampers)
    assert (applied.outcome, applied.exit_code) == ("failed", 4)
    assert "'1.csv'" in applied.failure
    assert "look at the inbox by hand" in applied.failure
    assert acme.place.held()[:2] == ({"1.csv": first, "2.csv": second}, {})
    again = runs.apply(acme.settings, digest)
    assert again.refusal is not None
    assert again.refusal.code == "already_used"


def test_a_neighbour_that_changed_during_the_run_fails_its_closing_check(acme: Installed, state_store: StateStore) -> None:
    acme.place.feed("feed.csv", CONTENT)
    acme.place.partner_has("theirs.csv", b"as it was")
    digest = acme.report().stored.digest
    approve(state_store, digest)

    def tampers(what: str, _done: int, _of: int) -> None:
        if what == "sending feed.csv":
            acme.place.inbox.put("theirs.csv", b"as it was not before")

    applied = runs.apply(acme.settings, digest, progress=tampers)
    assert (applied.outcome, applied.exit_code) == ("failed", 4)
    assert [one.name for one in applied.checks if not one.passed] == ["untargeted_untouched"]
    assert acme.place.held()[:2] == ({}, {"feed.csv": CONTENT})


class _Taking(dict[bytes, bytes]):
    """An inbox whose owner takes every feed the moment it has its name."""

    def __setitem__(self, name: bytes, content: bytes) -> None:
        if name.startswith(b"."):
            super().__setitem__(name, content)


def test_a_feed_in_doubt_fails_the_run_with_its_own_sentence(
    state_store: StateStore, database_url: str, tmp_path: Path, sftp: Peer
) -> None:
    """The rename's answer was lost and the feed was taken at once: a green run would have hidden it until the partner called."""
    with faulty_ftp(Faults(machine=True, after_reply_lost="RNTO")) as server:
        server.files = _Taking()
        world: Place = at_partner(place(state_store, sftp, sftp), server.endpoint(consumes_on_arrival=True))
        with installed(tmp_path / "home", database_url, world) as (acme,):
            acme.place.feed("1.csv", CONTENT, minutes_old=300)
            acme.place.feed("2.csv", CONTENT)
            digest = acme.report().stored.digest
            approve(state_store, digest)
            applied = runs.apply(acme.settings, digest)
            assert (applied.outcome, applied.exit_code) == ("failed", 4)
            assert applied.failure.startswith("1 feed in doubt")
            assert "'1.csv'" in applied.failure
            assert server.said("RNTO") == 1, "the other was not started"
            assert acme.place.held()[:2] == ({"1.csv": CONTENT, "2.csv": CONTENT}, {})


def test_a_plan_that_only_archives_writes_nothing_at_the_partner(acme: Installed, state_store: StateStore) -> None:
    acme.place.feed("feed.csv", CONTENT)
    acme.place.partner_has("feed.csv", CONTENT)
    report = acme.report(verify_delivered="checksum", archive_delivered="true")
    assert [target["action"] for target in report.stored.targets] == ["archive"]  # type: ignore[index,call-overload]
    approve(state_store, report.stored.digest)
    applied = runs.apply(acme.settings, report.stored.digest)
    assert (applied.outcome, applied.failure) == ("applied", "")
    assert acme.place.held() == ({}, {"feed.csv": CONTENT}, {"feed.csv": CONTENT})
    assert acme.place.uploads() == []


def test_a_server_that_is_down_fails_the_run_with_its_side_and_never_says_missing(
    state_store: StateStore, database_url: str, tmp_path: Path, sftp: Peer
) -> None:
    world = place(state_store, sftp, sftp)
    nobody = replace(world, route=replace(world.route, partner=replace(world.route.partner, port=1)))
    with installed(tmp_path / "home", database_url, nobody) as (acme,):
        acme.place.feed("feed.csv", CONTENT)
        with pytest.raises(runs.Unreachable, match="partner: "):
            acme.report()
        assert state_store.plans() == []


def test_two_watches_in_one_file_have_two_of_everything_and_nothing_runs_by_itself(
    state_store: StateStore, database_url: str, tmp_path: Path, ftp: Peer, sftp: Peer
) -> None:
    with installed(
        tmp_path / "home", database_url, place(state_store, sftp, ftp), place(state_store, ftp, sftp, name="bolt")
    ) as (acme, _):
        repository = definitions(acme.settings).get_repository_def()
    graph = repository.asset_graph
    things = ("archive_listing", "decision", "delivered_files", "handoff", "outbound_listing", "partner_inbox")
    expected = {f"spool/{watch}/{thing}" for watch in ("acme", "bolt") for thing in (*things, "partner_listing", "plan")}
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == expected
    of_delivered = ("feeds_present", "final_audit", "partner_bytes_match", "sources_archived", "sources_left_spool")
    assert {f"{key.asset_key.to_user_string()}:{key.name}" for key in graph.asset_check_keys} == {
        f"spool/{watch}/{check}"
        for watch in ("acme", "bolt")
        for check in (
            *(f"delivered_files:{name}" for name in (*of_delivered, "untargeted_untouched")),
            *(f"{side}_listing:complete" for side in ("archive", "outbound", "partner")),
            "plan:plan_needs_a_decision",
        )
    }
    jobs = {job.name for job in repository.get_all_jobs() if not job.name.startswith("__")}
    assert jobs == {"decide_plan"} | {
        f"spool_{watch}_{verb}" for watch in ("acme", "bolt") for verb in ("report", "redeliver", "verify")
    }
    automation: list[Any] = [*repository.schedule_defs, *repository.sensor_defs]
    names = {one.name for one in automation}
    assert {f"spool_{watch}_{what}" for watch in ("acme", "bolt") for what in ("nightly", "arrival", "approved_plans")} <= names
    assert {one.default_status.value for one in automation} == {"STOPPED"}
    assert graph.get(dg.AssetKey(["spool", "bolt", "plan"])).group_name == "spool_bolt"


def test_no_secret_is_in_a_log_an_event_a_plan_a_receipt_or_a_repr(
    acme: Installed, state_store: StateStore, database_url: str
) -> None:
    acme.place.feed("feed.csv", CONTENT)
    digest = acme.report().stored.digest
    approve(state_store, digest)
    assert runs.apply(acme.settings, digest).outcome == "applied"
    route = acme.place.route
    canaries = {route.source.password.get_secret_value(), route.partner.password.get_secret_value()}
    assert canaries == {"canary-ftp-password", "canary-sftp-password"}
    said = [repr(one) for one in (acme.settings, acme.watch, route, acme.place.sides, state_store)]
    said += [path.read_bytes().decode("utf-8", "replace") for path in acme.settings.home.rglob("*") if path.is_file()]
    rows = 0
    with psycopg.connect(database_url) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for (table,) in tables:
            found = connection.execute(f"SELECT t::text FROM {table} t").fetchall()  # type: ignore[arg-type]  # the server quoted it
            said += [row for (row,) in found]
            rows += len(found)
    assert rows > 100, "Dagster's own events are in the same database"
    assert not [text[:200] for text in said for canary in canaries if canary in text]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the directory that nobody may write in is /proc")
def test_a_home_that_cannot_be_written_is_said_and_nothing_is_contacted(
    tmp_path: Path, ftp: Peer, state_store: StateStore
) -> None:
    with installed(tmp_path / "home", "", place(state_store, ftp, ftp)) as (_,):
        logins = len([one for one in events(ftp.log) if one["event"] == "login"])
        opsguard = Command(tmp_path, {name: value for name, value in os.environ.items() if name.startswith("OPSGUARD_SPOOL_")})
        moved = tmp_path / "opsguard.toml"
        moved.write_text((tmp_path / "home" / "opsguard.toml").read_text().replace(f'home = "{tmp_path / "home"}"', ""))
        said = opsguard("report", "spool/acme", OPSGUARD_HOME="/proc/nowhere")
        assert said.code == 2
        assert "set OPSGUARD_HOME to another" in said.err
        assert "Traceback" not in said.err
        assert len([one for one in events(ftp.log) if one["event"] == "login"]) == logins

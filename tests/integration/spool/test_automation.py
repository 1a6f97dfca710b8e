"""What runs by itself: when the arrival sensor asks for a report, how it backs off, and what an approval starts."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from guards.decision import DecisionKind
from jobs.spool.automation import EVERY_SECONDS, MOST_NAMES
from opsguard_defs.assembly import definitions, state_of
from resources.state import StateStore
from tests.integration.spool.dagster_world import Installed, installed
from tests.integration.spool.world import place
from tests.servers.peer import Peer


@pytest.fixture
def acme(state_store: StateStore, database_url: str, tmp_path: Path, ftp: Peer, sftp: Peer) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, place(state_store, sftp, ftp)) as (one,):
        yield one


class Ticking:
    """One sensor and its cursor, tick by tick, without a daemon."""

    def __init__(self, one: Installed, sensor: str, *, cursor: str | None = None) -> None:
        self._sensor = definitions(one.settings).get_repository_def().get_sensor_def(f"spool_{one.name}_{sensor}")
        self._state = state_of(one.settings)
        self.cursor = cursor

    def tick(self) -> Any:
        with dg.DagsterInstance.ephemeral() as instance:
            context = dg.build_sensor_context(instance=instance, cursor=self.cursor, resources={"state": self._state})
            done = self._sensor.evaluate_tick(context)
        self.cursor = done.cursor
        return done


def arrivals(done: Any) -> list[str]:
    return [request.tags["opsguard/arrivals"] for request in done.run_requests or []]


def test_the_arrival_sensor_asks_once_for_what_is_new_or_changed(acme: Installed) -> None:
    sensor = Ticking(acme, "arrival")
    assert arrivals(sensor.tick()) == []
    acme.place.feed("one.csv", b"1")
    acme.place.feed("one.csv.part", b"")
    assert arrivals(sensor.tick()) == ["one.csv"]
    assert sensor.tick().skip_message == "nothing new: 1 deliverable feed"
    acme.place.feed("one.csv", b"changed")
    acme.place.feed("two.csv", b"2")
    assert arrivals(sensor.tick()) == ["one.csv, two.csv"]


def test_what_left_the_spool_is_no_news_and_what_comes_back_is(acme: Installed) -> None:
    """A run key of the spool's state alone would have swallowed the second arrival."""
    sensor = Ticking(acme, "arrival")
    acme.place.feed("one.csv", b"1")
    sensor.tick()
    acme.place.feed("two.csv", b"2")
    assert arrivals(sensor.tick()) == ["two.csv"]
    acme.place.spool.on_disk("two.csv").unlink()
    assert arrivals(sensor.tick()) == []
    acme.place.feed("two.csv", b"2")
    assert arrivals(sensor.tick()) == ["two.csv"]


def test_a_message_names_at_most_twenty_five(acme: Installed) -> None:
    for number in range(MOST_NAMES + 2):
        acme.place.feed(f"{number:02}.csv", b"x")
    done = Ticking(acme, "arrival").tick()
    (request,) = done.run_requests
    assert "24.csv and 2 more" in request.tags["opsguard/arrivals"]
    assert "25.csv" not in request.tags["opsguard/arrivals"]


def test_a_failing_server_is_asked_ever_less_often_and_starts_no_run(acme: Installed) -> None:
    watch = acme.watch
    nobody = replace(watch.source, port=1)
    settings = acme.settings.model_copy(update={"watches": (watch.model_copy(update={"source": nobody}),)})
    sensor = Ticking(replace(acme, settings=settings), "arrival")
    done = sensor.tick()
    assert not done.run_requests
    assert f"asked again in {EVERY_SECONDS} s" in done.skip_message
    assert "failed 1 times: asked again" in sensor.tick().skip_message
    cursor = json.loads(sensor.cursor or "")
    sensor.cursor = json.dumps({**cursor, "not_before": 0})  # the pause is over
    assert f"asked again in {2 * EVERY_SECONDS} s" in sensor.tick().skip_message


@pytest.mark.parametrize("cursor", ["", "not json", "[]", "null", '{"digest": "x"}'])
def test_a_cursor_that_cannot_be_read_costs_one_report_at_most(acme: Installed, cursor: str) -> None:
    acme.place.feed("one.csv", b"1")
    sensor = Ticking(acme, "arrival", cursor=cursor)
    assert arrivals(sensor.tick()) == ["one.csv"]
    assert arrivals(sensor.tick()) == []


def test_each_approval_starts_one_run_that_may_write(acme: Installed, state_store: StateStore) -> None:
    sensor = Ticking(acme, "approved_plans")
    assert sensor.tick().skip_message == "no approved plan waits to be applied"
    acme.place.feed("one.csv", b"1")
    digest = acme.report().stored.digest
    assert not sensor.tick().run_requests, "a plan that nobody approved"
    decision = state_store.decide(
        digest, kind=DecisionKind.APPROVED, by="Kim", comment="", valid_for=timedelta(hours=1), channel="cli"
    )
    (request,) = sensor.tick().run_requests
    assert request.run_key == f"plan:{digest}:{decision.decision_id}"
    assert request.run_config == {"approved_plan": digest, "dry_run": False, "auto_remediate": True}
    assert acme.launch("redeliver", request.run_config).success
    assert acme.place.placed("one.csv") == 1
    assert not sensor.tick().run_requests, "its approval was used"

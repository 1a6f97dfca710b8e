"""Failed runs and gaps reach Slack once: real Dagster instance, real state database, real sink."""

import logging
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.state_resource import StateResource
from jobs.alerts import FAILURES, OUTBOX, alert_gaps, alert_sensors
from opsguard_defs.sandbox.servers.slack_sink import SlackSink
from resources.slack.client import SlackResource
from resources.slack.outbox import Delivery
from resources.state import StateStore
from tests.unit.pages import BASE_URL, EVIL, missing, page, plan

OURS = {".dagster/repository": "__repository__@opsguard", "opsguard/guard": "spool", "opsguard/watch": "spool/acme"}
LOG = logging.getLogger("test.alerts")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def state(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateResource:
    monkeypatch.setenv("OPSGUARD_STATE_URL", database_url)
    return StateResource(home=str(tmp_path))


@dg.op
def observe() -> None:
    raise RuntimeError(f"the partner refused {EVIL}")


@dg.job
def spool_acme_report() -> None:
    observe()


@dg.job
def fine() -> None:
    pass


def definitions(state: StateResource, slack: SlackResource) -> dg.Definitions:
    return dg.Definitions(
        jobs=[spool_acme_report, fine],
        sensors=alert_sensors(slack=slack, base_url=BASE_URL, running=False),
        resources={"state": state},
    )


def tick(defs: dg.Definitions, sensor: str, instance: dg.DagsterInstance, cursor: str | None = None) -> object:
    repository = defs.get_repository_def()
    context = dg.build_sensor_context(
        instance=instance, cursor=cursor, repository_def=repository, sensor_name=sensor, resources=defs.resources
    )
    return repository.get_sensor_def(sensor).evaluate_tick(context)


def fail(instance: dg.DagsterInstance, tags: dict[str, str]) -> str:
    return spool_acme_report.execute_in_process(instance=instance, raise_on_error=False, tags=tags).run_id


def test_a_failed_run_is_told_once_with_its_cause_and_a_link(
    instance: dg.DagsterInstance, state: StateResource, slack: SlackResource, slack_sink: SlackSink
) -> None:
    """Runs of the command line carry no code location, only a tag: an ordinary failure sensor never sees them."""
    defs = definitions(state, slack)
    started = tick(defs, FAILURES, instance)
    run_id = fail(instance, OURS)
    fail(instance, {".dagster/repository": "__repository__@somebody_else"})
    tick(defs, FAILURES, instance, started.cursor)
    tick(defs, FAILURES, instance, started.cursor)
    (posted,) = slack_sink.messages
    header, sentence, action = (block["text"]["text"] for block in posted["body"]["blocks"])
    assert header == "spool_acme_report failed"
    assert sentence.startswith("the partner refused a](http\\x3a\\x2f\\x2fevil.example)")
    assert "<" not in sentence
    assert "`opsguard report spool/acme`" in action
    assert f"<{BASE_URL}/runs/{run_id}|The run>" in action
    assert posted["body"]["metadata"]["event_payload"] == {"key": f"run:{run_id}"}


@dg.op
def give_up() -> None:
    raise dg.Failure("observation_incomplete: the partner could not be listed") from RuntimeError("socket closed")


@dg.job
def spool_acme_verify() -> None:
    give_up()


def test_a_failure_speaks_its_own_sentence_not_its_causes(
    instance: dg.DagsterInstance, state: StateResource, slack: SlackResource, slack_sink: SlackSink
) -> None:
    defs = definitions(state, slack)
    started = tick(defs, FAILURES, instance)
    spool_acme_verify.execute_in_process(instance=instance, raise_on_error=False, tags=OURS)
    tick(defs, FAILURES, instance, started.cursor)
    sentence = slack_sink.messages[0]["body"]["blocks"][1]["text"]["text"]
    assert sentence == "observation_incomplete: the partner could not be listed"


def test_an_alert_that_found_slack_down_leaves_by_the_outbox_sensor(
    instance: dg.DagsterInstance, state: StateResource, slack: SlackResource, slack_sink: SlackSink, state_store: StateStore
) -> None:
    defs = definitions(state, slack)
    slack_sink.next.append({"status": 503, "body": "down"})
    started = tick(defs, FAILURES, instance)
    fail(instance, OURS)
    tick(defs, FAILURES, instance, started.cursor)
    assert slack_sink.messages == []
    assert tick(defs, OUTBOX, instance).skip_message == "no alert was waiting"
    with state_store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE opsguard.outbox SET next_attempt_at = now()")
    assert tick(defs, OUTBOX, instance).skip_message == "1 alert posted"
    assert len(slack_sink.messages) == 1


def test_a_run_without_a_watch_gets_a_command_that_cannot_be_wrong(
    instance: dg.DagsterInstance, state: StateResource, slack: SlackResource, slack_sink: SlackSink
) -> None:
    defs = definitions(state, slack)
    started = tick(defs, FAILURES, instance)
    fail(instance, {**OURS, "opsguard/watch": "spool/`; rm", "opsguard/plan": "61cddab8590b"})
    tick(defs, FAILURES, instance, started.cursor)
    blocks = slack_sink.messages[0]["body"]["blocks"]
    assert blocks[2]["text"]["text"] == "\N{BULLET} plan 61cddab8590b"
    assert blocks[3]["text"]["text"].startswith("`opsguard doctor`")


def test_the_sensors_are_stopped_unless_they_are_asked_to_run(state: StateResource) -> None:
    for running, status in ((False, dg.DefaultSensorStatus.STOPPED), (True, dg.DefaultSensorStatus.RUNNING)):
        sensors = alert_sensors(slack=SlackResource(), base_url=BASE_URL, running=running)
        assert {sensor.name: sensor.default_status for sensor in sensors} == {FAILURES: status, OUTBOX: status}


def test_gaps_are_told_once_per_plan_and_again_when_they_change(
    state_store: StateStore, slack: SlackResource, slack_sink: SlackSink
) -> None:
    def tell(shown) -> Delivery:
        where = {"base_url": BASE_URL, "run_id": "r", "asset_key": ["spool", "acme", "plan"]}
        return alert_gaps(shown, store=state_store, slack=slack, log=LOG, **where)

    two = plan(missing("a.csv"), missing(EVIL), targets=("a.csv",))
    assert tell(page(two)) == Delivery(posted=1)
    assert tell(page(two)) == Delivery()
    assert tell(page(plan(missing("a.csv"), targets=("a.csv",)))) == Delivery(posted=1)
    assert tell(page(plan(), "nothing_to_do")) == Delivery()
    assert f"opsguard approve {two.short} --by YOU" in slack_sink.messages[0]["body"]["blocks"][-1]["text"]["text"]

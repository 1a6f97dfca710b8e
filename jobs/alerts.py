"""Alerts: every failed run and every plan with gaps, through the outbox to Slack, else to the log."""

import logging
import re
from typing import Final

import dagster as dg

from assets.known_guards import Names
from assets.launchpad_link import run_link
from assets.plan_alert import plan_alert
from assets.plan_words import PlanPage
from assets.report_run import Tell
from assets.site import Site
from assets.state_resource import State
from resources.slack.client import SlackResource
from resources.slack.message import Message, alert
from resources.slack.outbox import Delivery, deliver, enqueue
from resources.state import StateStore

FAILURES: Final = "failed_runs"
OUTBOX: Final = "alerts_outbox"
LOCATION: Final = "opsguard"
REPOSITORY_TAG: Final = ".dagster/repository"
FLUSH_SECONDS: Final = 60
_WATCH: Final = re.compile(r"[a-z][a-z0-9_]{0,30}/[a-z][a-z0-9_]{0,30}")


def tell_gaps(names: Names, site: Site, *, slack: SlackResource) -> Tell:
    """What a watch's report run calls with its page."""

    def tell(page: PlanPage, store: StateStore, run_id: str, log: logging.Logger) -> None:
        alert_gaps(page, store=store, slack=slack, base_url=site.base_url, run_id=run_id, asset_key=names.path("plan"), log=log)

    return tell


def alert_gaps(
    page: PlanPage,
    *,
    store: StateStore,
    slack: SlackResource,
    base_url: str,
    run_id: str,
    asset_key: list[str],
    log: logging.Logger,
) -> Delivery:
    """Called at the end of a report run: tells once about this plan's gaps, and lets waiting alerts leave.

    Errors: those of the state store. Slack being away is none.
    """
    message = plan_alert(page, base_url=base_url, run_id=run_id, asset_key=asset_key)
    if message is not None:
        enqueue(store.outbox, message)
    return deliver(store.outbox, slack, now=store.now, log=log)


def failure_message(run: dg.DagsterRun, error: str, *, base_url: str) -> Message:
    """`error` may hold anything, names from outside too."""
    plan = run.tags.get("opsguard/plan", "")
    watch = run.tags.get("opsguard/watch", "")
    command = f"opsguard report {watch}" if _WATCH.fullmatch(watch) else "opsguard doctor"
    items = [f"plan {plan}"] if plan else []
    return alert(
        key=f"run:{run.run_id}",
        event_type="opsguard_run_failed",
        title=f"{run.job_name} failed",
        sentence=error.strip() or "The run failed without saying why.",
        items=items,
        command=command,
        links=[("The run", run_link(base_url, run.run_id))],
    )


def alert_sensors(*, slack: SlackResource, base_url: str, running: bool) -> list[dg.SensorDefinition]:
    """Two sensors that need the resource `state`. `running`: whether they start by themselves; else somebody turns them on.

    `slack` is held here and is no Dagster resource: the UI shows the values of resources, and these are secrets.
    """
    status = dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED

    @dg.run_failure_sensor(
        name=FAILURES,
        monitor_all_code_locations=True,  # runs that the command line makes carry no location, only a tag
        default_status=status,
        minimum_interval_seconds=FLUSH_SECONDS,
        description="Tells Slack about every failed run of this code location, once, with a link to it.",
    )
    def failed_runs(context: dg.RunFailureSensorContext, state: State) -> None:
        run = context.dagster_run
        if not _is_ours(run):
            return  # a SkipReason beside another run's reaction breaks the whole tick
        with state.open() as store:
            enqueue(store.outbox, failure_message(run, _cause(context), base_url=base_url))
            done = deliver(store.outbox, slack, now=store.now, log=context.log)
        context.log.info("%s", done.sentence())

    @dg.sensor(
        name=OUTBOX,
        default_status=status,
        minimum_interval_seconds=FLUSH_SECONDS,
        job_name=None,
        description="Posts alerts that are waiting because Slack was away, and looks up those whose answer was lost.",
    )
    def alerts_outbox(context: dg.SensorEvaluationContext, state: State) -> dg.SkipReason:
        with state.open() as store:
            return dg.SkipReason(deliver(store.outbox, slack, now=store.now, log=context.log).sentence())

    return [failed_runs, alerts_outbox]


def _is_ours(run: dg.DagsterRun) -> bool:
    origin = run.remote_job_origin
    if origin is not None:
        return origin.repository_origin.code_location_origin.location_name == LOCATION
    return run.tags.get(REPOSITORY_TAG, "").endswith(f"@{LOCATION}")


def _cause(context: dg.RunFailureSensorContext) -> str:
    """The failing step's own sentence where there is one: the run's event only says which step it was."""
    for event in context.get_step_failure_events():
        failure = event.step_failure_data
        if failure.user_failure_data is not None and failure.user_failure_data.description:
            return failure.user_failure_data.description
        if failure.error is not None:
            cause = failure.error.cause or failure.error
            return re.sub(rf"^[\w.]*{re.escape(cause.cls_name or '')}: ", "", cause.message)
    return context.failure_event.message or ""

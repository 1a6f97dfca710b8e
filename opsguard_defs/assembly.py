"""From settings to everything that Dagster loads: every watch, the decision job and the alerts. It merges; it computes nothing."""

import os
from typing import assert_never

import dagster as dg

from assets.site import Site
from assets.state_resource import StateResource
from guards.plan import SHORT_DIGITS
from guards.refusal import Refused
from jobs.alerts import alert_sensors
from jobs.decisions import decide_plan_job
from jobs.delivery.definitions import delivery_definitions
from jobs.spool.definitions import spool_definitions
from opsguard_defs.settings import DeliveryWatch, Settings, SpoolWatch, Watch
from resources.errors import OpsGuardError
from resources.slack.client import SlackResource
from resources.state import PlanState


def definitions(settings: Settings, *, from_a_form: bool = True) -> dg.Definitions:
    """`from_a_form`: a person launches in the UI, so a form without a name is answered there instead of by a refused run."""
    site = site_of(settings, from_a_form=from_a_form)
    slack = slack_of(settings)
    common = dg.Definitions(
        jobs=[decide_plan_job(approve_in_ui=settings.approve_in_ui)],
        sensors=alert_sensors(slack=slack, base_url=site.base_url, running=site.automation is dg.DefaultSensorStatus.RUNNING),
        resources={"state": state_of(settings), "io_manager": dg.mem_io_manager},
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(common, *(_of_watch(watch, site, slack) for watch in settings.watches))


def _of_watch(watch: Watch, site: Site, slack: SlackResource) -> dg.Definitions:
    match watch:
        case SpoolWatch():
            return spool_definitions(watch.route(), site, slack=slack)
        case DeliveryWatch():
            return delivery_definitions(watch.route(), site, slack=slack)
        case _:
            assert_never(watch)


def state_of(settings: Settings) -> StateResource:
    return StateResource(home=str(settings.home.absolute()), retention_days=settings.retention_days)


def site_of(settings: Settings, *, from_a_form: bool) -> Site:
    running = os.environ.get("OPSGUARD_AUTOMATION") == "running"
    return Site(
        base_url=settings.ui_url,
        approve_in_ui=settings.approve_in_ui,
        lease_seconds=settings.lease_seconds,
        is_approved=(lambda digest: _is_approved(settings, digest)) if from_a_form else None,
        automation=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
    )


def slack_of(settings: Settings) -> SlackResource:
    slack = settings.slack
    return SlackResource(
        token=slack.token.get_secret_value(),
        webhook=slack.webhook.get_secret_value(),
        channel=slack.channel,
        base_url=slack.base_url,
    )


def _is_approved(settings: Settings, digest: str) -> bool:
    """When the state database cannot say, the run does: it asks again before anything is written."""
    try:
        with state_of(settings).open() as store:
            stored = store.find_plan(digest, fewest=SHORT_DIGITS)
    except OpsGuardError:
        return True
    return not isinstance(stored, Refused) and stored.state is PlanState.APPROVED

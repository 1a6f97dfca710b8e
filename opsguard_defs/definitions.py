"""What Dagster loads: every watch of the settings, the decision job and the alerts. It merges; it computes nothing."""

import os

import dagster as dg

from assets.site import Site
from assets.state_resource import StateResource
from jobs.alerts import alert_sensors
from jobs.decisions import decide_plan_job
from jobs.spool.definitions import spool_definitions
from opsguard_defs.settings import Settings, load_settings
from resources.slack.client import SlackResource


def definitions(settings: Settings) -> dg.Definitions:
    site = site_of(settings)
    slack = slack_of(settings)
    common = dg.Definitions(
        jobs=[decide_plan_job(approve_in_ui=settings.approve_in_ui)],
        sensors=alert_sensors(slack=slack, base_url=site.base_url, running=site.automation is dg.DefaultSensorStatus.RUNNING),
        resources={"state": StateResource(home=str(settings.home))},
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(common, *(spool_definitions(watch.route(), site, slack=slack) for watch in settings.watches))


def site_of(settings: Settings) -> Site:
    running = os.environ.get("OPSGUARD_AUTOMATION") == "running"
    return Site(
        base_url=settings.ui_url,
        approve_in_ui=settings.approve_in_ui,
        lease_seconds=settings.lease_seconds,
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


defs = definitions(load_settings())

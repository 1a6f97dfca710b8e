"""Everything of one spool watch. A second partner is one more `[[watch]]` block, and one more call of this."""

import logging

import dagster as dg

from assets.plan_words import PlanPage
from assets.site import Site
from assets.spool import observing_assets, outside_specs, spool_names
from assets.spool_checks import closing_checks
from jobs.alerts import alert_gaps
from jobs.apply.approved_plans import approved_plans_sensor
from jobs.spool.automation import arrival_sensor, nightly_schedule
from jobs.spool.redelivery import delivered_files
from jobs.spool.watch_jobs import redeliver_job, report_job, verify_job
from resources.slack.client import SlackResource
from resources.spool.route import SpoolRoute
from resources.state import StateStore


def spool_definitions(route: SpoolRoute, site: Site, *, slack: SlackResource) -> dg.Definitions:
    names = spool_names(route)

    def tell(page: PlanPage, store: StateStore, run_id: str, log: logging.Logger) -> None:
        alert_gaps(page, store=store, slack=slack, base_url=site.base_url, run_id=run_id, asset_key=names.path("plan"), log=log)

    report = report_job(route)
    return dg.Definitions(
        assets=[*outside_specs(route), observing_assets(route, site, tell=tell), delivered_files(route, site)],
        asset_checks=[closing_checks(route, site)],
        jobs=[report, redeliver_job(route, site), verify_job(route)],
        schedules=[nightly_schedule(route, site, report)],
        sensors=[arrival_sensor(route, site, report), approved_plans_sensor(names, site)],
    )

"""Everything of one spool watch. A second partner is one more `[[watch]]` block, and one more call of this."""

import dagster as dg

from assets.site import Site
from assets.spool import observing_assets, outside_specs, spool_names
from assets.spool_checks import closing_checks
from jobs.alerts import tell_gaps
from jobs.apply.approved_plans import approved_plans_sensor
from jobs.spool.automation import arrival_sensor, nightly_schedule
from jobs.spool.redelivery import delivered_files
from jobs.spool.watch_jobs import redeliver_job, report_job, verify_job
from resources.slack.client import SlackResource
from resources.spool.route import SpoolRoute


def spool_definitions(route: SpoolRoute, site: Site, *, slack: SlackResource) -> dg.Definitions:
    names = spool_names(route)
    report = report_job(route)
    return dg.Definitions(
        assets=[
            *outside_specs(route),
            observing_assets(route, site, tell=tell_gaps(names, site, slack=slack)),
            delivered_files(route, site),
        ],
        asset_checks=[closing_checks(route, site)],
        jobs=[report, redeliver_job(route, site), verify_job(route)],
        schedules=[nightly_schedule(route, site, report)],
        sensors=[arrival_sensor(route, site, report), approved_plans_sensor(names, site)],
    )

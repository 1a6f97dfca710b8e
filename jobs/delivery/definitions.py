"""Everything of one delivery watch. Another registry is one more `[[watch]]` block, and one more call of this."""

import dagster as dg

from assets.delivery import delivery_names, outside_specs
from assets.delivery_observing import observing_assets
from assets.site import Site
from jobs.alerts import tell_gaps
from jobs.apply.approved_plans import approved_plans_sensor
from jobs.delivery.automation import report_schedule, standing_sensor
from jobs.delivery.recovery import expire_sensor, recover_job
from jobs.delivery.sending import sent_asset
from jobs.delivery.watch_jobs import report_job, send_job, verify_job
from resources.delivery.route import DeliveryRoute
from resources.slack.client import SlackResource


def delivery_definitions(route: DeliveryRoute, site: Site, *, slack: SlackResource) -> dg.Definitions:
    names = delivery_names(route)
    report = report_job(route)
    by_standing = [standing_sensor(route)] if route.auto_send else []
    return dg.Definitions(
        assets=[
            *outside_specs(route),
            observing_assets(route, site, tell=tell_gaps(names, site, slack=slack)),
            sent_asset(route, site),
        ],
        jobs=[report, send_job(route, site), recover_job(route), verify_job(route)],
        schedules=[report_schedule(route, site, report)],
        sensors=[expire_sensor(route, site), approved_plans_sensor(names, site), *by_standing],
    )

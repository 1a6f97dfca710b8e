"""What runs by itself, once somebody turns it on: the report every ten minutes, and what standing approvals allow."""

import uuid
from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.delivery import delivery_names
from assets.delivery_report import recorded
from assets.site import Site
from assets.state_resource import State
from guards.delivery.standing import covering
from guards.refusal import Refused
from guards.text import one_line
from resources.delivery.apply import REST, resting
from resources.delivery.ledger import open_ledger
from resources.delivery.plans import delivery_targets
from resources.delivery.report import look
from resources.delivery.route import DeliveryRoute
from resources.delivery.standing import decide_by_standing
from resources.errors import OpsGuardError

EVERY_SECONDS = 60


def report_schedule(route: DeliveryRoute, site: Site, report: Any) -> dg.ScheduleDefinition:
    names = delivery_names(route)
    return dg.ScheduleDefinition(
        name=names.named("every_10_minutes"),
        job=report,
        cron_schedule=route.schedule_cron,
        execution_timezone="UTC",
        default_status=site.schedules,
        description="Reports what is due. It looks and judges, and cannot send.",
        tags={**names.tags, "opsguard/trigger": "schedule"},
    )


def standing_sensor(route: DeliveryRoute) -> dg.SensorDefinition:
    """Exists only with `auto_send = true`. It does what a person would: report, decide exactly that plan, start its apply run."""
    names = delivery_names(route)

    @dg.sensor(
        name=names.named("standing_approvals"),
        job_name=names.apply_job,
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Sends what standing approvals name: plans only that, records the decision in their giver's name, and starts the run.",
    )
    def standing_approvals(context: dg.SensorEvaluationContext, state: State) -> Iterator[dg.RunRequest | dg.SkipReason]:
        policy = route.policy.model_copy(update={"only_standing": True})
        try:
            with state.open() as store:
                live = store.standing.live(route.name)
                if not live:
                    yield dg.SkipReason("no standing approval is live: `opsguard standing allow` gives one")
                    return
                with open_ledger(route, store) as ledger:
                    seen = look(route, store, ledger, policy=policy, asking=False)  # Dagster gives a tick 60 s
                    slots = [target.slot for target in seen.plan.targets]
                    if not covering(live, slots, watch=route.name, now=store.now()):
                        yield dg.SkipReason("nothing is due that a standing approval names")
                        return
                    asked_of = {target.route.provider for target in delivery_targets(seen.plan)}
                    if asked_of <= resting(seen.world):
                        yield dg.SkipReason(
                            f"calls of {', '.join(sorted(asked_of))} went wrong one after another: nothing is started before "
                            f"{REST.seconds // 60} minutes have passed. Look at it, and resolve what is in doubt"
                        )
                        return
                    report = recorded(seen, route, store, ledger, policy=policy, run_id=str(uuid.uuid4()))
                decision = decide_by_standing(route, store, report.stored)
        except OpsGuardError as error:
            yield dg.SkipReason(f"nothing was decided: {one_line(str(error), limit=300)}")
            return
        if isinstance(decision, Refused):
            yield dg.SkipReason(f"{decision.code.value}: {one_line(decision.message, limit=300)}")
            return
        yield dg.RunRequest(
            run_key=f"plan:{report.plan.digest}:{decision.decision_id}",
            run_config={"approved_plan": report.plan.digest, "dry_run": False, "auto_remediate": True},
            tags={**names.tags, "opsguard/plan": report.plan.short, "opsguard/trigger": "standing"},
        )

    return standing_approvals

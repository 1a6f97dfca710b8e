"""The sensor that applies what a person approved."""

from collections.abc import Iterator

import dagster as dg

from assets.known_guards import Names
from assets.site import Site
from assets.state_resource import State
from resources.state import PlanState


def approved_plans_sensor(names: Names, site: Site) -> dg.SensorDefinition:
    """One run per approval: the run key holds its number, since a plan can be approved again later."""

    @dg.sensor(
        name=names.named("approved_plans"),
        job_name=names.apply_job,
        minimum_interval_seconds=60 if site.automation is dg.DefaultSensorStatus.STOPPED else 15,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Starts the apply run of each approved plan. Off unless you want an approval to be the last thing a person does.",
    )
    def approved_plans(context: dg.SensorEvaluationContext, state: State) -> Iterator[dg.RunRequest | dg.SkipReason]:
        with state.open() as store:
            approved = [
                (plan, decision)
                for plan in store.plans(guard=names.guard.name, watch=names.watch, limit=20)
                if plan.state is PlanState.APPROVED and (decision := store.decision(plan.digest)) is not None
            ]
        if not approved:
            yield dg.SkipReason("no approved plan waits to be applied")
        for plan, decision in approved:
            yield dg.RunRequest(
                run_key=f"plan:{plan.digest}:{decision.decision_id}",
                run_config={"approved_plan": plan.digest, "dry_run": False, "auto_remediate": True},
                tags={**names.tags, "opsguard/plan": plan.short, "opsguard/trigger": "approved"},
            )

    return approved_plans

"""What a report of one delivery watch materialises: ledger, registry and plan, in one step over one open ledger. It cannot send."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.check_result import check_result
from assets.config_fields import checked, config_fields
from assets.delivery import delivery_key, delivery_names, spec
from assets.delivery_checks import examine_and_publish, ledger_check_specs, ledger_metadata, ledger_spec
from assets.delivery_days import days_ahead, log_days
from assets.delivery_report import make_report, plan_page
from assets.failing import INCOMPLETE, failing_with_exit_code
from assets.plan_page import decision_check, decision_check_spec, plan_metadata
from assets.report_run import Tell, counted, forget_what_is_old
from assets.site import Site
from assets.state_resource import State
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Registry
from resources.delivery.ledger import open_ledger
from resources.delivery.route import DeliveryRoute
from resources.ledger.interface import Ledger
from resources.progress import watched
from resources.state import StateStore


def observing_assets(route: DeliveryRoute, site: Site, *, tell: Tell) -> dg.AssetsDefinition:
    """The ledger comes first and stands by itself: what it says is kept when no plan can be made. `tell` alerts people about gaps."""
    names = delivery_names(route)
    ledger_key, plan_key = delivery_key(route, "ledger"), delivery_key(route, "plan")

    @dg.multi_asset(
        name=names.named("observe"),
        specs=[
            spec(route, "registry", kinds={"yaml"}, skippable=True),
            ledger_spec(route),
            spec(route, "plan", deps=("due_slots", "ledger"), kinds={"python"}, skippable=True),
        ],
        check_specs=[
            *ledger_check_specs(route),
            decision_check_spec(plan_key),
        ],
        can_subset=True,
        config_schema=config_fields(DeliveryPolicy, route.policy),
        op_tags={"opsguard/guard": "delivery"},
        pool=names.group,
    )
    def observe(context: dg.AssetExecutionContext, state: State) -> Iterator[Any]:
        policy = checked(DeliveryPolicy, context.op_execution_context.op_config)
        wanted = _wanted(context)
        with state.open() as store, failing_with_exit_code(what=INCOMPLETE), open_ledger(route, store) as ledger:
            if ledger_key in wanted:
                yield from _selected(context, _examined(route, store, ledger, run_id=context.run.run_id))
            if wanted - {ledger_key}:
                told = _reported(context, route, site, store, ledger, policy=policy, tell=tell)
                forget_what_is_old(store, state.retention_days, context.run.run_id, context.log)
                yield from _selected(context, told)

    return observe


def _wanted(context: dg.AssetExecutionContext) -> set[dg.AssetKey]:
    """Assets of this run, and those whose checks are."""
    return {*context.selected_asset_keys, *(check.asset_key for check in context.selected_asset_check_keys)}


def _selected(context: dg.AssetExecutionContext, made: Iterator[Any]) -> Iterator[Any]:
    for one in made:
        if isinstance(one, dg.AssetCheckResult):
            assert one.asset_key is not None
            if dg.AssetCheckKey(one.asset_key, str(one.check_name)) in context.selected_asset_check_keys:
                yield one
        elif one.asset_key in context.selected_asset_keys:
            yield one


def _examined(route: DeliveryRoute, store: StateStore, ledger: Ledger, *, run_id: str) -> Iterator[Any]:
    """Reads all of it. Publishes its head in the state store, so that a copy that was cut back is noticed by the next look."""
    key = delivery_key(route, "ledger")
    examined = examine_and_publish(route, store, ledger, run_id=run_id)
    yield dg.MaterializeResult(key, metadata=ledger_metadata(examined.health))
    for outcome in examined.outcomes:
        yield check_result(outcome, key)


def _reported(
    context: dg.AssetExecutionContext,
    route: DeliveryRoute,
    site: Site,
    store: StateStore,
    ledger: Ledger,
    *,
    policy: DeliveryPolicy,
    tell: Tell,
) -> Iterator[Any]:
    report = make_report(route, store, ledger, policy=policy, run_id=context.run.run_id, progress=watched())
    context.log.info("plan %s: %s", report.plan.short, counted(report.plan.counts))
    page = plan_page(report, route=route, site=site, state=store)
    tell(page, store, context.run.run_id, context.log)
    log_days(context.op_execution_context, delivery_key(route, "due_slots"), report, ahead=days_ahead(route.policy))
    registry, plan_key = report.world.registry, delivery_key(route, "plan")
    yield dg.MaterializeResult(
        delivery_key(route, "registry"),
        metadata=_registry_metadata(registry),
        data_version=dg.DataVersion(registry.digest),
    )
    yield dg.MaterializeResult(plan_key, metadata=plan_metadata(page), data_version=dg.DataVersion(report.plan.digest))
    yield decision_check(page, asset_key=plan_key.path)


def _registry_metadata(registry: Registry) -> dict[str, Any]:
    customers = registry.customers.values()
    return {
        "registry_digest": registry.digest,
        "zone": registry.zone,
        "customers": len(registry.customers),
        "customers_enabled": sum(customer.enabled for customer in customers),
        "rules": sum(len(customer.rules) for customer in customers if customer.enabled),
    }

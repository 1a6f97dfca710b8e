"""The jobs of one delivery watch: report (cannot send), send (what was approved), recover (never sends), verify (the checks alone)."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.config_fields import checked, config_fields
from assets.delivery import delivery_key, delivery_names
from assets.site import Site
from guards.delivery.policy import DeliveryPolicy
from jobs.apply.config import apply_mapping
from jobs.delivery.sending import graph_name
from resources.delivery.route import DeliveryRoute


def report_job(route: DeliveryRoute) -> Any:
    """Config: another policy for this run."""
    names = delivery_names(route)

    def config_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
        policy = checked(DeliveryPolicy, values)
        return {"ops": {names.named("observe"): {"config": policy.model_dump(mode="json")}}}

    return dg.define_asset_job(
        name=names.named("report"),
        selection=dg.AssetSelection.assets(*(delivery_key(route, thing) for thing in ("registry", "ledger", "plan"))),
        description="Project what is owed, read the ledger, judge every slot, and record a plan. Cannot send.",
        config=dg.ConfigMapping(config_schema=config_fields(DeliveryPolicy, route.policy), config_fn=config_of),
        tags=names.tags,
    )


def send_job(route: DeliveryRoute, site: Site) -> Any:
    names = delivery_names(route)
    return dg.define_asset_job(
        name=names.apply_job,
        selection=dg.AssetSelection.assets(delivery_key(route, "sent")),
        description="Send the messages of one approved plan, each at most once. With its defaults it is a dry run.",
        config=apply_mapping(graph_name(route), site),
        tags=names.tags,
    )


def verify_job(route: DeliveryRoute) -> Any:
    names = delivery_names(route)
    return dg.define_asset_job(
        name=names.named("verify"),
        selection=dg.AssetSelection.assets(delivery_key(route, "ledger")),
        description="Read the whole ledger again and evaluate its six checks. Cannot send.",
        tags=names.tags,
    )

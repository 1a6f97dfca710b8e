"""The three jobs of one spool watch: report (cannot write), redeliver (writes what was approved), verify (checks alone)."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.config_fields import checked, config_fields
from assets.site import Site
from assets.spool import LISTINGS, spool_key, spool_names
from assets.spool_checks import CHECKS
from guards.spool.policy import SpoolPolicy
from jobs.apply.config import apply_mapping
from jobs.spool.redelivery import graph_name
from resources.spool.route import SpoolRoute


def report_job(route: SpoolRoute) -> Any:
    """Config: another policy for this run. Evaluates the checks of the observing assets, never the written assets' closing checks."""

    def config_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
        policy = checked(SpoolPolicy, values)
        return {"ops": {spool_names(route).named("observe"): {"config": policy.model_dump(mode="json")}}}

    return dg.define_asset_job(
        name=spool_names(route).named("report"),
        selection=dg.AssetSelection.assets(*(spool_key(route, thing) for thing in (*LISTINGS, "plan"))),
        description="Look at the spool, the archive and the partner's inbox, judge every entry, and record a plan. Cannot write.",
        config=dg.ConfigMapping(config_schema=config_fields(SpoolPolicy, route.policy), config_fn=config_of),
        tags=spool_names(route).tags,
    )


def redeliver_job(route: SpoolRoute, site: Site) -> Any:
    return dg.define_asset_job(
        name=spool_names(route).apply_job,
        selection=dg.AssetSelection.assets(spool_key(route, "delivered_files")),
        description="Re-send the feeds of one approved plan, prove the partner's bytes, archive the sources. "
        "With its defaults it is a dry run.",
        config=apply_mapping(graph_name(route), site),
        tags=spool_names(route).tags,
    )


def verify_job(route: SpoolRoute) -> Any:
    key = spool_key(route, "delivered_files")
    return dg.define_asset_job(
        name=spool_names(route).named("verify"),
        selection=dg.AssetSelection.checks(*(dg.AssetCheckKey(key, name) for name in CHECKS)),
        description="The closing checks of the latest redelivery, on fresh observations. Cannot write.",
        tags=spool_names(route).tags,
    )

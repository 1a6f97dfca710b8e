"""The graph behind `delivered_files`: authorise, send, prove the partner's bytes, archive. Refused runs are green and write nothing."""

from functools import partial
from typing import Any

import dagster as dg

from assets.site import Site
from assets.spool import DESCRIPTIONS, spool_key, spool_names
from jobs.apply.authorise import authorise_op
from jobs.spool.ops import archive_op, prove_op, send_op
from jobs.spool.request import applying
from resources.spool.route import SpoolRoute


def graph_name(route: SpoolRoute) -> str:
    return spool_names(route).named("redelivery")


def delivered_files(route: SpoolRoute, site: Site) -> dg.AssetsDefinition:
    """One optional output: a refused write does not materialise it, so the asset's health keeps its last verdict."""
    key = spool_key(route, "delivered_files")
    authorise = authorise_op(spool_names(route), site, partial(applying, route=route, site=site)).alias("authorise")
    send_feeds = send_op(route, site).alias("send_feeds")
    partner_bytes_match = prove_op(route).alias("partner_bytes_match")
    archive_sources = archive_op(route, site).alias("archive_sources")

    @dg.graph_multi_asset(
        name=graph_name(route),
        group_name=spool_names(route).group,
        outs={
            "delivered_files": dg.AssetOut(
                key=key,
                is_required=False,
                description=DESCRIPTIONS["delivered_files"],
                owners=list(route.owners),
                kinds={route.partner.scheme},
            )
        },
        ins={"plan": dg.AssetIn(spool_key(route, "plan"), dagster_type=dg.Nothing)},
        check_specs=[
            dg.AssetCheckSpec(
                "partner_bytes_match", asset=key, blocking=True, description="The partner holds exactly the planned bytes."
            )
        ],
    )
    def redelivery(plan: Any) -> dict[str, Any]:
        sent = send_feeds(authorise(plan=plan))
        matched = partner_bytes_match(sent)
        return {
            "delivered_files": archive_sources(sent=sent, proven=matched),
            f"{key.to_python_identifier()}_partner_bytes_match": matched,
        }

    return redelivery

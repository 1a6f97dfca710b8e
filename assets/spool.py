"""The assets of one spool watch, from the producer's hand-off to the partner's inbox.

    handoff -> outbound_listing \
               archive_listing   > plan -> decision
               partner_listing  /     `-> delivered_files -> partner_inbox

The three listings and the plan are one observation: they are materialised together or not at all, so a plan never mixes two moments.
"""

from collections.abc import Iterator
from typing import Any, Final

import dagster as dg

from assets.check_result import check_result
from assets.config_fields import checked, config_fields
from assets.failing import INCOMPLETE, failing_with_exit_code
from assets.known_guards import SPOOL, Names
from assets.plan_page import decision_check, decision_check_spec, plan_metadata
from assets.report_run import Tell, counted, forget_what_is_old
from assets.site import Site
from assets.spool_report import SpoolReport, make_report, plan_page
from assets.state_resource import State
from guards.spool import checks
from guards.spool.listing import Listing
from guards.spool.policy import SpoolPolicy
from resources.progress import watched
from resources.spool.route import SpoolRoute

LISTINGS: Final = ("outbound_listing", "archive_listing", "partner_listing")
DESCRIPTIONS: Final = {
    "handoff": "What the producer's job drops into the outbound spool. It is not ours: the lineage starts where the data does.",
    "outbound_listing": "What the outbound spool holds, read only.",
    "archive_listing": "What the spool's archive holds: a feed in here was delivered and is never sent again.",
    "partner_listing": "What the partner's inbox really holds, read only. It is the authority: a hand-off job's success is no evidence.",
    "plan": "Which feeds the partner is not proven to have, why, and what OpsGuard would send.\n\n"
    "Read *report*, then follow *approve*. Nothing is sent without an approval of exactly this plan.",
    "decision": "The latest answer of a person to a plan, and what came of it.",
    "delivered_files": "Feeds re-sent under an approved plan, proven byte for byte at the partner and archived, with receipts.",
    "partner_inbox": "The partner's own inbox. It is not ours: the lineage ends where the data does.",
}


def spool_names(route: SpoolRoute) -> Names:
    return Names(SPOOL, route.name)


def spool_key(route: SpoolRoute, thing: str) -> dg.AssetKey:
    return dg.AssetKey(spool_names(route).path(thing))


def spec(route: SpoolRoute, thing: str, *, deps: tuple[str, ...] = (), kinds: set[str], **more: Any) -> dg.AssetSpec:
    return dg.AssetSpec(
        spool_key(route, thing),
        deps=[spool_key(route, dep) for dep in deps],
        description=DESCRIPTIONS[thing],
        group_name=spool_names(route).group,
        owners=list(route.owners),
        kinds=kinds,
        **more,
    )


def outside_specs(route: SpoolRoute) -> list[dg.AssetSpec]:
    """What is not ours, and the decision that people make: nodes without a button."""
    return [
        spec(route, "handoff", kinds={route.source.scheme}),
        spec(route, "decision", deps=("plan",), kinds={"python"}),
        spec(route, "partner_inbox", deps=("delivered_files",), kinds={route.partner.scheme}),
    ]


def observing_assets(route: SpoolRoute, site: Site, *, tell: Tell) -> dg.AssetsDefinition:
    """The three listings and the plan, from one look at both servers. Cannot write to either. `tell` alerts people about gaps."""
    source: set[str] = {route.source.scheme}
    partner: set[str] = {route.partner.scheme}

    @dg.multi_asset(
        name=spool_names(route).named("observe"),
        specs=[
            spec(route, "outbound_listing", deps=("handoff",), kinds=source),
            spec(route, "archive_listing", kinds=source),
            spec(route, "partner_listing", kinds=partner),
            spec(route, "plan", deps=LISTINGS, kinds={"python"}),
        ],
        check_specs=[
            *(
                dg.AssetCheckSpec("complete", asset=spool_key(route, thing), description="The whole directory was seen.")
                for thing in LISTINGS
            ),
            decision_check_spec(spool_key(route, "plan")),
        ],
        config_schema=config_fields(SpoolPolicy, route.policy),
        op_tags={"opsguard/guard": "spool"},
        pool=spool_names(route).group,
    )
    def observe(context: dg.AssetExecutionContext, state: State) -> Iterator[Any]:
        policy = checked(SpoolPolicy, context.op_execution_context.op_config)
        with state.open() as store:
            with failing_with_exit_code(what=INCOMPLETE):
                report = make_report(route, store, policy=policy, run_id=context.run.run_id, progress=watched())
            context.log.info("plan %s: %s", report.plan.short, counted(report.plan.counts))
            page = plan_page(report, route=route, site=site, state=store)
            tell(page, store, context.run.run_id, context.log)
            forget_what_is_old(store, state.retention_days, context.run.run_id, context.log)
        for thing, listing in zip(LISTINGS, _listings(report), strict=True):
            yield dg.MaterializeResult(spool_key(route, thing), metadata=_listing_metadata(listing))
            yield check_result(checks.complete(listing), spool_key(route, thing))
        yield dg.MaterializeResult(
            spool_key(route, "plan"), metadata=plan_metadata(page), data_version=dg.DataVersion(report.plan.digest)
        )
        yield decision_check(page, asset_key=spool_key(route, "plan").path)

    return observe


def _listings(report: SpoolReport) -> tuple[Listing, Listing, Listing]:
    return report.world.outbound, report.world.archive, report.world.partner


def _listing_metadata(listing: Listing) -> dict[str, Any]:
    return {
        "entries": len(listing),
        "bytes": sum(entry.size_bytes or 0 for entry in listing),
        "complete": listing.is_complete,
        "directory": listing.directory,
    }

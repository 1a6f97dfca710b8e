"""The graph behind `delivered_files`: authorise, send, prove the partner's bytes, archive. Refused runs are green and write nothing.

Only digests and names travel between the ops; each op that writes asks the gate by itself.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dagster as dg

from assets.plan_page import decision_evaluation, receipts_markdown
from assets.site import Site
from assets.spool import DESCRIPTIONS, group_of, spool_key
from assets.spool_checks import check_result
from assets.spool_report import make_report, plan_page
from assets.state_resource import StateResource
from guards.decision import DecisionKind
from guards.gate import Flags
from guards.plan import SHORT_DIGITS
from guards.refusal import RefusalCode, Refused
from guards.spool.policy import SpoolPolicy
from jobs.spool.config import RedeliverConfig
from jobs.spool.decision_log import decision_logged
from jobs.spool.outcomes import failing_with_exit_code, proven, sent_json, what_was_done
from resources.errors import ConfigurationError
from resources.progress import watched
from resources.spool.apply import SpoolApply
from resources.spool.prove_delivered import prove_delivered
from resources.spool.route import SpoolRoute
from resources.spool.sent import ArchiveOutcome
from resources.state import StateStore


def graph_name(route: SpoolRoute) -> str:
    return f"spool_{route.name}_redelivery"


def delivered_files(route: SpoolRoute, site: Site) -> dg.AssetsDefinition:
    key = spool_key(route, "delivered_files")

    def applying(context: dg.OpExecutionContext, store: StateStore, request: dict[str, Any]) -> SpoolApply | Refused:
        stored = store.find_plan(request["plan"], fewest=SHORT_DIGITS)
        if isinstance(stored, Refused):
            return stored
        if (stored.guard, stored.watch) != ("spool", route.name):
            return wrong_watch(stored.short, f"{stored.guard}/{stored.watch}", route)
        return SpoolApply(
            route,
            store,
            stored,
            flags=Flags(dry_run=request["dry_run"], auto_remediate=request["auto_remediate"]),
            run_id=context.run_id,
            lease_seconds=site.lease_seconds,
            progress=watched(),
        )

    @dg.op(
        name="authorise",
        out={"request": dg.Out(is_required=False)},
        ins={"plan": dg.In(dg.Nothing)},
        description="Records the decision in the config, if there is one, and refuses what can be refused before any server is asked.",
    )
    def authorise(context: dg.OpExecutionContext, config: RedeliverConfig, state: StateResource) -> Iterator[Any]:
        request = {"plan": config.approved_plan, "dry_run": config.dry_run, "auto_remediate": config.auto_remediate}
        with state.open() as store:
            refused = _decided(context, config, store, route=route, site=site)
            if refused is None:
                apply = applying(context, store, request)
                refused = apply if isinstance(apply, Refused) else apply.precheck()
            if refused is not None:
                decision_logged(context, route, refused=refused, digest=config.approved_plan)
                return
        yield dg.Output(request, "request")

    @dg.op(
        name="send_feeds",
        out={"sent": dg.Out(is_required=False)},
        tags={"opsguard/guard": "spool"},
        description="Observes afresh, asks the gate, and sends each target: upload, prove, rename, observe. No retries.",
    )
    def send_feeds(context: dg.OpExecutionContext, request: dict[str, Any], state: StateResource) -> Iterator[Any]:
        with state.open() as store, failing_with_exit_code():
            apply = applying(context, store, request)
            sent = apply if isinstance(apply, Refused) else apply.send()
            if isinstance(sent, Refused):
                decision_logged(context, route, refused=sent, digest=request["plan"])
                return
        for one in sent:
            context.log.info("%s: %s. %s", ascii(one.name), one.outcome.value, one.message)
        yield dg.Output({**request, "sent": [sent_json(one) for one in sent]}, "sent", metadata={"feeds": len(sent)})

    @dg.op(
        name="partner_bytes_match",
        out=dg.Out(is_required=False),
        description="On fresh connections: the partner holds exactly the planned bytes. Blocks archiving.",
    )
    def partner_bytes_match(context: dg.OpExecutionContext, sent: dict[str, Any], state: StateResource) -> Iterator[Any]:
        with state.open() as store, failing_with_exit_code():
            outcome = prove_delivered(route, store, plan=sent["plan"], names=proven(sent))
        yield check_result(outcome, key)

    @dg.op(
        name="archive_sources",
        out={"delivered": dg.Out(is_required=False)},
        ins={"proven": dg.In(dg.Nothing)},
        tags={"opsguard/guard": "spool"},
        description="Asks the gate again, and moves each source whose bytes are proven into the archive.",
    )
    def archive_sources(context: dg.OpExecutionContext, sent: dict[str, Any], state: StateResource) -> Iterator[Any]:
        with state.open() as store, failing_with_exit_code():
            apply = applying(context, store, sent)
            if isinstance(apply, Refused):
                raise dg.Failure(apply.message)
            archived = apply.archive({*proven(sent), *apply.archive_only()})
            if isinstance(archived, Refused):
                raise dg.Failure(
                    f"delivered and proven, but not archived ({archived.code.value}): {archived.message}",
                    metadata={"exit_code": 4},
                    allow_retries=False,
                )
            receipts = [one for one in store.receipts(plan_digest=apply.plan.digest) if one.run_id == context.run_id]
            done = what_was_done(sent, sum(1 for one in archived if one.outcome is ArchiveOutcome.ARCHIVED))
            decision_logged(context, route, digest=apply.plan.digest, done=done, receipts=receipts)
            _report_again(context, store, done=done)
        yield dg.Output(
            None,
            "delivered",
            metadata={
                "receipts": dg.MetadataValue.md(receipts_markdown(receipts, base_url=site.base_url)),
                "plan_digest": apply.plan.short,
                "files_sent": sum(1 for one in receipts if one.action == "send"),
                "bytes_sent": sum(one.size_bytes for one in receipts if one.action == "send"),
                "files_archived": sum(1 for one in receipts if one.action == "archive"),
                "approved_by": receipts[0].approved_by if receipts else "",
            },
        )

    def _report_again(context: dg.OpExecutionContext, store: StateStore, *, done: str) -> None:
        """The plan's own check must stop saying what it said before the repair, else the graph keeps a stale warning."""
        report = make_report(route, store, policy=route.policy, run_id=context.run_id)
        page = plan_page(report, route=route, site=site, state=store, done=done)
        context.log_event(decision_evaluation(page, asset_key=spool_key(route, "plan").path))

    @dg.graph_multi_asset(
        name=graph_name(route),
        outs={
            "delivered_files": dg.AssetOut(
                key=key,
                is_required=False,
                description=DESCRIPTIONS["delivered_files"],
                group_name=group_of(route),
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


def _decided(
    context: dg.OpExecutionContext, config: RedeliverConfig, store: StateStore, *, route: SpoolRoute, site: Site
) -> Refused | None:
    """`approved_plan` with `approved_by` in the config of a launch is a decision, and is recorded as one. Nothing is recorded in a dry run."""
    if config.dry_run:
        return Refused(RefusalCode.DRY_RUN, "dry_run is on: nothing was written")
    if not config.auto_remediate:
        return Refused(RefusalCode.REMEDIATION_DISABLED, "auto_remediate is off: nothing was written")
    stored = store.find_plan(config.approved_plan, fewest=SHORT_DIGITS)
    if isinstance(stored, Refused):
        return stored
    if (stored.guard, stored.watch) != ("spool", route.name):
        return wrong_watch(stored.short, f"{stored.guard}/{stored.watch}", route)
    if not config.approved_by:
        return None
    if not site.approve_in_ui:
        return Refused(
            RefusalCode.NOT_APPROVED,
            f"decisions are accepted from the command line only: `opsguard approve {stored.short} --by YOU`",
        )
    minutes = SpoolPolicy.model_validate(dict(stored.policy)).approval_timeout_minutes
    try:
        decision = store.decide(
            stored.digest,
            kind=DecisionKind.APPROVED,
            by=config.approved_by,
            comment=config.approval_comment,
            valid_for=timedelta(minutes=minutes),
            channel="run_config",
            run_id=context.run_id,
        )
    except ConfigurationError as error:
        return Refused(RefusalCode.NOT_APPROVED, str(error))
    return decision if isinstance(decision, Refused) else None


def wrong_watch(short: str, found: str, route: SpoolRoute) -> Refused:
    return Refused(RefusalCode.NOT_APPROVED, f"plan {short} is for {found}, not for spool/{route.name}: apply it there")

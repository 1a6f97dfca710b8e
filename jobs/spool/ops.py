"""The ops of one redelivery after the first. Only digests and names travel between them; each op that writes asks the gate by itself.

An op's own name carries the watch, since names are global in a code location; in the graph it is shown under its plain name.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from assets.check_result import check_result
from assets.failing import failing_with_exit_code
from assets.plan_page import decision_evaluation, receipts_in_place, receipts_markdown
from assets.site import Site
from assets.spool import spool_key, spool_names
from assets.spool_report import make_report, plan_page
from assets.state_resource import State
from guards.receipt import Receipt
from guards.refusal import Refused
from jobs.apply.decision_log import decision_logged
from jobs.spool.outcomes import in_doubt, proven, sent_json, what_was_done
from jobs.spool.request import applying
from resources.errors import Unproven
from resources.spool.prove_delivered import prove_delivered
from resources.spool.route import SpoolRoute
from resources.spool.sent import ArchiveOutcome
from resources.state import StateStore


def send_op(route: SpoolRoute, site: Site) -> dg.OpDefinition:
    @dg.op(
        name=spool_names(route).named("send_feeds"),
        out={"sent": dg.Out(is_required=False)},
        tags={"opsguard/guard": "spool"},
        description="Observes afresh, asks the gate, and sends each target: upload, prove, rename, observe. No retries.",
    )
    def send_feeds(context: dg.OpExecutionContext, request: dict[str, Any], state: State) -> Iterator[Any]:
        with state.open() as store, failing_with_exit_code():
            apply = applying(context, store, request, route=route, site=site)
            sent = apply if isinstance(apply, Refused) else apply.send()
            if isinstance(sent, Refused):
                decision_logged(context, spool_names(route), refused=sent, digest=request["plan"])
                return
        for one in sent:
            context.log.info("%s: %s. %s", ascii(one.name), one.outcome.value, one.message)
        yield dg.Output({**request, "sent": [sent_json(one) for one in sent]}, "sent", metadata={"feeds": len(sent)})

    return send_feeds


def prove_op(route: SpoolRoute) -> dg.OpDefinition:
    @dg.op(
        name=spool_names(route).named("partner_bytes_match"),
        out=dg.Out(is_required=False),
        description="On fresh connections: the partner holds exactly the planned bytes. Blocks archiving.",
    )
    def partner_bytes_match(sent: dict[str, Any], state: State) -> Iterator[Any]:
        with state.open() as store, failing_with_exit_code():
            outcome = prove_delivered(route, store, plan=sent["plan"], names=proven(sent))
        yield check_result(outcome, spool_key(route, "delivered_files"))

    return partner_bytes_match


def archive_op(route: SpoolRoute, site: Site) -> dg.OpDefinition:
    @dg.op(
        name=spool_names(route).named("archive_sources"),
        out={"delivered": dg.Out(is_required=False)},
        ins={"proven": dg.In(dg.Nothing)},
        tags={"opsguard/guard": "spool"},
        description="Asks the gate again, and moves each source whose bytes are proven into the archive.",
    )
    def archive_sources(context: dg.OpExecutionContext, sent: dict[str, Any], state: State) -> Iterator[Any]:
        with state.open() as store, failing_with_exit_code():
            apply = applying(context, store, sent, route=route, site=site)
            if isinstance(apply, Refused):
                raise Unproven(f"delivered and proven, but not archived: {apply.message}")
            archived = apply.archive()
            if isinstance(archived, Refused):
                raise Unproven(f"delivered and proven, but not archived: {archived.message}")
            receipts = [one for one in store.receipts(plan_digest=apply.plan.digest) if one.run_id == context.run_id]
            done = what_was_done(sent, sum(1 for one in archived if one.outcome is ArchiveOutcome.ARCHIVED))
            decision_logged(context, spool_names(route), digest=apply.plan.digest, done=done, receipts=receipts)
            _report_again(context, store, route=route, site=site, done=done)
        yield dg.Output(None, "delivered", metadata=_written(receipts, plan=apply.plan.short, base_url=site.base_url))
        with failing_with_exit_code():
            if doubt := in_doubt(sent):
                raise Unproven(doubt)

    return archive_sources


def _report_again(context: dg.OpExecutionContext, store: StateStore, *, route: SpoolRoute, site: Site, done: str) -> None:
    """The plan's own check must stop saying what it said before the repair, else the graph keeps a stale warning."""
    report = make_report(route, store, policy=route.policy, run_id=context.run_id)
    page = plan_page(report, route=route, site=site, state=store, done=done)
    context.log_event(decision_evaluation(page, asset_key=spool_key(route, "plan").path))


def _written(receipts: list[Receipt], *, plan: str, base_url: str) -> dict[str, Any]:
    sent = [one for one in receipts if one.action == "send"]
    return {
        "written": dg.MetadataValue.md(receipts_in_place(receipts)),
        "plan_digest": plan,
        "files_sent": len(sent),
        "bytes_sent": sum(one.size_bytes for one in sent),
        "files_archived": sum(1 for one in receipts if one.action == "archive"),
        "approved_by": receipts[0].approved_by if receipts else "",
        "receipts": dg.MetadataValue.md(receipts_markdown(receipts, base_url=base_url)),
    }

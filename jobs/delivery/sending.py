"""The graph behind `sent`: authorise, then reserve, grant, call and settle each message in one op. Refused runs are green and send nothing."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import dagster as dg

from assets.delivery import DESCRIPTIONS, delivery_key, delivery_names
from assets.delivery_checks import examine_and_publish, log_ledger
from assets.delivery_days import days_ahead, log_days
from assets.delivery_report import make_report, plan_page
from assets.failing import failing_with_exit_code
from assets.plan_page import decision_evaluation, receipts_in_place, receipts_markdown
from assets.site import Site
from assets.state_resource import State
from guards.check import CheckOutcome, Severity
from guards.receipt import Receipt
from guards.refusal import Refused
from jobs.apply.authorise import authorise_op
from jobs.apply.decision_log import decision_logged
from jobs.apply.request import Request, flags_of, plan_of_watch
from jobs.delivery.asked import Asked
from jobs.delivery.outcomes import in_doubt, not_sent, outcomes_table, what_was_done
from resources.delivery.apply import DeliveryApply
from resources.delivery.ledger import open_ledger
from resources.delivery.route import DeliveryRoute
from resources.delivery.sent import Sent
from resources.delivery.steps import Watcher, nobody
from resources.errors import Unproven
from resources.ledger.interface import Ledger
from resources.progress import watched
from resources.state import StateStore


def graph_name(route: DeliveryRoute) -> str:
    return delivery_names(route).named("sending")


def applying(
    context: dg.OpExecutionContext,
    store: StateStore,
    request: Request,
    *,
    route: DeliveryRoute,
    site: Site,
    watcher: Watcher = nobody,
) -> DeliveryApply | Refused:
    """The plan that the request names, ready to be sent by this run; a refusal when it is none of this watch's."""
    stored = plan_of_watch(store, request["plan"], delivery_names(route))
    if isinstance(stored, Refused):
        return stored
    return DeliveryApply(
        route,
        store,
        stored,
        flags=flags_of(request),
        run_id=context.run_id,
        lease_seconds=site.lease_seconds,
        watcher=watcher,
        progress=watched(),
    )


def provider_kinds(route: DeliveryRoute) -> set[str]:
    """By which ways messages leave: shown on the asset, which has room for three."""
    providers = route.providers
    named = {
        "slack": providers.slack,
        "email": providers.smtp,
        "webhook": providers.webhooks,
        "file": providers.file_provider_dir,
    }
    return set([name for name, value in named.items() if value][:3]) or {"python"}


def send_op(route: DeliveryRoute, site: Site) -> dg.OpDefinition:
    """Without a retry policy, and one op for reservation, grant, call and settlement: a run that ends in the middle leaves `sending`."""
    names = delivery_names(route)

    @dg.op(
        name=names.named("send_messages"),
        out={"sent": dg.Out(is_required=False)},
        tags={"opsguard/guard": "delivery"},
        description="Observes afresh, asks the gate, and for each target: reserve, grant, call the provider once, settle. No retries.",
    )
    def send_messages(context: dg.OpExecutionContext, request: dict[str, Any], state: State) -> Iterator[Any]:
        asked = Asked()
        with state.open() as store, failing_with_exit_code(), asked.proving_nothing_by_errors(), ExitStack() as opened:
            apply = applying(context, store, Request(**request), route=route, site=site, watcher=asked)
            refused = apply if isinstance(apply, Refused) else apply.precheck()
            if isinstance(apply, Refused) or refused is not None:
                decision_logged(context, names, refused=refused, digest=request["plan"])
                return
            ledger = opened.enter_context(open_ledger(route, store))
            sent = apply.send(ledger)
            if isinstance(sent, Refused):
                decision_logged(context, names, refused=sent, digest=request["plan"])
                return
            receipts = [one for one in store.receipts(plan_digest=apply.plan.digest) if one.run_id == context.run_id]
            done = what_was_done(sent)
            decision_logged(context, names, digest=request["plan"], done=done, receipts=receipts, not_sent=not_sent(sent))
            if in_doubt(sent):  # what this handle still holds ends with it, and what it could not write is read again
                opened.close()
                ledger = opened.enter_context(open_ledger(route, store))
            failed = _look_again(context, store, ledger, route=route, site=site, done=done)
        if any(one.outcome.called for one in sent):
            yield dg.Output(None, "sent", metadata=_written(sent, receipts, base_url=site.base_url))
        with failing_with_exit_code():
            if doubt := in_doubt(sent):
                raise Unproven(doubt)
            if failed:
                raise Unproven(f"sent, and then a check failed: {failed[0].message}")

    return send_messages


def sent_asset(route: DeliveryRoute, site: Site) -> dg.AssetsDefinition:
    """One optional output: a run that was refused, or called nobody, does not materialise it."""
    names = delivery_names(route)
    authorise = authorise_op(names, site, partial(applying, route=route, site=site)).alias("authorise")
    send_messages = send_op(route, site).alias("send_messages")

    @dg.graph_multi_asset(
        name=graph_name(route),
        group_name=names.group,
        outs={
            "sent": dg.AssetOut(
                key=delivery_key(route, "sent"),
                is_required=False,
                description=DESCRIPTIONS["sent"],
                owners=list(route.owners),
                kinds=provider_kinds(route),
            )
        },
        ins={"plan": dg.AssetIn(delivery_key(route, "plan"), dagster_type=dg.Nothing)},
    )
    def sending(plan: Any) -> dict[str, Any]:
        return {"sent": send_messages(authorise(plan=plan))}

    return sending


def _look_again(
    context: dg.OpExecutionContext, store: StateStore, ledger: Ledger, *, route: DeliveryRoute, site: Site, done: str
) -> list[CheckOutcome]:
    """Ledger, days and the plan's own check must stop saying what they said before. Returns the checks that failed."""
    examined = examine_and_publish(route, store, ledger, run_id=context.run_id)
    log_ledger(context, route, examined)
    report = make_report(route, store, ledger, policy=route.policy, run_id=context.run_id)
    log_days(context, delivery_key(route, "due_slots"), report, ahead=days_ahead(route.policy))
    page = plan_page(report, route=route, site=site, state=store, done=done)
    context.log_event(decision_evaluation(page, asset_key=delivery_key(route, "plan").path))
    return [one for one in examined.outcomes if not one.passed and one.severity is Severity.ERROR]


def _written(sent: Sequence[Sent], receipts: list[Receipt], *, base_url: str) -> dict[str, Any]:
    ours = [one for one in receipts if one.action == "send"]
    return {
        "written": dg.MetadataValue.md(receipts_in_place(receipts)),
        "messages": outcomes_table(sent),
        "messages_sent": len(ours),
        "messages_in_doubt": sum(one.outcome.value == "unknown" for one in sent),
        "bytes_sent": sum(one.size_bytes for one in ours),
        "approved_by": receipts[0].approved_by if receipts else "",
        "receipts": dg.MetadataValue.md(receipts_markdown(receipts, base_url=base_url)),
    }

"""Ending what a dead run left in the middle, and asking providers about what is in doubt: a job of its own, and the sensor that asks for it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import dagster as dg

from assets.delivery import delivery_key, delivery_names
from assets.delivery_checks import ledger_metadata
from assets.failing import failing_with_exit_code
from assets.site import Site
from assets.state_resource import State
from guards.canonical import digest
from guards.text import count_words, one_line
from jobs.delivery.last_tick import Tick, parse_tick, tick_of
from resources.delivery.audit import look_once_more
from resources.delivery.ledger import ledger_mark, open_ledger
from resources.delivery.recover import recover
from resources.delivery.route import DeliveryRoute
from resources.errors import OpsGuardError
from resources.providers.chosen import open_providers
from resources.state import StateStore

EVERY_SECONDS: Final = 60
RECOVER: Final = "recover"
"""The sensor names the job instead of holding it: holding makes Dagster copy the sensor, with a warning on stderr at every load."""


def recover_job(route: DeliveryRoute) -> dg.JobDefinition:
    names = delivery_names(route)

    @dg.op(
        name=names.named("recover_messages"),
        tags={"opsguard/guard": "delivery"},
        description="Ends attempts whose run is gone, settles as sent what a provider shows, and looks once more at what was sent. Never sends.",
    )
    def recover_messages(context: dg.OpExecutionContext, state: State) -> None:
        with state.open() as store, failing_with_exit_code(), open_ledger(route, store) as ledger:
            providers = open_providers(route.providers)
            done = (*recover(route, store, ledger, providers), *look_once_more(route, ledger, providers))
            health = ledger.health()
        for one in done:
            context.log.info("%s: %s. %s", one.slot.key, one.what.value, one_line(one.message, limit=400))
        if any(one.changed for one in done):
            context.log_event(
                dg.AssetMaterialization(
                    delivery_key(route, "ledger"),
                    description=f"{count_words(len(done), 'message')} looked at by recovery",
                    metadata=ledger_metadata(health),
                )
            )

    @dg.graph(name=names.named("recovery"))
    def recovery() -> None:
        recover_messages.alias("recover_messages")()

    return recovery.to_job(
        name=names.named(RECOVER),
        description="End what a dead run left in the middle of its call, and ask the providers about what is in doubt. Never sends.",
        tags=names.tags,
        executor_def=dg.in_process_executor,
    )


def expire_sensor(route: DeliveryRoute, site: Site) -> dg.SensorDefinition:
    """One run per set of messages left in the middle; and at most one an hour while something is in doubt (a provider may show it later),
    or after something was sent (it is looked at once more)."""
    names = delivery_names(route)

    @dg.sensor(
        name=names.named("expire"),
        job_name=names.named(RECOVER),
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=site.automation,
        description="Asks for one recovery run when a dead run left messages in the middle of their calls, some are in doubt, or some were "
        "sent and not looked at since. Never sends.",
    )
    def expire(context: dg.SensorEvaluationContext, state: State) -> Iterator[dg.RunRequest | dg.SkipReason]:
        last = parse_tick(context.cursor)
        try:
            with state.open() as store:
                tick, stale = seen_now(route, store, last)
                hour = f"{store.now():%Y-%m-%dT%H}"
        except OpsGuardError as error:
            yield dg.SkipReason(f"the ledger could not be read: {one_line(str(error), limit=300)}")
            return
        is_new = tick.sequence != tick.asked_at and hour != tick.asked_in
        if stale:
            yield dg.RunRequest(run_key=f"stale:{stale}", tags={**names.tags, "opsguard/trigger": "expire"})
        elif tick.doubtful:
            yield dg.RunRequest(run_key=f"doubt:{hour}", tags={**names.tags, "opsguard/trigger": "doubt"})
        elif tick.delivered and is_new:
            tick = replace(tick, asked_at=tick.sequence, asked_in=hour)
            yield dg.RunRequest(run_key=f"once-more:{hour}", tags={**names.tags, "opsguard/trigger": "once_more"})
        else:
            yield dg.SkipReason(
                "no message is left in the middle of its call, none is in doubt, and none was sent since the last look"
            )
        context.update_cursor(tick.text)

    return expire


def seen_now(route: DeliveryRoute, store: StateStore, last: Tick | None) -> tuple[Tick, str]:
    """What the ledger holds, and "" or the digest of what a dead run left in the middle. A file store that nobody has written to since
    `last` is not opened, unless something was being sent then: that its process died leaves no trace in files."""
    mark = ledger_mark(route)
    if last is not None and last.is_still(mark):
        return last, ""
    with open_ledger(route, store) as ledger:
        health = ledger.health()
    stale = digest([health.head.sequence, sorted(slot.key for slot in health.stale_sending)]) if health.stale_sending else ""
    return tick_of(health, mark=mark, last=last), stale

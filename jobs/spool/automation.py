"""What runs by itself, once somebody turns it on: the nightly report and the arrival sensor."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as DeadlinePassed
from typing import Any, Final

import dagster as dg

from assets.site import Site
from assets.spool import spool_names
from guards.spool.arrival import Arrivals, arrivals
from guards.text import count_words, one_line
from resources.errors import OpsGuardError, Unreachable
from resources.file_servers import open_server
from resources.spool.route import SpoolRoute

TICK_SECONDS: Final = 45.0
"""Dagster gives a sensor 60 s; a file server that hangs must not use them up."""
EVERY_SECONDS: Final = 300
MOST_NAMES: Final = 25
LONGEST_PAUSE_SECONDS: Final = 3600


def nightly_schedule(route: SpoolRoute, site: Site, report: Any) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=spool_names(route).named("nightly"),
        job=report,
        cron_schedule=route.nightly_cron,
        execution_timezone="UTC",
        default_status=site.schedules,
        description="The nightly report. It looks and judges, and cannot write.",
        tags={**spool_names(route).tags, "opsguard/trigger": "nightly"},
    )


def arrival_sensor(route: SpoolRoute, site: Site, report: Any) -> dg.SensorDefinition:
    """Lists the spool, read only. One report run when something deliverable is new or changed; a failing server is asked ever less often."""

    @dg.sensor(
        name=spool_names(route).named("arrival"),
        job=report,
        minimum_interval_seconds=EVERY_SECONDS if site.automation is dg.DefaultSensorStatus.STOPPED else 15,
        default_status=site.automation,
        description="Asks for one report when the spool holds something deliverable that is new or changed. Cannot write.",
    )
    def arrival(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        cursor = _read(context.cursor)
        wait = cursor["not_before"] - time.time()
        if wait > 0:
            yield dg.SkipReason(f"the spool failed {cursor['failures']} times: asked again in {wait:.0f} s")
            return
        try:
            seen = _look(route)
        except OpsGuardError as error:
            failures = cursor["failures"] + 1
            pause = min(EVERY_SECONDS * 2 ** (failures - 1), LONGEST_PAUSE_SECONDS)
            context.update_cursor(json.dumps({**cursor, "failures": failures, "not_before": time.time() + pause}))
            yield dg.SkipReason(f"the spool could not be listed, asked again in {pause} s: {one_line(str(error), limit=300)}")
            return
        if seen.incomplete:
            yield dg.SkipReason(f"the listing is incomplete: {one_line(seen.incomplete, limit=300)}")
            return
        context.update_cursor(json.dumps({"digest": seen.digest, "known": list(seen.known), "failures": 0, "not_before": 0}))
        changed = sorted(name for name, version in seen.entries.items() if version not in cursor["known"])
        if seen.digest == cursor["digest"] or not changed:
            yield dg.SkipReason(f"nothing new: {count_words(len(seen.entries), 'deliverable feed')}")
            return
        shown = ", ".join(one_line(name, limit=60) for name in changed[:MOST_NAMES])
        more = f" and {len(changed) - MOST_NAMES} more" if len(changed) > MOST_NAMES else ""
        context.log.info("new or changed: %s%s", shown, more)
        # No run key: the cursor is kept together with the request, and a spool may well come back to an earlier state.
        yield dg.RunRequest(
            tags={**spool_names(route).tags, "opsguard/trigger": "arrival", "opsguard/arrivals": f"{shown}{more}"[:250]}
        )

    return arrival


def _look(route: SpoolRoute) -> Arrivals:
    """In a thread, so that a server that hangs cannot hold the tick beyond its deadline; the connection's own time-outs end the thread."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="arrival")
    try:
        return pool.submit(_list, route).result(TICK_SECONDS)
    except DeadlinePassed:
        raise Unreachable(f"source: no listing within {TICK_SECONDS:.0f} s: is the server overloaded?") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _list(route: SpoolRoute) -> Arrivals:
    with open_server(route.source).reader() as source:
        return arrivals(source.list(route.source.directory, limit=route.policy.listing_limit), policy=route.policy)


def _read(cursor: str | None) -> dict[str, Any]:
    """A cursor that cannot be read (an older version, a person's edit) counts as none: the worst is one report too many."""
    empty = {"digest": "", "known": [], "failures": 0, "not_before": 0.0}
    try:
        read = json.loads(cursor or "{}")
    except ValueError:
        return empty
    return {**empty, **read} if isinstance(read, dict) else empty

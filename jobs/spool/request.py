"""The plan that a request names, ready to be written by this run."""

import dagster as dg

from assets.site import Site
from assets.spool import spool_names
from guards.refusal import Refused
from jobs.apply.request import Request, flags_of, plan_of_watch
from resources.progress import watched
from resources.spool.apply import SpoolApply
from resources.spool.route import SpoolRoute
from resources.state import StateStore


def applying(
    context: dg.OpExecutionContext, store: StateStore, request: Request, *, route: SpoolRoute, site: Site
) -> SpoolApply | Refused:
    """A refusal when the plan is none of this watch's."""
    stored = plan_of_watch(store, request["plan"], spool_names(route))
    if isinstance(stored, Refused):
        return stored
    return SpoolApply(
        route,
        store,
        stored,
        flags=flags_of(request),
        run_id=context.run_id,
        lease_seconds=site.lease_seconds,
        progress=watched(),
    )

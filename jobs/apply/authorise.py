"""The first op of every apply run: the decision in the form is recorded, and what can be refused is refused before anything is looked at."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import dagster as dg

from assets.config_fields import checked, config_fields
from assets.known_guards import Names
from assets.site import Site
from assets.state_resource import State
from guards.refusal import Refused
from jobs.apply.config import ApplyConfig
from jobs.apply.decision_log import decision_logged
from jobs.apply.request import Request, decided, request_of
from resources.state import StateStore


class Prechecked(Protocol):
    def precheck(self) -> Refused | None: ...


Applying: TypeAlias = Callable[[dg.OpExecutionContext, StateStore, Request], Prechecked | Refused]
"""The plan that a request names, ready to be written by this run; a refusal when it is none of this watch's."""


def authorise_op(names: Names, site: Site, applying: Applying) -> dg.OpDefinition:
    @dg.op(
        name=names.named("authorise"),
        out={"request": dg.Out(is_required=False)},
        ins={"plan": dg.In(dg.Nothing)},
        config_schema=config_fields(ApplyConfig, ApplyConfig()),
        description="Records the decision in the config, if there is one, and refuses what can be refused before any server is asked.",
    )
    def authorise(context: dg.OpExecutionContext, state: State) -> Iterator[Any]:
        config = checked(ApplyConfig, context.op_config)
        request = request_of(config)
        with state.open() as store:
            refused = decided(context, config, store, names=names, site=site)
            if refused is None:
                apply = applying(context, store, request)
                refused = apply if isinstance(apply, Refused) else apply.precheck()
            if refused is not None:
                decision_logged(context, names, refused=refused, digest=config.approved_plan)
                return
        yield dg.Output(dict(request), "request")

    return authorise

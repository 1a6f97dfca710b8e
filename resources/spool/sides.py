"""The two servers of one route, and what a plan's scope says about them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from guards.canonical import Json
from resources.file_servers import open_server
from resources.file_servers.connect import PATIENCE, Patience
from resources.file_servers.interface import FileServer, Reader
from resources.spool.memory import partner_key
from resources.spool.route import SpoolRoute

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Sides:
    """Both servers, not connected yet."""

    route: SpoolRoute
    source: FileServer
    partner: FileServer
    patience: Patience = PATIENCE
    """For what is done again above the sessions: a whole upload, a whole reading."""


@dataclass(frozen=True, slots=True)
class OpenSides:
    """Both servers, connected, with nothing but reading methods."""

    route: SpoolRoute
    source: Reader
    partner: Reader

    def scope(self) -> dict[str, Json]:
        """Where the plan holds: hosts, ports, keys, directories and profiles as they are now. Part of the plan digest."""
        route = self.route
        return {
            "source": {
                **self.source.identity.as_json(),
                "outbound": route.source.directory,
                "archive": route.archive,
                "profile": route.source.profile.as_json(),
            },
            "partner": {
                **self.partner.identity.as_json(),
                "inbox": route.partner.directory,
                "account": route.partner.user,
                "ledger": partner_key(route),
                "profile": route.partner.profile.as_json(),
            },
        }


def sides_of(route: SpoolRoute) -> Sides:
    return Sides(route=route, source=open_server(route.source), partner=open_server(route.partner))


@contextmanager
def open_readers(sides: Sides) -> Iterator[OpenSides]:
    """One fresh connection to each side, closed together. Raises `Unreachable` and its kinds."""
    with ExitStack() as stack:
        source = stack.enter_context(sides.source.reader())
        partner = stack.enter_context(sides.partner.reader())
        yield OpenSides(route=sides.route, source=source, partner=partner)


def observing(sides: Sides, work: Callable[[OpenSides], Result]) -> Result:
    """`work` on fresh readers. What only looks is asked again by the sessions themselves: a second loop here would multiply the waiting."""
    with open_readers(sides) as opened:
        return work(opened)

"""Each side of a spool watch, as `opsguard doctor` sees it: listed, and nothing written."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from guards.spool.listing import Listing
from guards.text import count_words
from opsguard_defs.diagnosis import Diagnosis, Health, health_of
from opsguard_defs.settings import SpoolWatch
from resources.errors import OpsGuardError
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import Reader

AHEAD: Final = timedelta(minutes=5)
"""A feed newer than this is a clock that differs, not a feed: the same bound as the verdict `clock_skew`."""


def examine_spool(where: str, watch: SpoolWatch, now: Callable[[], datetime]) -> Iterator[Diagnosis]:
    """Asked when nothing is missing that the settings name. Lists, and writes nothing."""
    route = watch.route()
    limit = watch.policy.listing_limit
    directories = (("outbound spool", route.source.directory), ("archive", route.archive))
    yield from _side(where, route.source, directories, limit, now)
    partner = tuple(_side(where, route.partner, (("inbox", route.partner.directory),), limit, now))
    yield from partner
    if any(one.health is Health.UNREACHABLE for one in partner):
        yield Diagnosis(where, "partner renaming", Health.NOTE, "not looked at: see the partner's connection and inbox")
    else:
        yield _renaming(where, watch)
    if watch.partner_profile.consumes_on_arrival:
        message = (
            "consumes_on_arrival: the partner takes files away, so that a feed is absent proves nothing about what your hand-off job "
            "delivered. It is called missing while it is in the spool: ask the partner before you approve a send"
        )
        yield Diagnosis(where, "partner consumes", Health.NOTE, message)


def _side(
    where: str, endpoint: Endpoint, directories: tuple[tuple[str, str], ...], limit: int, now: Callable[[], datetime]
) -> Iterator[Diagnosis]:
    from resources.file_servers import open_server

    step = "connection"
    try:
        with open_server(endpoint).reader() as reader:
            seen = reader.identity.fingerprint or "plain FTP: this server proves nothing about who it is"
            yield Diagnosis(where, f"{endpoint.side} connection", Health.OK, f"{endpoint.shown}: logged in; {seen}")
            for name, directory in directories:
                step = name
                yield from _directory(where, f"{endpoint.side} {name}", reader, directory, limit, now)
    except OpsGuardError as error:
        yield Diagnosis(where, f"{endpoint.side} {step}", health_of(error), str(error))


def _directory(
    where: str, check: str, reader: Reader, directory: str, limit: int, now: Callable[[], datetime]
) -> Iterator[Diagnosis]:
    try:
        listing = reader.list(directory, limit=limit)
    except OpsGuardError as error:
        yield Diagnosis(where, check, health_of(error), str(error))
        return
    if not listing.is_complete:
        yield Diagnosis(where, check, Health.UNREACHABLE, f"{directory}: {listing.incomplete}")
        return
    yield Diagnosis(where, check, Health.OK, f"{directory}: {count_words(len(listing), 'entry', 'entries')}")
    if ahead := _ahead(listing, now()):
        message = f"the newest entry of {directory} is {ahead} minutes in the future: clocks differ, or the profile's time_zone is wrong"
        yield Diagnosis(where, f"{check} clock", Health.NOTE, message)


def _ahead(listing: Listing, now: datetime) -> int:
    """Whole minutes that the newest entry lies beyond the bound, 0 when it does not."""
    newest = max((entry.modified_at for entry in listing if entry.modified_at is not None), default=now)
    return int((newest - now).total_seconds() // 60) if newest - now > AHEAD else 0


def _renaming(where: str, watch: SpoolWatch) -> Diagnosis:
    match watch.partner_profile.rename_supported:
        case False | "no":
            message = "the partner cannot rename: feeds are written under their final name, and may be seen half"
            return Diagnosis(where, "partner renaming", Health.NOTE, message)
        case True | "yes":
            return Diagnosis(where, "partner renaming", Health.OK, "said to work by partner_profile.rename_supported")
        case _:
            return Diagnosis(where, "partner renaming", Health.OK, "not known until the first write: looking cannot tell")

"""One name asked for by itself, and when "no" means that it is not there.

A 550 means anything: no such file, no permission, a directory, ASCII mode. So absence takes two witnesses: the server refuses to say
anything about the name now, **and** a complete listing of its directory, taken in this session at most a minute ago, does not hold it.
A name that the listing holds and the server will not speak about is not observed: a newline in another name can forge such a row.
"""

import time
from typing import Final

from guards.spool.listing import Entry, EntryType, TimeSource
from resources.errors import NotObserved
from resources.file_servers.ftp_control import FtpControl
from resources.file_servers.ftp_listing import SeenListing, list_directory
from resources.file_servers.mlsd import Unparsable, count, parse_answer, utc_time
from resources.file_servers.names import joined

_FRESH_SECONDS: Final = 60
"""A name that came since then would have to be refused by SIZE or MLST as well to be called absent."""
_MOST_ROWS: Final = 1_000_000


class Listings:
    """The last listing of each directory in this session, for the second witness."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, bool], tuple[float, SeenListing]] = {}

    def remember(self, seen: SeenListing, *, hidden: bool = False) -> None:
        self._seen[(seen.listing.directory, hidden)] = (time.monotonic(), seen)

    def recent(self, directory: str, *, hidden: bool) -> SeenListing | None:
        at, seen = self._seen.get((directory, hidden), (0.0, None))
        return seen if seen is not None and time.monotonic() - at <= _FRESH_SECONDS else None


def ask_about(control: FtpControl, listings: Listings, directory: str, name: str) -> Entry | None:
    """The entry; None when it is provably absent. Errors: `NotObserved` when the server will not tell, `Transient`, `Unreachable`."""
    path = joined(directory, name)
    if "MLST" in control.features and control.endpoint.profile.list_command == "auto":
        reply = control.ask("MLST", path)
        if reply.passing:
            raise control.refused(reply, "")
        if reply.done:
            answers = [parse_answer(line.encode("utf-8", "surrogateescape"), name) for line in reply.lines[1:-1]]
            if len(answers) == 1 and not isinstance(answers[0], Unparsable):
                return answers[0]
            raise NotObserved(control.sentence(f'"{control.said(reply)}" cannot be read as an answer about one name'))
        if not reply.not_understood:
            return _refused_entry(control, listings, directory, name, said=control.said(reply))
    return _by_size(control, listings, directory, name)


def _by_size(control: FtpControl, listings: Listings, directory: str, name: str) -> Entry | None:
    """SIZE and MDTM: for servers without MLST. A number from SIZE means a file, or a link to one."""
    path = joined(directory, name)
    control.binary()
    size = control.ask("SIZE", path)
    if size.passing:
        raise control.refused(size, "")
    if size.code != 213:
        return _refused_entry(control, listings, directory, name, said=control.said(size))
    time_said = control.ask("MDTM", path)
    if time_said.passing:
        raise control.refused(time_said, "")
    modified_at = utc_time(time_said.text) if time_said.code == 213 else None
    return Entry(
        name=name,
        type=EntryType.FILE,
        size_bytes=count(size.text),
        modified_at=modified_at,
        time_source=TimeSource.MDTM if modified_at else TimeSource.NONE,
    )


def _refused_entry(control: FtpControl, listings: Listings, directory: str, name: str, *, said: str) -> Entry | None:
    """The server would not speak about the name: what does the listing say?"""
    hidden = name.startswith(".")
    recent = listings.recent(directory, hidden=hidden)
    if recent is not None and _proves_absent(recent, name):
        return None
    fresh = list_directory(control, directory, limit=_MOST_ROWS, hidden=hidden)
    listings.remember(fresh, hidden=hidden)
    if _proves_absent(fresh, name):
        return None
    listed = fresh.listing.get(name)
    if listed is not None and listed.type is not EntryType.FILE:
        return listed
    if listed is not None:
        why = "the listing shows it: another name may have forged that row, or permissions forbid to look"
    elif fresh.listing.incomplete:
        why = f"the listing does not show it, but may be incomplete: {fresh.listing.incomplete}"
    else:
        why = "the listing does not show it, but this server hides names with a leading dot"
    raise NotObserved(control.sentence(f'the server answers "{said}", and {why}'))


def _proves_absent(seen: SeenListing, name: str) -> bool:
    """Complete, the name is not in it, and it would be, were it there."""
    shows = seen.shows_dot_names or not name.startswith(".")
    return shows and seen.listing.is_complete and seen.listing.get(name) is None

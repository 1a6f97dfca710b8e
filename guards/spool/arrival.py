"""What the arrival sensor remembers of a spool: enough to tell that something deliverable is new or changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from guards.canonical import digest
from guards.spool.listing import EntryType, Listing
from guards.spool.names import is_deliverable, is_marker, unsafe_reason
from guards.spool.policy import SpoolPolicy

MOST_REMEMBERED: Final = 2_000
"""Versions kept in a cursor (16 digits each, 40 KB). A larger spool is still noticed by its digest; its news are then only counted."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`entries`: deliverable name to the version seen (16 hex digits of name, size and time). `digest` covers them all."""

    digest: str
    entries: Mapping[str, str]
    incomplete: str = ""

    @property
    def known(self) -> tuple[str, ...]:
        """For the next tick; empty when there are too many to remember."""
        return tuple(sorted(self.entries.values())) if len(self.entries) <= MOST_REMEMBERED else ()


def arrivals(listing: Listing, *, policy: SpoolPolicy) -> Arrivals:
    """Deliverable files only, whatever the order of the rows. A marker or a half-named file wakes nobody."""
    entries = {
        entry.name: digest([entry.name, entry.size_bytes, entry.modified_at.isoformat() if entry.modified_at else None])[:16]
        for entry in listing
        if entry.type is EntryType.FILE
        and not unsafe_reason(entry.name)
        and not is_marker(entry.name, policy)
        and is_deliverable(entry.name, policy)
    }
    return Arrivals(digest=digest(dict(entries)), entries=entries, incomplete=listing.incomplete)

"""One outbound entry with all that is known about it: the questions that the judge's table asks, answered from the world."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from guards.canonical import Json
from guards.spool.listing import Entry, EntryType
from guards.spool.names import AliasIndex, is_deliverable, is_marker
from guards.spool.notes import count
from guards.spool.policy import SpoolPolicy
from guards.spool.world import Attempt, SpoolWorld

BYTES_PER_MEGABYTE: Final = 1_048_576


@dataclass(frozen=True)
class Bench:
    """What all entries of one observation are judged by."""

    world: SpoolWorld
    policy: SpoolPolicy
    consumes_on_arrival: bool
    case_sensitive: bool

    @cached_property
    def incomplete(self) -> str:
        """ "" or one sentence: while it stands, no absence is proven and nothing may become a target."""
        return incompleteness(self.world, self.policy)

    @cached_property
    def markers(self) -> Mapping[str, tuple[Entry, ...]]:
        """By the name of the feed that each would mark, in the order of their names."""
        found: dict[str, tuple[Entry, ...]] = {}
        for marker in sorted((one for one in self.world.outbound if is_marker(one.name, self.policy)), key=lambda one: one.name):
            for suffix in self.policy.in_progress_suffixes:
                if marker.name.endswith(suffix):
                    feed = marker.name[: -len(suffix)]
                    found[feed] = (*found.get(feed, ()), marker)
        return found

    @cached_property
    def partner_aliases(self) -> AliasIndex:
        return AliasIndex.of((entry.name for entry in self.world.partner), case_sensitive=self.case_sensitive)

    @cached_property
    def outbound_aliases(self) -> AliasIndex:
        """Of the feeds beside each other in the spool: two that a partner cannot tell apart would overwrite each other there."""
        names = (entry.name for entry in self.world.outbound if is_deliverable(entry.name, self.policy))
        return AliasIndex.of(names, case_sensitive=self.case_sensitive)


def incompleteness(world: SpoolWorld, policy: SpoolPolicy) -> str:
    """As `SpoolWorld.incomplete`; and a listing counts as incomplete, whatever it says of itself, when it reaches the policy's limit or
    shows a name twice (a line break in a name can forge a row)."""
    if world.incomplete:
        return world.incomplete
    for place, listing in (("outbound spool", world.outbound), ("archive", world.archive), ("partner inbox", world.partner)):
        if len(listing) >= policy.listing_limit:
            return f"{place}: {len(listing):,} rows reach the listing limit of {policy.listing_limit:,}"
        repeated = len(listing) - len({entry.name for entry in listing})
        if repeated:
            return f"{place}: {count(repeated, 'row')} with a name that another row has too, so rows may be forged"
    return ""


class Case:
    """Made per entry, thrown away after its finding; the facts that every entry needs are looked up once, the others on demand.

    `size_bytes`, `modified_at`: the row's, else the spool's own answer's.
    `since`: when the feed has certainly been there: its modified time, or our first sight of it when that is older or all there is.
    """

    __slots__ = ("answer", "bench", "entry", "modified_at", "name", "partner_row", "since", "size_bytes")

    def __init__(self, entry: Entry, bench: Bench) -> None:
        world = bench.world
        name = entry.name
        answer = world.source_confirmed.get(name)
        self.entry: Final = entry
        self.bench: Final = bench
        self.name: Final = name
        self.answer: Final = answer
        self.partner_row: Final = world.partner.get(name)
        size_bytes, modified_at, first_seen = entry.size_bytes, entry.modified_at, world.first_seen.get(name)
        if answer is not None:
            size_bytes = answer.size_bytes if size_bytes is None else size_bytes
            modified_at = answer.modified_at if modified_at is None else modified_at
        self.size_bytes: Final = size_bytes
        self.modified_at: Final = modified_at
        since = first_seen if modified_at is None else modified_at
        self.since: Final = first_seen if since is not None and first_seen is not None and first_seen < since else since

    @property
    def age(self) -> timedelta:
        """Zero for a time slightly in the future. Only asked of entries that have a usable time."""
        assert self.since is not None  # date_unknown comes first in the table
        return max(self.bench.world.observed_at - self.since, timedelta())

    @property
    def markers(self) -> tuple[Entry, ...]:
        """Writers' markers beside this feed."""
        return self.bench.markers.get(self.name, ())

    @property
    def source_unasked(self) -> bool:
        return self.name not in self.bench.world.source_confirmed

    @property
    def partner_unasked(self) -> bool:
        return self.name not in self.bench.world.partner_confirmed

    @property
    def partner_size(self) -> int | None:
        """Of the partner's copy: the row's, else the partner's own answer; None when it would not say."""
        row, answer = self.partner_row, self.bench.world.partner_confirmed.get(self.name)
        if row is not None and row.size_bytes is not None:
            return row.size_bytes
        return answer.size_bytes if answer is not None else None

    @property
    def sha256(self) -> str:
        """Of the spool's bytes; "" while unknown, or when they could not be read."""
        return self.bench.world.source_sha256.get(self.name, "")

    @property
    def partner_sha256(self) -> str:
        return self.bench.world.partner_sha256.get(self.name, "")

    @property
    def telling_attempts(self) -> tuple[Attempt, ...]:
        """Ledger attempts that change the verdict if they are of this content: proven, or in doubt."""
        attempts = self.bench.world.attempts.get(self.name)
        if not attempts:
            return ()
        return tuple(attempt for attempt in attempts if attempt.state.is_unresolved or attempt.state.is_proven_sent)

    @property
    def in_doubt(self) -> Attempt | None:
        """The newest unresolved attempt of exactly these bytes."""
        unresolved = [one for one in self.telling_attempts if one.sha256 == self.sha256 and one.state.is_unresolved]
        return unresolved[-1] if unresolved else None

    @property
    def proven(self) -> Attempt | None:
        """The newest attempt that is proven to have delivered exactly these bytes."""
        sent = [one for one in self.telling_attempts if one.sha256 == self.sha256 and one.state.is_proven_sent]
        return sent[-1] if sent else None

    def facts(self) -> Mapping[str, Json]:
        """For the findings table. Volatile ones included; unknown is null."""
        row, since = self.partner_row, self.since
        shown: dict[str, Json] = {
            "type": self.entry.type.value,
            "size_bytes": self.size_bytes,
            "modified_at": _text(self.modified_at),
            "age_seconds": None if since is None else int((self.bench.world.observed_at - since).total_seconds()),
            "partner_size_bytes": self.partner_size if row is not None else None,
            "partner_modified_at": _text(row.modified_at) if row is not None else None,
        }
        if self.sha256:
            shown["sha256"] = self.sha256
        return shown


def is_file(entry: Entry) -> bool:
    return entry.type is EntryType.FILE


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()

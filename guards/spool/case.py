"""One outbound entry with all that is known about it: the questions that the judge's table asks, answered from the world."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from guards.canonical import Json
from guards.spool.listing import Entry, EntryType
from guards.spool.names import AliasIndex, is_deliverable
from guards.spool.policy import SpoolPolicy
from guards.spool.world import Attempt, SpoolWorld

BYTES_PER_MEGABYTE = 1_048_576


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
    def partner_aliases(self) -> AliasIndex:
        return AliasIndex.of((entry.name for entry in self.world.partner), case_sensitive=self.case_sensitive)

    @cached_property
    def outbound_aliases(self) -> AliasIndex:
        """Of the feeds beside each other in the spool: two that a partner cannot tell apart would overwrite each other there."""
        names = (entry.name for entry in self.world.outbound if is_deliverable(entry.name, self.policy))
        return AliasIndex.of(names, case_sensitive=self.case_sensitive)


def incompleteness(world: SpoolWorld, policy: SpoolPolicy) -> str:
    """As `SpoolWorld.incomplete`, and a listing that reaches the policy's limit counts as incomplete whatever it says of itself."""
    if world.incomplete:
        return world.incomplete
    for place, listing in (("outbound spool", world.outbound), ("archive", world.archive), ("partner inbox", world.partner)):
        if len(listing) >= policy.listing_limit:
            return f"{place}: {len(listing):,} rows reach the listing limit of {policy.listing_limit:,}"
    return ""


@dataclass(slots=True)
class Case:
    """Made per entry, thrown away after its finding. `size_bytes` and `modified_at`: the row's, else the spool's own answer's."""

    entry: Entry
    bench: Bench
    name: str = field(init=False)
    answer: Entry | None = field(init=False)
    size_bytes: int | None = field(init=False)
    modified_at: datetime | None = field(init=False)
    first_seen: datetime | None = field(init=False)

    def __post_init__(self) -> None:
        world = self.bench.world
        self.name = self.entry.name
        self.answer = world.source_confirmed.get(self.name)
        self.first_seen = world.first_seen.get(self.name)
        self.size_bytes = self.entry.size_bytes
        self.modified_at = self.entry.modified_at
        if self.answer is not None:
            if self.size_bytes is None:
                self.size_bytes = self.answer.size_bytes
            if self.modified_at is None:
                self.modified_at = self.answer.modified_at

    @property
    def since(self) -> datetime | None:
        """When the feed has certainly been there: its modified time, or our first sight of it when that is older or all there is."""
        return min((time for time in (self.modified_at, self.first_seen) if time is not None), default=None)

    @property
    def age(self) -> timedelta:
        """Zero for a time slightly in the future. Only asked of entries that have a usable time."""
        since = self.since
        assert since is not None  # date_unknown comes first in the table
        return max(self.bench.world.observed_at - since, timedelta())

    @property
    def markers(self) -> tuple[Entry, ...]:
        """Writers' markers beside this feed."""
        outbound = self.bench.world.outbound
        found = (outbound.get(self.name + suffix) for suffix in self.bench.policy.in_progress_suffixes)
        return tuple(marker for marker in found if marker is not None)

    @property
    def source_unasked(self) -> bool:
        return self.name not in self.bench.world.source_confirmed

    @property
    def partner_unasked(self) -> bool:
        return self.name not in self.bench.world.partner_confirmed

    @property
    def partner_row(self) -> Entry | None:
        return self.bench.world.partner.get(self.name)

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
        attempts = self.bench.world.attempts.get(self.name, ())
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
        row = self.partner_row
        since = self.since
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

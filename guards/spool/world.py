"""The facts of one spool watch: what the three places hold, what was confirmed by name, and what the ledger and we remember.

Made by `resources/spool` on real servers, judged by `guards.spool.judge`. Everything keyed by a feed's exact name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from guards.delivery.reservation import ReservationState
from guards.spool.listing import Entry, Listing


@dataclass(frozen=True, slots=True)
class Attempt:
    """One ledger reservation of this name at this partner's inbox."""

    sha256: str
    state: ReservationState
    since: datetime
    live: bool = False
    """Its holder's lease has not ended: a run is sending it right now."""
    reservation_id: str = ""


@dataclass(frozen=True, slots=True)
class PartnerCopy:
    """What the partner held under a name. `modified_at` is whole seconds or None."""

    size_bytes: int | None
    modified_at: datetime | None


@dataclass(frozen=True, slots=True)
class SpoolWorld:
    """One observation. Listings are whole; the mappings hold only the names that were asked about."""

    observed_at: datetime
    """Database clock."""
    outbound: Listing
    archive: Listing
    partner: Listing
    source_confirmed: Mapping[str, Entry | None] = field(default_factory=dict)
    """The spool's own answer to SIZE/MLST/stat by name; None: provably absent. A name not in here was not asked about."""
    partner_confirmed: Mapping[str, Entry | None] = field(default_factory=dict)
    partner_second_look: Mapping[str, Entry | None] = field(default_factory=dict)
    """The partner's answer `stable_seconds` later, for copies that looked short."""
    source_sha256: Mapping[str, str] = field(default_factory=dict)
    """64 hex digits, of the bytes read from the spool."""
    partner_sha256: Mapping[str, str] = field(default_factory=dict)
    first_seen: Mapping[str, datetime] = field(default_factory=dict)
    """When an earlier look of ours first saw the name, database clock; what is seen for the first time now is not in it."""
    attempts: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)
    """From the ledger, oldest first."""

    @property
    def incomplete(self) -> str:
        """ "" or one sentence for the first listing that is not complete."""
        for place, listing in (("outbound spool", self.outbound), ("archive", self.archive), ("partner inbox", self.partner)):
            if not listing.is_complete:
                return f"{place}: {listing.incomplete}"
        return ""

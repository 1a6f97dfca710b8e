"""What must still hold when a target is written: checked by the gate for the whole plan, and again right before each write.

Each is checked against fresh facts in which the target's name was asked for by itself; a name that was not asked about is a
mismatch, never a pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from guards.canonical import Json
from guards.requirement import Mismatch
from guards.spool.listing import Entry, EntryType
from guards.spool.notes import size
from guards.spool.world import PartnerCopy, SpoolWorld

_NOT_ASKED = "no answer: it was not asked about by name"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceUnchanged:
    """The spool still holds this feed with this size and time. The bytes are hashed again while they are sent; a fresh hash that is
    known already must be equal."""

    name: str
    size_bytes: int
    modified_at: datetime | None
    sha256: str

    def check(self, seen: SpoolWorld) -> Mismatch | None:
        expected = (
            f"a file of {size(self.size_bytes)}, modified {_time(self.modified_at)}, SHA-256 {self.sha256[:12]} in the spool"
        )
        if self.name not in seen.source_confirmed:
            return Mismatch(self.name, expected, _NOT_ASKED)
        entry = seen.source_confirmed[self.name]
        if entry is None or (entry.type, entry.size_bytes, entry.modified_at) != (
            EntryType.FILE,
            self.size_bytes,
            self.modified_at,
        ):
            return Mismatch(self.name, expected, _shown(entry))
        found = seen.source_sha256.get(self.name, self.sha256)
        if found != self.sha256:
            return Mismatch(self.name, expected, f"other bytes: SHA-256 {found[:12] or 'unreadable'}")
        return None

    def as_json(self) -> Mapping[str, Json]:
        return {
            "requires": "source_unchanged",
            "name": self.name,
            "size_bytes": self.size_bytes,
            "modified_at": None if self.modified_at is None else self.modified_at.isoformat(),
            "sha256": self.sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWriterMarker:
    """Nobody is writing the feed again: no sibling with one of these endings, in a listing that would show it."""

    name: str
    suffixes: tuple[str, ...]

    def check(self, seen: SpoolWorld) -> Mismatch | None:
        for suffix in self.suffixes:
            marker = self.name + suffix
            if seen.outbound.get(marker) is not None or seen.source_confirmed.get(marker) is not None:
                return Mismatch(self.name, "no writer's marker beside it", f"the marker {suffix}")
        if not seen.outbound.is_complete:
            return Mismatch(self.name, "no writer's marker beside it", f"an incomplete listing: {seen.outbound.incomplete}")
        return None

    def as_json(self) -> Mapping[str, Json]:
        return {"requires": "no_writer_marker", "name": self.name, "suffixes": list(self.suffixes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveNameFree:
    """The archive does not hold this name, in a listing that would show it."""

    name: str

    def check(self, seen: SpoolWorld) -> Mismatch | None:
        found = seen.archive.get(self.name)
        if found is not None:
            return Mismatch(self.name, "a free name in the archive", _shown(found))
        if not seen.archive.is_complete:
            return Mismatch(self.name, "a free name in the archive", f"an incomplete listing: {seen.archive.incomplete}")
        return None

    def as_json(self) -> Mapping[str, Json]:
        return {"requires": "archive_name_free", "name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerStateUnchanged:
    """The partner still holds exactly what the approver saw: nothing of this name, or a file of this size and time."""

    name: str
    expected: PartnerCopy | None

    def check(self, seen: SpoolWorld) -> Mismatch | None:
        if self.name not in seen.partner_confirmed:
            return Mismatch(self.name, self._wanted(), _NOT_ASKED)
        return self.compare(seen.partner_confirmed[self.name])

    def compare(self, entry: Entry | None) -> Mismatch | None:
        """The same against one fresh answer about this name."""
        found = None if entry is None else PartnerCopy(size_bytes=entry.size_bytes, modified_at=entry.modified_at)
        if found != self.expected or (entry is not None and entry.type is not EntryType.FILE):
            return Mismatch(self.name, self._wanted(), _shown(entry))
        return None

    def _wanted(self) -> str:
        return "no copy at the partner" if self.expected is None else f"{_copy(self.expected)} at the partner"

    def as_json(self) -> Mapping[str, Json]:
        return {"requires": "partner_state_unchanged", "name": self.name, "partner": copy_json(self.expected)}


def copy_json(copy: PartnerCopy | None) -> Mapping[str, Json] | None:
    if copy is None:
        return None
    return {"size_bytes": copy.size_bytes, "modified_at": None if copy.modified_at is None else copy.modified_at.isoformat()}


def _shown(entry: Entry | None) -> str:
    return (
        "nothing of this name"
        if entry is None
        else f"a {entry.type.value} of {size(entry.size_bytes)}, modified {_time(entry.modified_at)}"
    )


def _copy(copy: PartnerCopy) -> str:
    return f"a file of {size(copy.size_bytes)}, modified {_time(copy.modified_at)}"


def _time(time: datetime | None) -> str:
    return "at an unknown time" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"

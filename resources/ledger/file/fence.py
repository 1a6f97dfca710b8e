"""The fence document: whether this store may be used at all. One file, replaced whole, with a checksum."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from guards.canonical import Json, canonical_json, digest
from guards.delivery.row import Head
from resources.ledger.file.disk import Disk
from resources.ledger.file.writing import FOR_A_MOMENT, create_anew, publish_whole, write_all

NAME: Final = "fence.json"
_TEMPORARY: Final = "temp/fence"
_MOST_BYTES: Final = 16 * 1024
NEVER: Final = (0, "")
"""The acceptance of a store that nobody has accepted."""


class FenceState(StrEnum):
    PREPARING = "preparing"
    """Being made, or taking over the rows of another store: nothing in it counts yet."""
    READY = "ready"
    RECOVERY_REQUIRED = "recovery_required"
    RETIRED = "retired"
    """Exported and given up: it answers, and nothing is sent from here again."""


class FenceReason(StrEnum):
    NONE = ""
    SYNC_FAILED = "sync_failed"
    """The disk did not take what was written. Ends with a full verification and a fresh copy of what was being written."""
    COPIED = "copied"
    """Another directory than the one that was made: a copy, or a restored backup. Ends with a person's word."""
    CUT_BACK = "cut_back"
    """Rows that were there are not. Ends with a person's word."""
    ADOPTING = "adopting"
    """Taking over the rows of another store. Found so by who opens it: what was taken so far goes."""
    ACCEPTING = "accepting"
    """A person has accepted a copy or a loss, and what was open is being turned into doubt: the next repair goes on with it."""
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """`place` is `place.identity`; `store` 8 hex digits that a store keeps for life. `generation` grows with each document; the anchor names
    the one that it was written under, so an older one that was put back is noticed."""

    state: FenceState
    store: str
    place: Mapping[str, Json] = field(default_factory=dict)
    reason: FenceReason = FenceReason.NONE
    note: str = ""
    accepted: int = 0
    """How often a person has accepted a copy or a loss: what a process knew before counts no longer then."""
    accepted_at: str = ""
    """When that was last, as ISO 8601: what was due before may have been sent elsewhere."""
    head: Head = field(default_factory=Head)
    """The row that must be there: with `cut_back` the one that was known, with `accepting` the last that was accepted."""
    generation: int = 0

    @property
    def acceptance(self) -> tuple[int, str]:
        """Another after each: without the document that counted them they are counted from one again."""
        return self.accepted, self.accepted_at

    @property
    def may_be_tidied(self) -> bool:
        """A torn end is cut, in the store itself and not in a copy or in one that is given up."""
        return self.state is FenceState.READY or self.reason is FenceReason.SYNC_FAILED

    def as_json(self) -> dict[str, Json]:
        return {
            "version": 1,
            "state": self.state.value,
            "store": self.store,
            "place": dict(self.place),
            "reason": self.reason.value,
            "note": self.note,
            "accepted": self.accepted,
            "accepted_at": self.accepted_at,
            "head": {"sequence": self.head.sequence, "digest": self.head.digest},
            "generation": self.generation,
        }

    @property
    def doubt_before(self) -> datetime | None:
        return datetime.fromisoformat(self.accepted_at) if self.accepted_at else None

    def doubting(self, before: datetime | None) -> "Fence":
        """What is in doubt already stays so: a clock that was set back takes nothing away."""
        if before is None or (self.doubt_before is not None and before <= self.doubt_before):
            return self
        return replace(self, accepted_at=before.isoformat(timespec="microseconds"))

    @property
    def checksum(self) -> str:
        return digest(self.as_json())

    @property
    def bytes(self) -> bytes:
        return canonical_json({"checksum": self.checksum, "fence": self.as_json()}) + b"\n"


def parse_fence(stored: bytes) -> Fence | None:
    """None for anything that `Fence.bytes` did not make."""
    try:
        held: dict[str, Any] = json.loads(stored)["fence"]
        fence = Fence(
            state=FenceState(held["state"]),
            store=held["store"],
            place=held["place"],
            reason=FenceReason(held["reason"]),
            note=held["note"],
            accepted=held["accepted"],
            accepted_at=held["accepted_at"],
            head=Head(held["head"]["sequence"], held["head"]["digest"]),
            generation=held["generation"],
        )
        return fence if fence.bytes == stored else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_fence(disk: Disk) -> Fence | None:
    """None when it is not there, or is not what this program wrote. `OSError` when that cannot be told at this moment."""
    try:
        file = disk.open_read(NAME)
    except OSError as error:
        if error.errno in FOR_A_MOMENT:
            raise
        return None
    try:
        return parse_fence(disk.read(file, 0, _MOST_BYTES))
    finally:
        disk.done(file)


def write_fence(disk: Disk, fence: Fence) -> None:
    """Durable when this returns."""
    publish_whole(disk, _TEMPORARY, NAME, fence.bytes)


def write_fence_unsynced(disk: Disk, fence: Fence) -> None:
    """Where the disk syncs nothing any more: the other processes of this host still see it."""
    file = create_anew(disk, _TEMPORARY)
    try:
        write_all(disk, file, fence.bytes)
    finally:
        disk.done(file)
    disk.rename(_TEMPORARY, NAME)

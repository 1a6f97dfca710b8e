"""The head's anchor, outside the chain: two slots of 512 bytes, written in turn, so that a torn write leaves the other.

A chain that ends before its anchor was cut back. The anchor also names the state in which its writer left the active segment: whoever
finds that state need not read what lies before it.

Of the two slots the one that was synced last is never overwritten by a write that is not: after a crash of the machine it is there.
"""

import errno
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from guards.delivery.row import Head
from resources.ledger.file.disk import Disk, File
from resources.ledger.file.writing import sync as synced

NAME: Final = "anchor"
SLOT_BYTES: Final = 512
SLOTS: Final = 2
_FLAGS: Final = ("false", "true")


class Signature(NamedTuple):
    """A file as `stat` sees it: who changes the file changes this."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """`serial` grows with each write; `is_synced` was made durable before its writer went on; `segment` the active one's number;
    `generation` and `is_retired` are the fence document's, at the time."""

    store: str
    serial: int
    head: Head
    segment: int
    signature: Signature
    is_synced: bool
    generation: int
    is_retired: bool = False

    @property
    def bytes(self) -> bytes:
        # Canonical JSON, spelt here because it is written with every transition: every value is a number, a flag, or hex digits.
        held = (
            f'{{"digest":"{self.head.digest}","generation":{self.generation},"is_retired":{_FLAGS[self.is_retired]},'
            f'"is_synced":{_FLAGS[self.is_synced]},"segment":{self.segment},'
            f'"sequence":{self.head.sequence},"serial":{self.serial},"signature":[{",".join(map(str, self.signature))}],'
            f'"store":"{self.store}"}}'
        )
        checksum = hashlib.sha256(held.encode("ascii")).hexdigest()
        return f'{{"anchor":{held},"checksum":"{checksum}"}}'.encode("ascii").ljust(SLOT_BYTES - 1) + b"\n"


def parse_anchor(stored: bytes) -> Anchor | None:
    """None for anything that `Anchor.bytes` did not make."""
    try:
        held: dict[str, Any] = json.loads(stored)["anchor"]
        anchor = Anchor(
            store=held["store"],
            serial=held["serial"],
            head=Head(held["sequence"], held["digest"]),
            segment=held["segment"],
            signature=Signature(*held["signature"]),
            is_synced=held["is_synced"],
            generation=held["generation"],
            is_retired=held["is_retired"],
        )
        return anchor if anchor.bytes == stored else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _newer(one: Anchor | None, two: Anchor | None) -> Anchor | None:
    return two if one is None or (two is not None and two.serial > one.serial) else one


class AnchorFile:
    """Read and written while the store's lock is held, but for `peek`."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.slots: list[Anchor | None] = [None] * SLOTS
        self._stored: list[bytes] = [b""] * SLOTS
        self.is_whole = False

    def read(self) -> None:
        stored = self._disk.read(self._file, 0, SLOTS * SLOT_BYTES + 1)
        for number in range(SLOTS):
            slot = stored[number * SLOT_BYTES : (number + 1) * SLOT_BYTES]
            if slot != self._stored[number]:  # another process writes one slot at a time
                self._stored[number], self.slots[number] = slot, parse_anchor(slot)
        self.is_whole = len(stored) == SLOTS * SLOT_BYTES

    def is_replaced(self) -> bool:
        """Who repairs puts a new file under the name: what is written into the old one nobody reads."""
        mine = self._disk.status(self._file)
        try:
            named = self._disk.status_of(NAME)
        except FileNotFoundError:  # there is none to go on with: whoever opens the store next finds that out
            return False
        return (mine.st_dev, mine.st_ino) != (named.st_dev, named.st_ino)

    def peek(self) -> Anchor | None:
        """Without the lock: the newest that can be read at this moment, when one slot may be half written."""
        stored = self._disk.read(self._file, 0, SLOTS * SLOT_BYTES)
        one, two = (parse_anchor(stored[number * SLOT_BYTES : (number + 1) * SLOT_BYTES]) for number in range(SLOTS))
        return _newer(one, two)

    @property
    def newest(self) -> Anchor | None:
        return _newer(*self.slots)

    @property
    def damaged(self) -> tuple[int, ...]:
        return tuple(number for number, each in enumerate(self.slots) if each is None)

    def write(
        self,
        *,
        store: str,
        head: Head,
        segment: int,
        signature: Signature,
        sync: bool,
        generation: int,
        is_retired: bool = False,
    ) -> None:
        """`OSError` of the write, `SyncFailed` of the sync. Without `sync` it is for the other processes of this host, not for a crash."""
        newest = self.newest
        made = Anchor(
            store=store,
            serial=newest.serial + 1 if newest else 1,
            head=head,
            segment=segment,
            signature=signature,
            is_synced=sync,
            generation=generation,
            is_retired=is_retired,
        )
        number = self._spare()
        data = made.bytes
        if self._disk.overwrite(self._file, number * SLOT_BYTES, data) != len(data):
            self._stored[number], self.slots[number] = b"", None
            raise OSError(errno.ENOSPC, "the anchor was not taken whole")
        self._stored[number], self.slots[number] = data, made
        if sync:
            synced(self._disk, self._file)

    def _spare(self) -> int:
        one, two = self.slots
        if one is None or two is None:
            return 0 if one is None else 1
        if one.is_synced != two.is_synced:
            return 1 if one.is_synced else 0
        return 0 if one.serial < two.serial else 1

    def close(self) -> None:
        self._disk.done(self._file)


def both_slots(
    *,
    store: str,
    head: Head,
    segment: int,
    signature: Signature,
    generation: int,
    is_retired: bool = False,
    serial: int = 1,
) -> bytes:
    """A fresh file's content."""
    return b"".join(
        Anchor(
            store=store,
            serial=serial + number,
            head=head,
            segment=segment,
            signature=signature,
            is_synced=True,
            generation=generation,
            is_retired=is_retired,
        ).bytes
        for number in range(SLOTS)
    )

"""Claims: one file per attempt at a slot, published whole by link, so that of two at once one wins. Durable before its row.

    claims/<customer>/<period>/<kind>         attempt 1
    claims/<customer>/<period>/<kind>.<n>     attempt n

It holds what its opening row says (pins whole), so a claim whose row was never written can be completed, or be given up as doubt. It also
holds the head on which it was made: that row was durable before the claim, so where the chain does not hold it, rows are missing.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from guards.canonical import Json, canonical_json
from guards.delivery.entry import Entry
from guards.delivery.pins import Pins
from guards.delivery.row import Head, Row
from guards.delivery.slot import NotASlot, Slot
from guards.text import one_line
from resources.errors import ConfigurationError
from resources.ledger.file.disk import Disk
from resources.ledger.file.writing import FOR_A_MOMENT, sync, sync_directory, write_all, write_temporary

NAME: Final = "claims"
_TEMPORARY: Final = "temp/claim"
_MOST_BYTES: Final = 80 * 1024
_MOST_SYNCED: Final = 4096
"""Directories that this process has made durable, or found so, and need not sync again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    slot: Slot
    attempt: int
    pins: Pins
    key: str
    approval: dict[str, Json]
    after: Head
    """The chain's head when it was made."""

    @property
    def bytes(self) -> bytes:
        held = canonical_json(
            {
                "version": 1,
                "after": {"sequence": self.after.sequence, "digest": self.after.digest},
                "customer": self.slot.customer,
                "period": self.slot.period,
                "kind": self.slot.kind,
                "reservation": self.slot.reservation_id(self.attempt),
                "attempt": self.attempt,
                "pins": self.pins.as_json(),
                "pins_digest": self.pins.digest,
                "key": self.key,
                "approval": self.approval,
            }
        )
        return b'{"checksum":"' + hashlib.sha256(held).hexdigest().encode("ascii") + b'","claim":' + held + b"}\n"


def claim_of(entry: Entry, after: Head) -> Claim:
    """Of an entry that opens an attempt."""
    assert entry.pins is not None
    return Claim(
        slot=entry.slot, attempt=entry.attempt, pins=entry.pins, key=entry.key, approval=dict(entry.approval), after=after
    )


def head_before(row: Row) -> Head:
    return Head(row.sequence - 1, row.previous)


def claim_before(row: Row) -> Claim:
    """Of a row that opens an attempt, as if it had been written at once."""
    return claim_of(row.entry, head_before(row))


def parse_claim(stored: bytes) -> Claim | None:
    """None for anything that `Claim.bytes` did not make."""
    try:
        held: dict[str, Any] = json.loads(stored)["claim"]
        claim = Claim(
            slot=Slot(held["customer"], held["period"], held["kind"]),
            attempt=held["attempt"],
            pins=Pins(facts=held["pins"]["facts"], authority=held["pins"]["authority"]),
            key=held["key"],
            approval=held["approval"],
            after=Head(held["after"]["sequence"], held["after"]["digest"]),
        )
        return claim if claim.bytes == stored else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def made_on(stored: bytes) -> Head:
    """The head that a claim names, whatever else it holds: compare the whole. The empty one for what names none."""
    try:
        after = json.loads(stored)["claim"]["after"]
        made = Head(after["sequence"], after["digest"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return Head()
    return made if type(made.sequence) is int and type(made.digest) is str else Head()


def path_of(slot: Slot, attempt: int) -> str:
    return f"{NAME}/{slot.customer}/{slot.period}/{_file_name(slot.kind, attempt)}"


def _file_name(kind: str, attempt: int) -> str:
    return kind if attempt == 1 else f"{kind}.{attempt}"


class Claims:
    """Used while the store's lock is held, but for reading: a claim never changes."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._synced: dict[str, None] = {}

    def read(self, slot: Slot, attempt: int) -> bytes | None:
        """None when there is none. `OSError` as the disk says it."""
        try:
            file = self._disk.open_read(path_of(slot, attempt))
        except FileNotFoundError:
            return None
        try:
            return self._disk.read(file, 0, _MOST_BYTES)
        finally:
            self._disk.done(file)

    def problem(self, row: Row, holds: Callable[[Head], bool]) -> str:
        """Why the claim of this opening row is not what it should be; "" when it is. `holds`: the chain before it does."""
        entry = row.entry
        try:
            stored = self.read(entry.slot, entry.attempt)
        except OSError as error:
            if error.errno in FOR_A_MOMENT:
                raise
            return f"its claim cannot be read ({error.strerror})"
        if stored is None:
            return "its claim is gone"
        if stored == claim_of(entry, head_before(row)).bytes:
            return ""
        claim = parse_claim(stored)  # completed by a later request: other rows may have come in between
        if claim is None or stored != claim_of(entry, claim.after).bytes:
            return "its claim is not what was written"
        is_before = claim.after.sequence < row.sequence and holds(claim.after)
        return "" if is_before else "its claim was made on a row that the chain does not hold"

    def publish(self, claim: Claim) -> bool:
        """Durable when this returns. False: there is one already, and nothing was changed. `OSError`: nothing is left of it."""
        made = self._directories(claim.slot)
        path = path_of(claim.slot, claim.attempt)
        linked = False
        try:
            write_temporary(self._disk, _TEMPORARY, claim.bytes)
            try:
                self._disk.link(_TEMPORARY, path)
                linked = True
            finally:
                self._disk.unlink(_TEMPORARY)
            self._sync(claim.slot)
        except FileExistsError:
            return False
        except OSError:
            self._synced.clear()  # a directory may be gone that was there: the next makes it again
            if linked:
                with suppress(OSError):
                    self._disk.unlink(path)
            self._undo(made)
            raise
        return True

    def withdraw(self, claim: Claim) -> None:
        """Its row could not be written, and nobody can have seen it: the lock was held throughout."""
        self._synced.clear()  # an error on the way: another process may take the directories away
        self._disk.unlink(path_of(claim.slot, claim.attempt))
        directory = f"{NAME}/{claim.slot.customer}/{claim.slot.period}"
        sync_directory(self._disk, directory)
        if not self._disk.names(directory):
            self._undo([directory])
            if not self._disk.names(f"{NAME}/{claim.slot.customer}"):
                self._undo([f"{NAME}/{claim.slot.customer}"])

    def make_durable(self, slot: Slot) -> None:
        """Of a claim that a process left which may have died before it synced the directories."""
        self._synced.clear()
        self._sync(slot)

    def replace(self, claim: Claim) -> None:
        """Anew, over whatever stands there. For repair."""
        self._directories(claim.slot)
        write_temporary(self._disk, _TEMPORARY, claim.bytes)
        self._disk.rename(_TEMPORARY, path_of(claim.slot, claim.attempt))
        self.make_durable(claim.slot)

    def write_many(self, claims: Iterable[Claim]) -> None:
        """Into a store that does not count yet; durable when this returns. `FileExistsError` for a claim that is there.

        Synced one after the other while they were written, 33,000 took 190 s.
        """
        self.write_copies((claim.slot, claim.attempt, claim.bytes) for claim in claims)

    def write_copies(self, copies: Iterable[tuple[Slot, int, bytes]]) -> None:
        written: list[str] = []
        for slot, attempt, data in copies:
            self._directories(slot)
            written.append(path_of(slot, attempt))
            file = self._disk.create(written[-1])
            try:
                write_all(self._disk, file, data)
            finally:
                self._disk.done(file)
        self._disk.flush()
        for path in written:
            file = self._disk.open_read(path)
            try:
                sync(self._disk, file)
            finally:
                self._disk.done(file)
        self._sync_all()

    def _sync_all(self) -> None:
        """Every directory, deepest first."""
        for customer in self._directories_in(NAME):
            for period in self._directories_in(f"{NAME}/{customer}"):
                sync_directory(self._disk, f"{NAME}/{customer}/{period}")
            sync_directory(self._disk, f"{NAME}/{customer}")
        sync_directory(self._disk, NAME)

    def walk(self) -> Iterator[tuple[Slot, int]]:
        """Every claim, by its name. Names that no claim has are passed over; links are refused."""
        for customer in self._directories_in(NAME):
            for period in self._directories_in(f"{NAME}/{customer}"):
                for entry in self._disk.entries(f"{NAME}/{customer}/{period}"):
                    if not entry.is_file:
                        raise _foreign(f"{NAME}/{customer}/{period}/{entry.name}")
                    kind, _, number = entry.name.partition(".")
                    with suppress(NotASlot, ValueError):
                        slot, attempt = Slot(customer, period, kind), int(number) if number else 1
                        if _file_name(kind, attempt) == entry.name:
                            yield slot, attempt

    def emptied(self) -> Iterator[tuple[str, str]]:
        """Customer and period of directories without a claim: it was deleted, or whoever was to make it was killed."""
        for customer in self._directories_in(NAME):
            for period in self._directories_in(f"{NAME}/{customer}"):
                if not self._disk.names(f"{NAME}/{customer}/{period}"):
                    yield customer, period

    def _directories_in(self, path: str) -> Iterator[str]:
        try:
            entries = self._disk.entries(path)
        except FileNotFoundError:
            return
        for entry in entries:
            if not entry.is_directory:
                raise _foreign(f"{path}/{entry.name}")
            yield entry.name

    def _directories(self, slot: Slot) -> list[str]:
        """Those that were made, deepest last."""
        made: list[str] = []
        try:
            for path in (f"{NAME}/{slot.customer}", f"{NAME}/{slot.customer}/{slot.period}"):
                if path in self._synced:
                    continue
                with suppress(FileExistsError):
                    self._disk.make_directory(path)
                    made.append(path)
        except OSError:
            self._undo(made)
            raise
        return made

    def _undo(self, made: list[str]) -> None:
        for path in reversed(made):
            self._synced.pop(path, None)
            with suppress(OSError):
                self._disk.remove_directory(path)

    def _sync(self, slot: Slot) -> None:
        """The claim's entry, and the entries of the directories above it that may not be durable yet."""
        customer, period = f"{NAME}/{slot.customer}", f"{NAME}/{slot.customer}/{slot.period}"
        sync_directory(self._disk, period)
        if period not in self._synced:
            sync_directory(self._disk, customer)
            if customer not in self._synced:
                sync_directory(self._disk, NAME)
            while len(self._synced) >= _MOST_SYNCED:
                del self._synced[next(iter(self._synced))]
            self._synced[customer] = None
            self._synced[period] = None


def _foreign(path: str) -> ConfigurationError:
    return ConfigurationError(
        f"{one_line(path)} in the ledger's directory is not a claim's: a link, or a foreign file. Remove it"
    )

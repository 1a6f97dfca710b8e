"""The open store: look, append. What every call goes through, whatever it is for; the lock around it is `access`.

Under the lock an unchanged signature of the active segment (device, inode, size, mtime, ctime) means that nothing has happened since this
object looked last; the signature that the last writer anchored means that only the rows after those known are new; anything else is read
again from the first row.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from guards.delivery.entry import Event
from guards.delivery.row import Head, Row
from guards.text import one_line
from resources.ledger.file import fence as fences
from resources.ledger.file.access import CLOSED, Access
from resources.ledger.file.anchor import NAME as ANCHOR
from resources.ledger.file.anchor import Anchor, AnchorFile, Signature, both_slots
from resources.ledger.file.claims import Claims
from resources.ledger.file.disk import Disk
from resources.ledger.file.fence import NEVER, Fence, FenceReason, FenceState, read_fence, write_fence, write_fence_unsynced
from resources.ledger.file.index import Index, key_of
from resources.ledger.file.leases import Leases, MainLock
from resources.ledger.file.line import line_of
from resources.ledger.file.scan import Scan
from resources.ledger.file.segments import Segments, signature_of
from resources.ledger.file.standing import Standing, fence_trouble, judge
from resources.ledger.file.tidying import claim_again, copy_afresh, cut_torn_end
from resources.ledger.file.writing import SyncFailed, publish_whole, sync, write_all


class Core(Access):
    """What this process knows of the store: rows, fence, anchor, and whether it may send."""

    def __init__(
        self,
        disk: Disk,
        lock: MainLock,
        leases: Leases,
        anchor: AnchorFile,
        *,
        clock: Callable[[], datetime],
        seal_rows: int,
        seal_bytes: int,
    ) -> None:
        super().__init__(disk, lock, leases, anchor, Segments(disk))
        self.claims = Claims(disk)
        self.scan = Scan(self.segments, self.claims)
        self.standing = Standing()
        self.fence: Fence | None = None
        self._clock = clock
        self._seal = (seal_rows, seal_bytes)
        self._fence_seen: Signature | None = None
        self._seen: Signature | None = None
        self._accepted = NEVER
        self._known: Head | None = None

    @property
    def index(self) -> Index:
        return self.scan.index

    @property
    def store(self) -> str:
        return self.fence.store if self.fence is not None else "(no name)"

    @property
    def doubt_before(self) -> datetime | None:
        return self.fence.doubt_before if self.fence is not None else None

    def now(self) -> datetime:
        return self._clock().astimezone(UTC)

    # Looking

    def look(self) -> None:
        if self.anchor.is_replaced():
            self._fence_seen = None  # everything is read again
            self._reopen_anchor()
        seen = self._fence_signature()
        if seen is None or seen != self._fence_seen:
            self.fence, self._fence_seen = read_fence(self.disk), seen
            try:
                if self.fence is not None and self.fence.reason is FenceReason.SYNC_FAILED:
                    self.recover_from_failed_sync()
                else:
                    self.rescan()
            except BaseException:
                self._fence_seen = None  # it was not looked at to the end: the next look begins again
                raise
        elif self.segments.signature(self.scan.segment) != self._seen or self._is_overtaken():
            self._catch_up()

    def look_again(self) -> None:
        """What is remembered may not be what is on the disk: the next look reads everything."""
        self._fence_seen = None

    def _fence_signature(self) -> Signature | None:
        try:
            return signature_of(self.disk.status_of(fences.NAME))
        except FileNotFoundError:
            return None

    def _is_full(self) -> bool:
        return self.scan.in_segment >= self._seal[0] or self.scan.offset >= self._seal[1]

    def _is_overtaken(self) -> bool:
        """A full segment no longer changes: whether the next has begun has to be asked."""
        return self._is_full() and self.segments.signature(self.scan.segment + 1) is not None

    def _catch_up(self) -> None:
        self.segments.reopen()
        self.anchor.read()
        newest = self.anchor.newest
        if newest is None or not self._is_published(newest) or not self._take_written(newest.segment, newest.head):
            self.rescan()
            return
        self._seen = newest.signature

    def _is_published(self, newest: Anchor) -> bool:
        """The last writer left everything so, and came to its end."""
        return (
            newest.store == self.store
            and self.segments.signature(newest.segment) == newest.signature
            and self.segments.signature(newest.segment + 1) is None
        )

    def _take_written(self, until: int, head: Head) -> bool:
        if self._seen is None or self.standing.is_cut or until < self.scan.segment:
            return False
        return self._take_lines(until, size=None) and self.index.head == head

    def _take_lines(self, until: int, *, size: int | None) -> bool:
        """Up to the segment `until`, and of that `size` bytes or all there are."""
        for number in range(self.scan.segment, until + 1):
            begin = self.scan.offset if number == self.scan.segment else 0
            for offset, line in self.segments.lines(number, begin, size if number == until else None):
                if not self.scan.take_written(number, offset, line):
                    return False
        return True

    def look_ahead(self) -> None:
        """Rows that are published are durable, and nobody takes them back: eight processes at one store spent a quarter of their turns on
        reading them. Nothing is concluded here: the look that follows compares where this came to."""
        if self._seen is None or self.standing.is_cut:
            return
        with suppress(OSError):  # the look that follows meets it too, and says so
            newest = self.anchor.peek()
            if newest is not None and newest.store == self.store:
                self._take_lines(newest.segment, size=newest.signature.size)

    def begin(self, scan: Scan) -> None:
        """The first look, with what was read of it without the lock."""
        self.fence, self._fence_seen = read_fence(self.disk), self._fence_signature()
        if self.fence is not None and self.fence.reason is FenceReason.SYNC_FAILED:
            self.recover_from_failed_sync()
        else:
            self.conclude(scan)

    @property
    def known(self) -> Head:
        """The last row that was seen here. That it is gone is known until a person accepts it, whatever becomes of the fence document."""
        return self._known if self.standing.is_cut and self._known is not None else self.index.head

    def rescan(self) -> None:
        """From the first row, under the lock."""
        if self._seen is not None:
            self._known = self.known
        if self.fence is not None and self.fence.acceptance != self._accepted:
            self._known = None
        scan = Scan(self.segments, self.claims)
        scan.list_claims()
        self.conclude(scan, known=self._known)

    def conclude(self, scan: Scan, *, known: Head | None = None) -> None:
        """Reads what is left, under the lock; what was never acknowledged at the end is set aside and cut."""
        self.segments.reopen()
        self.anchor.read()
        scan.run(self.segments.numbers())
        if self.fence is not None and self.fence.may_be_tidied:
            cut_torn_end(scan, disk=self.disk, segments=self.segments, anchor=self.anchor)
        self.standing = judge(scan, disk=self.disk, segments=self.segments, anchor=self.anchor, fence=self.fence, known=known)
        self.scan = scan
        if self.fence is not None:
            self._accepted = self.fence.acceptance
        if self.standing.is_cut and known is not None and self.fence is not None and self.fence.state is FenceState.READY:
            self.write_fence(
                replace(
                    self.fence,
                    state=FenceState.RECOVERY_REQUIRED,
                    reason=FenceReason.CUT_BACK,
                    note=f"row {known.sequence} was known",
                    head=known,
                )
            )
        is_begun = (
            self.fence is not None and self.fence.state is FenceState.PREPARING
        )  # what is being taken over does not count yet
        self._seen = None if is_begun else self.segments.signature(scan.segment)
        if not self.standing.trouble:
            self._publish_if_behind()

    def take_verified(self, scan: Scan) -> None:
        """A scan of the same moment: what it found in doubt is in doubt from now on."""
        if scan.torn is None and (scan.segment, scan.offset) == (self.scan.segment, self.scan.offset):
            self.scan = scan

    def _publish_if_behind(self) -> None:
        """A writer was killed between its row and the anchor: the row may not be durable yet. It is believed from now on, so it must be."""
        newest = self.anchor.newest
        if newest is None or newest.head != self.index.head or newest.signature != self._seen:
            sync(self.disk, self.segments.file(self.scan.segment))
            if not self.anchor.damaged:  # a damaged slot stays to be seen, until the next transition writes there
                self._anchor(self.index.head, durable=True)

    def _anchor(self, head: Head, *, durable: bool) -> None:
        assert self._seen is not None
        self.anchor.write(
            store=self.store,
            head=head,
            segment=self.scan.segment,
            signature=self._seen,
            sync=durable,
            generation=self._generation,
            is_retired=self._is_retired,
        )

    @property
    def _generation(self) -> int:
        newest = self.anchor.newest
        return max(newest.generation if newest is not None else 0, self.fence.generation if self.fence is not None else 0)

    @property
    def _is_retired(self) -> bool:
        newest = self.anchor.newest
        return (newest is not None and newest.is_retired) or (self.fence is not None and self.fence.state is FenceState.RETIRED)

    def write_fence(self, fence: Fence) -> None:
        """Durable, and then the anchor says under which document it was written: never before, or a crash between them would tell of an
        older document."""
        self.anchor.read()
        made = replace(fence, generation=self._generation + 1)
        self._fence_seen = None  # an error on the way: the next look reads what there is
        write_fence(self.disk, made)
        self.fence = made
        newest = self.anchor.newest
        if newest is not None and newest.store == made.store and not self.anchor.damaged:
            self.anchor.write(
                store=newest.store,
                head=newest.head,
                segment=newest.segment,
                signature=newest.signature,
                sync=True,
                generation=made.generation,
                is_retired=self._is_retired,
            )
        self._fence_seen = self._fence_signature()

    def fence_trouble(self) -> str:
        return fence_trouble(self.disk, self.segments, self.fence, self.anchor.newest)

    def recover_from_failed_sync(self) -> None:
        """Everything is read again. What was being written goes to fresh files, since pages that failed may be marked clean."""
        self.rescan()
        if self.standing.is_cut or self.fence is None:
            return
        self.write_afresh()
        self.write_fence(replace(self.fence, state=FenceState.READY, reason=FenceReason.NONE, note="", head=Head()))
        self.standing = Standing(self.fence_trouble())

    def write_afresh(self) -> None:
        """What may seem to be on the disk, and not be."""
        copy_afresh(self.scan.segment, disk=self.disk, segments=self.segments)
        claim_again(self.index.orphans, self.claims)
        self._seen = self.segments.signature(self.scan.segment)
        self.fresh_anchor()

    def accept(self) -> None:
        """What is there is the chain from now on."""
        self._accepted = self.fence.acceptance if self.fence is not None else NEVER
        self.outdate_copies()

    def outdate_copies(self) -> None:
        """The rows go to other files. Fence document and anchor of an earlier moment, put back together, name the file that was there
        then: without this they would take back what a person has said since."""
        for number in self.segments.numbers():
            copy_afresh(number, disk=self.disk, segments=self.segments)
        self._seen = self.segments.signature(self.scan.segment)
        self.fresh_anchor()

    def settle_in(self, *, segment: int) -> None:
        """After rows were taken over: what they amount to is read, and anchored."""
        self.claims = Claims(self.disk)
        scan = Scan(self.segments, self.claims)
        scan.run(range(1, segment + 1))
        scan.finish(None)
        self.scan = scan
        self._seen = self.segments.signature(scan.segment)
        self.fresh_anchor()

    def begin_again(self) -> None:
        """As when it was opened."""
        self._seen = self._fence_seen = self._known = None
        self._reopen_anchor()
        self.fence, self._fence_seen = read_fence(self.disk), self._fence_signature()
        self.rescan()

    def fresh_anchor(self) -> None:
        """A new file, whole: for what was proven, or accepted."""
        assert self._seen is not None
        newest = self.anchor.newest
        data = both_slots(
            store=self.store,
            head=self.index.head,
            segment=self.scan.segment,
            signature=self._seen,
            generation=self._generation,
            is_retired=self._is_retired,
            serial=newest.serial + 1 if newest else 1,
        )
        publish_whole(self.disk, "temp/anchor", ANCHOR, data)
        self._reopen_anchor()
        self.anchor.read()

    def _reopen_anchor(self) -> None:
        """What stands at its name now."""
        named = AnchorFile(self.disk, self.disk.open_fixed(ANCHOR))
        self.anchor.close()
        self.anchor = named

    def give_up(self, failed: SyncFailed) -> None:
        """A sync failed: what was written may be there, or only seem to be. Nothing is believed until everything was read again."""
        if self.fence is not None and self.fence.state is FenceState.READY:  # any other state keeps its own reason
            note = one_line(str(failed), limit=200)
            doubtful = replace(
                self.fence,
                state=FenceState.RECOVERY_REQUIRED,
                reason=FenceReason.SYNC_FAILED,
                note=note,
                head=self.known if self.standing.is_cut else self.fence.head,
                generation=self._generation + 1,
            )
            try:
                write_fence(self.disk, doubtful)
            except (OSError, SyncFailed):
                with suppress(OSError):
                    write_fence_unsynced(self.disk, doubtful)
        self.close(f"{CLOSED} (the disk did not take what was written)")

    # Writing

    def append(self, rows: Sequence[Row], *, durable_anchor: bool = False) -> None:
        """Durable when this returns. `OSError`: nothing was recorded. `SyncFailed`: who knows."""
        begun = self._begin_segment_when_full()
        scan, number = self.scan, self.scan.segment
        file = self.segments.file(number)
        lines = [line_of(row.digest, row.bytes) for row in rows]
        before = scan.offset
        try:
            write_all(self.disk, file, b"".join(lines))
        except OSError:
            self._cut_back(before)
            if begun is not None:
                self._undo_segment(begun)
            raise
        sync(self.disk, file)
        try:
            self._seen = signature_of(self.disk.status(file))
        except OSError as error:  # the row is durable: "not recorded" would be untrue
            raise SyncFailed(f"{file.path}: {error.strerror or error!r}") from error
        try:
            self._anchor(rows[-1].head, durable=durable_anchor)
        except OSError:
            if durable_anchor:
                self._cut_back(before)
                if begun is not None:
                    self._undo_segment(begun)
                raise
        for row, line in zip(rows, lines, strict=True):
            entry = row.entry
            scan.take_own(entry.slot, entry.reservation_id, entry.state, row.head, number, scan.offset, len(line))
            if entry.event is Event.OPENED:
                self.index.orphans.pop(key_of(entry.slot), None)

    def _cut_back(self, size: int) -> None:
        """What was appended, and nobody was told of, goes again."""
        file = self.segments.file(self.scan.segment)
        try:
            self.disk.truncate(file, size)
        except OSError as error:
            raise SyncFailed(f"{file.path} could not be cut back: {error.strerror or error!r}") from error
        sync(self.disk, file)
        self._seen = signature_of(self.disk.status(file))

    def _begin_segment_when_full(self) -> tuple[int, int, int] | None:
        """Where the scan stood, when the next segment was begun."""
        if not self._is_full():
            return None
        scan = self.scan
        before = (scan.segment, scan.offset, scan.in_segment)
        self.segments.create(scan.segment + 1)
        scan.segment, scan.offset, scan.in_segment = scan.segment + 1, 0, 0
        self._seen = self.segments.signature(scan.segment)
        return before

    def _undo_segment(self, before: tuple[int, int, int]) -> None:
        """An empty segment that no row came into."""
        self.segments.remove(self.scan.segment)
        self.scan.segment, self.scan.offset, self.scan.in_segment = before
        self._seen = self.segments.signature(self.scan.segment)

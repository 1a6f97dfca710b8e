"""Taking over the rows of another store into an empty one: verified whole, then durable whole or not at all.

The rows are staged where they do not count. Then the fence says `preparing`, and they move: who finds that fence after a crash takes away
what had moved, so the store is empty again. The claims follow from the rows. That it came to its end is marked in `quarantine/`: then no
fence document of that time empties the store, should one be put back.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from guards.delivery.entry import Event
from guards.delivery.refusal import LedgerRefused
from guards.delivery.replay import Replay
from guards.delivery.row import Row, parse_row
from resources.ledger.file.claims import claim_before
from resources.ledger.file.core import Core
from resources.ledger.file.disk import File
from resources.ledger.file.fence import Fence, FenceReason, FenceState
from resources.ledger.file.line import line_of, split_line
from resources.ledger.file.opening import make_parts
from resources.ledger.file.segments import NAME, path_of
from resources.ledger.file.tidying import ADOPTED, set_aside
from resources.ledger.file.writing import create_anew, sync, sync_directory, write_all
from resources.ledger.interface import StoredRow, not_taken


class NotGiven(Exception):
    """Whoever was to give the rows failed: its error, which is none of this store's disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _from_outside(rows: Iterable[StoredRow]) -> Iterator[StoredRow]:
    try:
        for row in rows:
            yield StoredRow(*row)
    except OSError as error:
        raise NotGiven(error) from error


def _of_a_copy(fence: Fence) -> Fence:
    return replace(fence, state=FenceState.RECOVERY_REQUIRED, reason=FenceReason.COPIED)


class Adopter:
    """Used under the store's lock, on an empty store."""

    def __init__(self, core: Core, *, seal_rows: int, seal_bytes: int) -> None:
        self._core = core
        self._seal = (seal_rows, seal_bytes)
        self._staged: list[str] = []

    def adopt(self, rows: Iterable[StoredRow], *, doubt_before: datetime | None, is_copy: bool) -> LedgerRefused | None:
        """None when they are there. `is_copy`: then the store is one until a person's word is carried out, also after a crash."""
        core, fence = self._core, self._core.fence
        assert fence is not None
        fence = fence.doubting(doubt_before)
        try:
            refused = self._stage(rows)
            if refused is not None or not self._staged:
                return refused
            try:
                core.write_fence(replace(fence, state=FenceState.PREPARING, reason=FenceReason.ADOPTING))
                self._move()
                core.settle_in(segment=len(self._staged))
                core.write_fence(_of_a_copy(fence) if is_copy else fence)
                set_aside(core.disk, ADOPTED, f"{core.index.head.digest}\n".encode("ascii"))
            except OSError:
                if not self._is_there_after_all():
                    raise
        finally:
            self._unstage()
        core.begin_again()
        return None

    def _is_there_after_all(self) -> bool:
        """After an error: empty again, unless the fence that makes the rows count is durable, and only its anchor was not taken. Where the
        disk does not take even this, the store says that it is in the middle of an import."""
        core = self._core
        core.segments.reopen()
        try:
            make_parts(core.disk)
        finally:
            core.begin_again()
        return core.index.head.sequence > 0

    def _stage(self, rows: Iterable[StoredRow]) -> LedgerRefused | None:
        disk, replay = self._core.disk, Replay(is_lean=True)
        file: File | None = None
        written = held = 0
        try:
            for row in _from_outside(rows):
                replay.take(*row)
                if replay.faults:
                    break
                if file is None or held >= self._seal[0] or written >= self._seal[1]:
                    if file is not None:
                        self._finish(file)
                        file = None  # closed: the next may not be made
                    written = held = 0
                    self._staged.append(f"temp/{len(self._staged) + 1:06d}.jsonl")
                    file = create_anew(disk, self._staged[-1])
                line = line_of(row.digest, row.row)
                write_all(disk, file, line)
                written, held = written + len(line), held + 1
            if file is not None:
                sync(disk, file)
        finally:
            if file is not None:
                disk.done(file)
        return not_taken(replay.faults[0]) if replay.faults else None

    def _finish(self, file: File) -> None:
        sync(self._core.disk, file)
        self._core.disk.done(file)

    def _move(self) -> None:
        core = self._core
        for number, staged in enumerate(self._staged, start=1):
            core.disk.rename(staged, path_of(number))
        sync_directory(core.disk, NAME)
        core.segments.reopen()
        core.claims.write_many(claim_before(row) for row in self._opening_rows())

    def _opening_rows(self) -> Iterator[Row]:
        for number in range(1, len(self._staged) + 1):
            for _, line in self._core.segments.lines(number):
                parts = split_line(line[:-1])
                assert parts is not None  # this process has just written it
                row = parse_row(parts[1])
                if row.entry.event is Event.OPENED:
                    yield row

    def _unstage(self) -> None:
        names = set(self._core.disk.names("temp"))
        for staged in self._staged:
            if staged.removeprefix("temp/") in names:
                self._core.disk.unlink(staged)

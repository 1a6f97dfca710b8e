"""The disk after a crash, for the store that is opened on it: the same files as before, by what `stat` says of them.

A copy in another place would be told by its inodes and times, and refused or read anew for that alone. A crash changes neither.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resources.ledger.file.disk import Disk, File
from tests.crash.ledger.crashes import Tree, numbered, stats, written_out
from tests.crash.ledger.recording import Recorder, RecordingDisk, Stat

_OF_THE_FILE = ("st_dev", "st_ino")


class _Status:
    def __init__(self, real: os.stat_result, same: Stat, *, is_written: bool) -> None:
        self._real = real
        self._same = same
        self._as_before = _OF_THE_FILE if is_written else Stat._fields

    def __getattr__(self, name: str) -> Any:
        return getattr(self._same if name in self._as_before else self._real, name)


class Restored(Disk):
    """A file's device and inode are those from before the crash, and until this disk itself writes it so are its times."""

    same: dict[str, Stat]

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.written: set[str] = set()

    def status(self, file: File) -> Any:
        return self._as_before(file.path, super().status(file))

    def status_of(self, path: str = ".") -> Any:
        return self._as_before(path, super().status_of(path))

    def append(self, file: File, data: bytes) -> int:
        self.written.add(file.path)
        return super().append(file, data)

    def overwrite(self, file: File, offset: int, data: bytes) -> int:
        self.written.add(file.path)
        return super().overwrite(file, offset, data)

    def truncate(self, file: File, size: int) -> None:
        self.written.add(file.path)
        super().truncate(file, size)

    def unlink(self, path: str) -> None:
        self.same.pop(path, None)
        super().unlink(path)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.same.pop(target, None)
        self.written.discard(target)
        if source in self.written:
            self.written.remove(source)
            self.written.add(target)
        if source in self.same:
            self.same[target] = self.same.pop(source)

    def _as_before(self, path: str, real: os.stat_result) -> Any:
        same = self.same.get(path)
        return real if same is None else _Status(real, same, is_written=path in self.written)


class Recovering(Restored, RecordingDisk):
    """The same, and what it does is recorded: recovery can be cut short too."""


def recovering(tree: Tree, root: Path) -> tuple[Recorder, Callable[[Path], Recovering]]:
    written_out(tree, root)
    recorder = Recorder()
    recorder.names |= numbered(tree)
    same = stats(tree)

    def made(where: Path) -> Recovering:
        disk = Recovering(where)
        disk.same, disk.recorder = same, recorder
        return disk

    return recorder, made


def restored(tree: Tree, root: Path) -> Callable[[Path], Restored]:
    """`tree` as real files in `root`, and the disk to open the store with."""
    written_out(tree, root)
    same = stats(tree)

    def made(where: Path) -> Restored:
        disk = Restored(where)
        disk.same = same
        return disk

    return made

"""Records, in order, every call of the file store that changes the disk, and every sync: what a crash may take back is not synced.

recorder = Recorder()
ledger = FileLedger.open(root, disk=recording(recorder))
recorder.steps                       # so far
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from resources.ledger.file.disk import Disk, File

Call = Literal[
    "make_directory",
    "remove_directory",
    "create",
    "append",
    "overwrite",
    "truncate",
    "sync",
    "sync_directory",
    "link",
    "rename",
    "unlink",
]


class Stat(NamedTuple):
    """What a crash does not take back, seen from the program's side: the file is the same one, and its times are the last ones."""

    st_dev: int
    st_ino: int
    st_mtime_ns: int
    st_ctime_ns: int


@dataclass(frozen=True, slots=True)
class Step:
    """`file` numbers the open file that a call by descriptor is about: the number of the step that created it, or its path."""

    call: Call
    path: str = ""
    target: str = ""
    data: bytes = b""
    offset: int = 0
    file: int = -1
    stat: Stat | None = None


class Recorder:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.names: dict[str, int] = {}
        """Path to the number of the file there: a rename or a link takes the number with it."""

    def take(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1


class RecordingDisk(Disk):
    recorder: Recorder

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._numbers: dict[int, int] = {}

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        self.recorder.take(Step("make_directory", path))

    def remove_directory(self, path: str) -> None:
        super().remove_directory(path)
        self.recorder.take(Step("remove_directory", path))

    def create(self, path: str) -> File:
        file = super().create(path)
        number = self.recorder.take(Step("create", path, file=len(self.recorder.steps), stat=_stat(self.status(file))))
        self.recorder.names[path] = self._numbers[file.descriptor] = number
        return file

    def append(self, file: File, data: bytes) -> int:
        taken = super().append(file, data)
        self._written("append", file, data=bytes(data[:taken]))
        return taken

    def overwrite(self, file: File, offset: int, data: bytes) -> int:
        taken = super().overwrite(file, offset, data)
        self._written("overwrite", file, data=bytes(data[:taken]), offset=offset)
        return taken

    def truncate(self, file: File, size: int) -> None:
        super().truncate(file, size)
        self._written("truncate", file, offset=size)

    def _written(self, call: Call, file: File, *, data: bytes = b"", offset: int = 0) -> None:
        number = self._numbers[file.descriptor]
        self.recorder.take(Step(call, file.path, data=data, offset=offset, file=number, stat=_stat(self.status(file))))

    def sync(self, file: File) -> None:
        super().sync(file)
        self.recorder.take(Step("sync", file.path, file=self._numbers[file.descriptor]))

    def sync_directory(self, path: str = ".") -> None:
        super().sync_directory(path)
        self.recorder.take(Step("sync_directory", path))

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self.recorder.take(Step("link", source, target))
        self.recorder.names[target] = self.recorder.names[source]

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.recorder.take(Step("rename", source, target))
        if source in self.recorder.names:
            self.recorder.names[target] = self.recorder.names.pop(source)

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.recorder.take(Step("unlink", path))
        self.recorder.names.pop(path, None)

    def open_append(self, path: str) -> File:
        return self._known(super().open_append(path))

    def open_fixed(self, path: str) -> File:
        return self._known(super().open_fixed(path))

    def open_read(self, path: str) -> File:
        return self._known(super().open_read(path))

    def _known(self, file: File) -> File:
        self._numbers[file.descriptor] = self.recorder.names[file.path]
        return file


def _stat(status: os.stat_result) -> Stat:
    return Stat(status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


class NeverSyncs(RecordingDisk):
    """A broken disk, for the test of the model itself: files are not synced."""

    def sync(self, file: File) -> None:
        pass


class NeverSyncsDirectories(RecordingDisk):
    def sync_directory(self, path: str = ".") -> None:
        pass


def recording(recorder: Recorder, kind: type[RecordingDisk] = RecordingDisk) -> Callable[[Path], RecordingDisk]:
    def made(root: Path) -> RecordingDisk:
        disk = kind(root)
        disk.recorder = recorder
        return disk

    return made

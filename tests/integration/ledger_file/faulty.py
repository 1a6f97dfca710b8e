"""Disks that fail at the n-th call of some kind, as the kernel would say it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from resources.ledger.file.disk import Disk, Entry, File


class Fault:
    """Armed with n: the n-th call from then on fails, and, where `stays`, every one after it. `left` above 0 at the end: it never came."""

    def __init__(self, number: int = 0, code: int = errno.ENOSPC, *, stays: bool = False) -> None:
        self.left = number
        self.code = code
        self.stays = stays
        self.has_failed = False

    def tick(self) -> None:
        if self.left > 0:
            self.left -= 1
            if self.left == 0:
                self.has_failed = True
                self.left = int(self.stays)
                raise OSError(self.code, os.strerror(self.code))


class FullDisk(Disk):
    """ENOSPC where something has to be allocated; an append takes half before that."""

    fault: Fault

    def make_directory(self, path: str) -> None:
        self.fault.tick()
        super().make_directory(path)

    def create(self, path: str) -> File:
        self.fault.tick()
        return super().create(path)

    def append(self, file: File, data: bytes) -> int:
        try:
            self.fault.tick()
        except OSError:
            super().append(file, data[: len(data) // 2])
            raise
        return super().append(file, data)

    def overwrite(self, file: File, offset: int, data: bytes) -> int:
        self.fault.tick()
        return super().overwrite(file, offset, data)

    def link(self, source: str, target: str) -> None:
        self.fault.tick()
        super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        self.fault.tick()
        super().rename(source, target)


class ShortDisk(Disk):
    """Takes 7 bytes at a time, as a disk that is nearly full may."""

    def append(self, file: File, data: bytes) -> int:
        return super().append(file, data[:7])


class NoMoreFiles(Disk):
    """Its process has too many files open for a moment."""

    fault: Fault

    def open_append(self, path: str) -> File:
        self.fault.tick()
        return super().open_append(path)

    def open_read(self, path: str) -> File:
        self.fault.tick()
        return super().open_read(path)

    def entries(self, path: str = ".") -> list[Entry]:
        self.fault.tick()
        return super().entries(path)

    def names(self, path: str = ".") -> list[str]:
        self.fault.tick()
        return super().names(path)


class FullSegments(Disk):
    """No space for a row, and enough for all else."""

    fault: Fault

    def append(self, file: File, data: bytes) -> int:
        if file.path.startswith("segments/"):
            self.fault.tick()
        return super().append(file, data)


class NoNames(FullSegments):
    """No space for a row, and then no directory can be listed."""

    def names(self, path: str = ".") -> list[str]:
        if self.fault.has_failed:
            self.fault.has_failed = False
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().names(path)


class UnsyncedDisk(Disk):
    fault: Fault

    def sync(self, file: File) -> None:
        self.fault.tick()
        super().sync(file)

    def sync_directory(self, path: str = ".") -> None:
        self.fault.tick()
        super().sync_directory(path)


def failing(kind: type[Disk], fault: Fault) -> Callable[[Path], Disk]:
    def made(root: Path) -> Disk:
        disk = kind(root)
        disk.fault = fault  # type: ignore[attr-defined]
        return disk

    return made


class UnseenDisk(Disk):
    """Does not say how large a file is by now, after it has synced it."""

    fault: Fault

    def status(self, file: File) -> os.stat_result:
        if file.path.startswith("segments/"):
            self.fault.tick()
        return super().status(file)

"""Every call of the file store that reaches the disk, relative to one directory that was opened once.

Tests subclass it: one records each call in order, for the crash model; one fails the n-th (ENOSPC, EIO on fsync); one dies there.
So it stays thin: no policy, no retry, and nothing in the store changes a file around it.
"""

import ctypes
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
_libc: Final = ctypes.CDLL(None)
_OPEN: Final = os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class File:
    """An open file; `path` is relative to the store's directory, with `/`."""

    path: str
    descriptor: int


class Entry(NamedTuple):
    """A name in a directory. A link is neither a directory nor a file."""

    name: str
    is_directory: bool
    is_file: bool


class Disk:
    """Errors are `OSError`, as the kernel says them. Paths are relative and must not contain `..`."""

    def __init__(self, root: Path) -> None:
        """`root` must exist and be a directory, not a link."""
        self.root = root
        self._directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | _OPEN)

    def close(self) -> None:
        os.close(self._directory)

    # What changes the disk. Nothing of it is durable before the sync that follows.

    def make_directory(self, path: str) -> None:
        """One level. The entry is durable once the directory above is synced."""
        os.mkdir(path, PRIVATE_DIRECTORY, dir_fd=self._directory)

    def create(self, path: str) -> File:
        """`FileExistsError` when there is one."""
        return File(
            path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | _OPEN, PRIVATE_FILE, dir_fd=self._directory)
        )

    def append(self, file: File, data: bytes) -> int:
        """How many bytes were taken: fewer when the disk is full."""
        return os.write(file.descriptor, data)

    def overwrite(self, file: File, offset: int, data: bytes) -> int:
        """In place; `file` was opened for that (`open_fixed`)."""
        return os.pwrite(file.descriptor, data, offset)

    def truncate(self, file: File, size: int) -> None:
        os.ftruncate(file.descriptor, size)

    def sync(self, file: File) -> None:
        """Data and size (fdatasync)."""
        os.fdatasync(file.descriptor)

    def sync_directory(self, path: str = ".") -> None:
        """Its entries: what was created, linked, renamed or removed in it."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=self._directory)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, source: str, target: str) -> None:
        """`FileExistsError` when the target exists: of two at once, one wins."""
        os.link(source, target, src_dir_fd=self._directory, dst_dir_fd=self._directory, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Replaces the target."""
        os.rename(source, target, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def unlink(self, path: str) -> None:
        os.unlink(path, dir_fd=self._directory)

    def remove_directory(self, path: str) -> None:
        """Only an empty one goes."""
        os.rmdir(path, dir_fd=self._directory)

    def flush(self) -> None:
        """A hint, and no promise: what is dirty on this file system is written out together, so that many syncs that follow find little
        left to do. Not sync(2): that waits for every disk of the machine."""
        _libc.syncfs(self._directory)

    # What only looks

    def open_append(self, path: str) -> File:
        return File(path, os.open(path, os.O_RDWR | os.O_APPEND | _OPEN, dir_fd=self._directory))

    def open_fixed(self, path: str) -> File:
        """For `overwrite`, and for locks."""
        return File(path, os.open(path, os.O_RDWR | _OPEN, dir_fd=self._directory))

    def open_read(self, path: str) -> File:
        return File(path, os.open(path, os.O_RDONLY | _OPEN, dir_fd=self._directory))

    def read(self, file: File, offset: int, size: int) -> bytes:
        return os.pread(file.descriptor, size, offset)

    def status(self, file: File) -> os.stat_result:
        return os.fstat(file.descriptor)

    def status_of(self, path: str = ".") -> os.stat_result:
        """Of the name itself, never of what a link points to."""
        return os.stat(path, dir_fd=self._directory, follow_symlinks=False)

    def status_of_root(self) -> os.stat_result:
        """Of what stands at the directory's own path now."""
        return self.root.lstat()

    def names(self, path: str = ".") -> list[str]:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=self._directory)
        try:
            return sorted(os.listdir(descriptor))  # noqa: PTH208 - by descriptor
        finally:
            os.close(descriptor)

    def entries(self, path: str = ".") -> list[Entry]:
        """Sorted by name, each with what it is, without a look at each."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=self._directory)
        try:
            with os.scandir(descriptor) as found:
                return sorted(
                    Entry(each.name, each.is_dir(follow_symlinks=False), each.is_file(follow_symlinks=False)) for each in found
                )
        finally:
            os.close(descriptor)

    def done(self, file: File) -> None:
        os.close(file.descriptor)


def is_private(status: os.stat_result) -> bool:
    """Ours, and nobody else may read or write it."""
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077

"""Writing through the disk: whole data, whole files, and what an error of the disk means."""

import errno
from contextlib import suppress
from typing import Final

from resources.errors import OpsGuardError, Unreachable
from resources.ledger.file.disk import Disk, File

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
FOR_A_MOMENT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""This process could not open a file: says nothing about the file."""
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class SyncFailed(Exception):
    """The disk would not say that what was written is there. Not an `OSError`, so that nothing tidies up and goes on: the store closes."""


def sync(disk: Disk, file: File) -> None:
    try:
        disk.sync(file)
    except OSError as error:
        raise SyncFailed(f"{file.path}: {error.strerror or error!r}") from error


def sync_directory(disk: Disk, path: str = ".") -> None:
    try:
        disk.sync_directory(path)
    except OSError as error:
        raise SyncFailed(f"{path}: {error.strerror or error!r}") from error


def write_all(disk: Disk, file: File, data: bytes) -> None:
    """Until the disk has taken all of it, or says why not."""
    rest = memoryview(data)
    while rest:
        taken = disk.append(file, bytes(rest))
        if taken <= 0:
            raise OSError(errno.ENOSPC, "nothing more was taken")
        rest = rest[taken:]


def publish_whole(disk: Disk, temporary: str, name: str, data: bytes) -> None:
    """`name` holds exactly `data`, durably, or what it held before. Names at the top of the store only."""
    write_temporary(disk, temporary, data)
    disk.rename(temporary, name)
    sync_directory(disk)


def write_temporary(disk: Disk, temporary: str, data: bytes) -> None:
    """Its bytes durable, its name not yet. What a crash left under that name goes; so does it when the disk is full."""
    file = create_anew(disk, temporary)
    try:
        write_all(disk, file, data)
        sync(disk, file)
    except OSError:
        with suppress(OSError):
            disk.unlink(temporary)
        raise
    finally:
        disk.done(file)


def create_anew(disk: Disk, temporary: str) -> File:
    try:
        return disk.create(temporary)
    except FileExistsError:
        disk.unlink(temporary)
        return disk.create(temporary)


def refused_by_disk(error: OSError, what: str) -> OpsGuardError:
    """Nothing was recorded: says so, and what to do."""
    if error.errno in _FULL:
        return Unreachable(f"{what} was not recorded: the disk below the ledger is full. Free some space, then the same again")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Unreachable(
            f"{what} was not recorded: too many files are open. Raise `ulimit -n`, or end what holds them, then the same again"
        )
    if error.errno in _READ_ONLY:
        return Unreachable(f"{what} was not recorded: the ledger's directory cannot be written ({error.strerror})")
    return Unreachable(
        f"{what} was not recorded: the disk below the ledger says {error.strerror or error!r}. Look at the disk first"
    )

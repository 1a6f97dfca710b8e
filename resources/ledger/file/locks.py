"""Locks of the kernel's on an open file description (OFD): they die with it, and two of one process exclude each other.

POSIX locks would end whenever any descriptor of the file is closed anywhere in the process. A child made by fork shares the description,
so it must close what it inherited: `closed_in_children`.
"""

import fcntl
import os
import struct
import threading
import weakref
from typing import Final, Protocol

_FLOCK: Final = struct.Struct("hhqqi4x")  # short type, short whence, off_t start, off_t length, pid_t (0 for OFD locks)


def lock(descriptor: int, offset: int = 0) -> None:
    """Exclusive, one byte at `offset`; waits."""
    _call(descriptor, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, offset)


def try_lock(descriptor: int, offset: int) -> bool:
    try:
        _call(descriptor, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, offset)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock(descriptor: int, offset: int = 0) -> None:
    _call(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, offset)


def is_locked(descriptor: int, offset: int) -> bool:
    """By another description; one's own locks do not count."""
    answer = _call(descriptor, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, offset)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _call(descriptor: int, command: int, kind: int, offset: int) -> bytes:
    return fcntl.fcntl(descriptor, command, _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0))


class Inherited(Protocol):
    def forget(self) -> None:
        """Called in a forked child: closes every descriptor, touches nothing else."""
        ...


_living: Final[weakref.WeakSet[Inherited]] = weakref.WeakSet()
_guard: Final = threading.Lock()


def closed_in_children(holder: Inherited) -> None:
    with _guard:
        _living.add(holder)


def _forget_all() -> None:
    for holder in list(_living):
        holder.forget()


os.register_at_fork(after_in_child=_forget_all)

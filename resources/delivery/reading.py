"""Reading files that others write: regular files only, bounded, and below a directory without following a link."""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_QUIET: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Not blocking: a FIFO of that name must not hang a report."""


def read_file(path: Path, *, most_bytes: int) -> bytes:
    """The whole file, or `most_bytes` + 1 of it when it is longer. Links are followed: the path is the settings' own. `OSError`."""
    return _read(os.open(path, _QUIET), most_bytes)


def read_below(root: Path, parts: Sequence[str], *, most_bytes: int) -> bytes:
    """The same for `root/part/…/name`, where no part below `root` may be a link or leave it. `OSError`."""
    held = os.open(root, _QUIET | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(_plain(part), _QUIET | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
            os.close(held)
            held = below
        return _read(os.open(_plain(parts[-1]), _QUIET | os.O_NOFOLLOW, dir_fd=held), most_bytes)
    finally:
        os.close(held)


def said(error: OSError) -> str:
    """In a person's words, without the path."""
    match error.errno:
        case errno.ENOENT:
            return "it is not there"
        case errno.ELOOP | errno.ENOTDIR:
            return "it, or a directory above it, is a link or no directory"
        case errno.EACCES:
            return "permission denied"
        case _:
            return (error.strerror or type(error).__name__).lower()


def _read(descriptor: int, most_bytes: int) -> bytes:
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes + 1)
    finally:
        os.close(descriptor)


def _plain(part: str) -> str:
    if part in ("", ".", "..") or "/" in part or "\x00" in part:
        raise OSError(errno.EINVAL, "Not a name")
    return part

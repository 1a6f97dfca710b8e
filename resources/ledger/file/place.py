"""Where the store may stand: a directory of ours alone, on a local file system that can be written. What is refused says what to do."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from guards.canonical import Json
from guards.text import one_line
from resources.errors import ConfigurationError, Unreachable
from resources.ledger.file.disk import Disk, is_private

_NETWORK: Final = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "9p",
        "ceph",
        "glusterfs",
        "lustre",
        "afs",
        "kafs",
        "gfs2",
        "gfs",
        "ocfs2",
        "ncpfs",
        "coda",
        "pvfs2",
        "orangefs",
        "beegfs",
        "gpfs",
        "vboxsf",
        "prl_fs",
        "virtiofs",
        "davfs",
        "acfs",
    ]
)
"""Where locks, links or fsync do not mean what they mean on one host's own disk. Also every `fuse.*`."""
_MACHINE_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


@dataclass(frozen=True, slots=True)
class Mount:
    device: str
    """`major:minor`."""
    point: str
    kind: str


def mounts(mountinfo: str) -> tuple[Mount, ...]:
    """Of the text of `/proc/<pid>/mountinfo`, in its order: what stands later covers what stands before."""
    return tuple(_mounts(mountinfo))


def _mounts(mountinfo: str) -> Iterator[Mount]:
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if separator and len(fields) >= 6:
            yield Mount(fields[2], _unescaped(fields[4]), kind)


def file_system(path: str, device: int, mountinfo: str) -> str:
    """The kind of file system that holds `path` (absolute, no link in it), "" when the text does not say. A network file system wins
    over anything else that the device number may stand for."""
    known = mounts(mountinfo)
    by_device = [each.kind for each in known if each.device == f"{os.major(device)}:{os.minor(device)}"]
    for kind in by_device:
        if is_network(kind):
            return kind
    covering = [each for each in known if path == each.point or path.startswith(each.point.rstrip("/") + "/")]
    if covering:
        longest = max(len(each.point) for each in covering)
        return [each.kind for each in covering if len(each.point) == longest][-1]
    return by_device[-1] if by_device else ""


def is_network(kind: str) -> bool:
    return kind in _NETWORK or kind == "fuse" or kind.startswith("fuse.")


def read_mounts() -> str:
    """ "" where there is no /proc: then the kind of file system is not known, and not judged."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def require_place(root: Path, mountinfo: str) -> None:
    """Before anything is opened. `ConfigurationError` for what the operator has to change."""
    status = os.lstat(root)
    shown = one_line(str(root), limit=300)
    if stat.S_ISLNK(status.st_mode):
        raise ConfigurationError(f"the ledger's directory {shown} is a symbolic link: name the directory itself")
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError(f"the ledger's directory {shown} is not a directory: name another place for it")
    if status.st_uid != os.geteuid():
        raise ConfigurationError(
            f"the ledger's directory {shown} belongs to another user: run as that user, or `chown -R` it to this one"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigurationError(f"the ledger's directory {shown} is open to other users: `chmod 700` it")
    kind = file_system(os.path.realpath(root), status.st_dev, mountinfo)
    if is_network(kind):
        raise ConfigurationError(
            f"the ledger's directory {shown} is on a network file system ({kind}), where its locks prove nothing: "
            "put it on a disk of this host, or use the PostgreSQL ledger"
        )
    if os.statvfs(root).f_flag & os.ST_RDONLY:
        raise Unreachable(
            f"the ledger's directory {shown} is on a file system that is mounted read-only: remount it, then try again"
        )


def require_private_tree(disk: Disk) -> None:
    """Nothing below is a link, open to others, or somebody else's. Claims are too many to ask for each one's mode: their
    directories keep others out."""
    for entry in disk.entries():
        _require(disk, entry.name, is_directory=entry.is_directory, is_file=entry.is_file)
        if entry.is_directory and entry.name in ("segments", "quarantine", "temp"):
            for below in disk.entries(entry.name):
                _require(disk, f"{entry.name}/{below.name}", is_directory=below.is_directory, is_file=below.is_file)


def _require(disk: Disk, path: str, *, is_directory: bool, is_file: bool) -> None:
    if not (is_directory or is_file):
        raise ConfigurationError(f"{one_line(path)} in the ledger's directory is a link or a special file: remove it")
    if not is_private(disk.status_of(path)):
        raise ConfigurationError(
            f"{one_line(path)} in the ledger's directory is open to other users, or belongs to one: `chmod -R go-rwx` and "
            "`chown -R` the directory. The ledger then takes itself for a copy: `opsguard ledger repair --accept-copy`"
        )


def identity(disk: Disk, lock_name: str) -> dict[str, Json]:
    """What a copy does not share: the machine, and the lock file's inode and the moment that it was made (nothing ever changes it)."""
    status = disk.status_of(lock_name)
    return {"machine": _machine(), "inode": status.st_ino, "made": status.st_ctime_ns}


def _machine() -> str:
    for path in _MACHINE_IDS:
        try:
            return hashlib.sha256(b"opsguard ledger " + path.read_bytes().strip()).hexdigest()[:16]
        except OSError:
            continue
    return ""


def _unescaped(field: str) -> str:
    """The kernel writes blank, tab, newline and backslash as three octal digits."""
    for octal, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(octal, character)
    return field

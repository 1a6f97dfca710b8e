"""Opening a store: its place, its parts, and everything read once. Made when it is not there; going on where a crash left it."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from guards.delivery.row import Head
from guards.text import one_line
from resources.errors import ConfigurationError, OutcomeUnknown, Unreachable
from resources.ledger.file import claims, segments
from resources.ledger.file.anchor import NAME as ANCHOR
from resources.ledger.file.anchor import Anchor, AnchorFile, both_slots
from resources.ledger.file.core import Core
from resources.ledger.file.disk import PRIVATE_DIRECTORY, Disk, File
from resources.ledger.file.fence import Fence, FenceReason, FenceState, read_fence, write_fence
from resources.ledger.file.leases import Leases, MainLock
from resources.ledger.file.locks import closed_in_children
from resources.ledger.file.place import identity, require_place, require_private_tree
from resources.ledger.file.scan import Scan
from resources.ledger.file.segments import path_of, signature_of
from resources.ledger.file.standing import LOCK
from resources.ledger.file.tidying import ADOPTED, QUARANTINE
from resources.ledger.file.writing import SyncFailed, publish_whole, refused_by_disk, sync_directory

_DIRECTORIES: Final = ("temp", segments.NAME, claims.NAME, QUARANTINE)


def open_core(
    root: Path,
    *,
    disk: Callable[[Path], Disk],
    clock: Callable[[], datetime],
    mounts: Callable[[], str],
    seal_rows: int,
    seal_bytes: int,
    create: bool,
) -> Core:
    """`ConfigurationError` or `Unreachable` when it cannot stand here; a store that may not send is opened, and says so."""
    try:
        if create:
            _make_root(root)
        elif not os.path.lexists(root):
            raise _absent(root)
        require_place(root, mounts())
        opened = disk(root)
    except OSError as error:
        raise _cannot_open(error) from error
    try:
        if not create and _is_untouched(opened):
            raise _absent(root)
        core = _open_parts(opened, clock=clock, seal_rows=seal_rows, seal_bytes=seal_bytes)
    except OSError as error:
        opened.close()
        raise _cannot_open(error) from error
    except SyncFailed as failed:
        opened.close()
        raise OutcomeUnknown(
            f"the ledger could not be opened: the disk did not take {failed}. Look at the disk, then try again"
        ) from failed
    except BaseException:
        opened.close()
        raise
    try:
        _look_for_the_first_time(core)
    except BaseException:
        core.close()
        raise
    return core


def _absent(root: Path) -> ConfigurationError:
    return ConfigurationError(
        f"there is no ledger in {one_line(str(root), limit=300)}, and none is made here, because what was sent would be forgotten: is its "
        "file system not mounted, was it moved, or does `ledger_dir` name another place?"
    )


class _Opening:
    """A lock is held before there is a core that a forked child could close: the child's copy would hold it on."""

    def __init__(self, disk: Disk, lock: MainLock) -> None:
        self._parts: tuple[MainLock | Disk, ...] = (lock, disk)
        closed_in_children(self)

    def forget(self) -> None:
        for part in self._parts:
            with suppress(OSError):
                part.close()

    def done(self) -> None:
        self._parts = ()


def _make_root(root: Path) -> None:
    """Every directory that is made is durable in the one above it, up to the first that was there."""
    missing = []
    at = root
    while not os.path.lexists(at):
        missing.append(at)
        at = at.parent
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(mode=PRIVATE_DIRECTORY)
        above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(above)
        finally:
            os.close(above)


def _open_parts(disk: Disk, *, clock: Callable[[], datetime], seal_rows: int, seal_bytes: int) -> Core:
    lock = MainLock(disk, _open_or_create(disk, LOCK))
    opening = _Opening(disk, lock)
    lock.acquire()
    try:
        require_private_tree(disk)
        make_parts(disk)
        _clear_temporary(disk)
        anchor = AnchorFile(disk, _open_or_create(disk, ANCHOR))
        core = Core(disk, lock, Leases(lock.file), anchor, clock=clock, seal_rows=seal_rows, seal_bytes=seal_bytes)
        closed_in_children(core)
        opening.done()
    finally:
        lock.release()
    return core


def _clear_temporary(disk: Disk) -> None:
    """What a crash left half written; whoever writes there holds the lock."""
    with suppress(FileNotFoundError):
        for name in disk.names("temp"):
            disk.unlink(f"temp/{name}")


def make_parts(disk: Disk) -> None:
    """Under the lock. Idempotent: what a crash left half made is finished, what was half taken over goes."""
    stored = read_fence(disk)
    if stored is None:
        if not _is_untouched(disk):
            return  # the fence is gone or was altered: opened so that a person can look
    elif stored.state is not FenceState.PREPARING or not _may_be_finished(disk, stored):
        return
    elif stored.reason is FenceReason.ADOPTING:
        discard(disk)
    for name in _DIRECTORIES:
        with suppress(FileExistsError):
            disk.make_directory(name)
    place = identity(disk, LOCK)
    preparing = stored or Fence(state=FenceState.PREPARING, store=secrets.token_hex(4), place=place, generation=1)
    if stored is None:
        write_fence(disk, preparing)
    with suppress(FileExistsError):
        disk.done(disk.create(path_of(1)))
    sync_directory(disk, segments.NAME)
    begin = both_slots(
        store=preparing.store,
        head=Head(),
        segment=1,
        signature=signature_of(disk.status_of(path_of(1))),
        generation=preparing.generation,
    )
    publish_whole(disk, "temp/anchor", ANCHOR, begin)
    ready = replace(preparing, state=FenceState.READY, reason=FenceReason.NONE, place=place, note="")
    write_fence(disk, replace(ready, generation=preparing.generation + 1))


def _may_be_finished(disk: Disk, preparing: Fence) -> bool:
    """Not when the document was put back from an earlier moment, nor in a copy that holds anything: no row goes that is not of an import."""
    newest = _anchored(disk)
    if newest is not None and (newest.is_retired or newest.generation > preparing.generation):
        return False
    if preparing.reason is FenceReason.ADOPTING:
        return dict(preparing.place) == identity(disk, LOCK) and not _has_adopted(disk)
    return not _holds_anything(disk)


def _has_adopted(disk: Disk) -> bool:
    """An import came to its end here: its rows stay, whatever a fence document that was put back says."""
    return QUARANTINE in disk.names() and any(name.startswith(f"{ADOPTED}-") for name in disk.names(QUARANTINE))


def _anchored(disk: Disk) -> Anchor | None:
    try:
        anchor = AnchorFile(disk, disk.open_fixed(ANCHOR))
    except FileNotFoundError:
        return None
    try:
        anchor.read()
        return anchor.newest
    finally:
        anchor.close()


def _holds_anything(disk: Disk) -> bool:
    there = set(disk.names())
    if any(disk.names(name) for name in (claims.NAME, QUARANTINE) if name in there):
        return True
    return segments.NAME in there and any(disk.status_of(f"{segments.NAME}/{name}").st_size for name in disk.names(segments.NAME))


def discard(disk: Disk) -> None:
    """Rows and claims that were being taken over into an empty store. The rows are kept aside; the claims follow from them."""
    for entry in disk.entries(segments.NAME):
        path = f"{segments.NAME}/{entry.name}"
        if disk.status_of(path).st_size:
            disk.rename(path, f"{QUARANTINE}/imported-{entry.name}-{secrets.token_hex(4)}")
        else:
            disk.unlink(path)
    sync_directory(disk, QUARANTINE)
    for customer in disk.names(claims.NAME):
        for period in disk.names(f"{claims.NAME}/{customer}"):
            for kind in disk.names(f"{claims.NAME}/{customer}/{period}"):
                disk.unlink(f"{claims.NAME}/{customer}/{period}/{kind}")
            disk.remove_directory(f"{claims.NAME}/{customer}/{period}")
        disk.remove_directory(f"{claims.NAME}/{customer}")
    sync_directory(disk, segments.NAME)
    sync_directory(disk, claims.NAME)


def _is_untouched(disk: Disk) -> bool:
    """Nothing but what making a store leaves before its fence document."""
    names = set(disk.names())
    if not names <= {LOCK, *_DIRECTORIES}:
        return False
    return not any(disk.names(name) for name in (segments.NAME, claims.NAME, QUARANTINE) if name in names)


def _open_or_create(disk: Disk, name: str) -> File:
    try:
        return disk.open_fixed(name)
    except FileNotFoundError:
        with suppress(FileExistsError):
            disk.done(disk.create(name))
        return disk.open_fixed(name)


def _look_for_the_first_time(core: Core) -> None:
    """What was published is read without the lock: it does not change any more."""
    scan = Scan(core.segments, core.claims)
    try:
        scan.list_claims()
        core.anchor.read()
        newest = core.anchor.newest
        scan.run(core.segments.numbers(), until=(newest.segment, newest.signature.size) if newest else (0, 0))
    except OSError as error:
        raise _cannot_open(error) from error
    with core.locked(looking=False):
        core.begin(scan)


def _cannot_open(error: OSError) -> ConfigurationError | Unreachable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ConfigurationError(f"the ledger's directory cannot be opened ({error.strerror}): name another place for it")
    refused = refused_by_disk(error, "the opening of the ledger")
    return Unreachable(str(refused))

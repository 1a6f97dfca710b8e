"""The lock around an open store: one thread of this process, and one process of this host. What a closed or forked one answers."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from resources.errors import OutcomeUnknown, Unreachable
from resources.ledger.file.anchor import AnchorFile
from resources.ledger.file.disk import Disk
from resources.ledger.file.leases import Leases, MainLock
from resources.ledger.file.segments import Segments
from resources.ledger.file.standing import LOCK
from resources.ledger.file.writing import SyncFailed, refused_by_disk

CLOSED: Final = "this ledger was closed: open it again"
_FORKED: Final = "this ledger was opened by the parent process: open it again in this one"


class Access(ABC):
    """Not for use by two threads at once without its lock: `with core.locked():` is the lock, within the process and between processes."""

    def __init__(self, disk: Disk, lock: MainLock, leases: Leases, anchor: AnchorFile, segments: Segments) -> None:
        self.disk = disk
        self.leases = leases
        self.anchor = anchor
        self.segments = segments
        self._lock = lock
        self._mutex = threading.RLock()
        self._is_locked = False
        self._closed = ""

    @abstractmethod
    def look(self) -> None:
        """Under the lock: what others have done since."""

    @abstractmethod
    def look_ahead(self) -> None:
        """Without the lock, while another process has it and this one is the next: what can be known already of what that one did."""

    @abstractmethod
    def give_up(self, failed: SyncFailed) -> None:
        """Under the lock, which ends with it: closes the store."""

    @contextmanager
    def locked(self, *, looking: bool = True) -> Iterator[None]:
        """The store as it is now, and nobody else changes it. Errors of the disk become the ledger's own."""
        with self._mutex:
            if self._closed:
                raise Unreachable(self._closed)
            if self._is_locked:
                yield
                return
            self._acquire()
            try:
                if looking:
                    self.look()
                yield
            except SyncFailed as failed:
                self.give_up(failed)
                raise OutcomeUnknown(
                    f"the disk below the ledger did not say that it has what was written ({failed}): the ledger is closed. Open it again, "
                    "which verifies everything, and look before anything is sent"
                ) from failed
            except OSError as error:
                raise refused_by_disk(error, "what was asked for") from error
            finally:
                self._is_locked = False
                if not self._closed:
                    self._lock.release()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread uses this object; other processes go on."""
        with self._mutex:
            if self._closed:
                raise Unreachable(self._closed)
            try:
                yield
            except OSError as error:
                raise refused_by_disk(error, "what was asked for") from error

    def _acquire(self) -> None:
        try:
            self._lock.acquire(self.look_ahead)
            mine, named = self.disk.status(self._lock.file), self.disk.status_of(LOCK)
            here, at_path = self.disk.status_of(), self.disk.status_of_root()
        except OSError as error:
            with suppress(OSError):
                self._lock.release()  # who opens it where it is now must not wait for this one
            raise Unreachable(
                f"the ledger could not be locked ({error.strerror or error!r}): look at its directory, then try again"
            ) from error
        except BaseException:  # interrupted by a person
            self._lock.release()
            raise
        if (mine.st_dev, mine.st_ino) != (named.st_dev, named.st_ino):
            self.close(
                "the ledger's lock file was replaced while it was open, so the lock proves nothing: close every user of it, then open it again"
            )
            raise Unreachable(self._closed)
        if (here.st_dev, here.st_ino) != (at_path.st_dev, at_path.st_ino):
            self.close(
                "another directory stands where the ledger's was when it was opened: was it moved, or something mounted over it? Open it again"
            )
            raise Unreachable(self._closed)
        self._is_locked = True

    def forget(self) -> None:
        """In a forked child: the parent's locks are on descriptions that the child shares, so nothing is unlocked, only closed."""
        self._mutex = threading.RLock()
        self.close(_FORKED)

    def close(self, why: str = CLOSED) -> None:
        with self._mutex:
            if self._closed:
                return
            self._closed = why
            for part in (self.leases, self.anchor, self.segments, self._lock, self.disk):
                with suppress(OSError):
                    part.close()

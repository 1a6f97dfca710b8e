"""Leases: one locked byte per reservation that is being sent. The kernel drops it with the process that holds it, whatever kills that.

They are bytes of the lock file itself: whoever replaced a file of their own could end the lease of a process that lives.
"""

from collections.abc import Callable
from typing import Final

from resources.ledger.file.disk import Disk, File
from resources.ledger.file.locks import is_locked, lock, try_lock, unlock

_FIRST: Final = 2
"""Behind the bytes of the store's own lock."""
_DIGITS: Final = 15
"""Of the reservation id, so that every offset fits an off_t: two of 1,000,000 reservations share a byte with odds of 1 in 2,000,000,
and then one waits for the other."""


class Leases:
    """Used while the store's lock is held, so taking and asking never race."""

    def __init__(self, file: File) -> None:
        """On the lock's own descriptor: who closes that ends them."""
        self._file = file
        self._held: set[str] = set()

    def take(self, reservation_id: str) -> bool:
        """False: somebody else holds it."""
        if reservation_id in self._held:
            return False
        if not try_lock(self._file.descriptor, _offset(reservation_id)):
            return False
        self._held.add(reservation_id)
        return True

    def drop(self, reservation_id: str) -> None:
        """Nothing when this is not its holder."""
        if reservation_id in self._held:
            self._held.discard(reservation_id)
            unlock(self._file.descriptor, _offset(reservation_id))

    def is_held(self, reservation_id: str) -> bool:
        """By anyone alive."""
        return reservation_id in self._held or is_locked(self._file.descriptor, _offset(reservation_id))

    def close(self) -> None:
        self._held.clear()


class MainLock:
    """One transition at a time, whichever process makes it. Byte 1 is the queue: without it the one that just released byte 0 took it
    again before the waiting had woken up, and of eight processes one waited for seconds."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk = disk
        self.file = file

    def acquire(self, while_next: Callable[[], None] = lambda: None) -> None:
        """`while_next` is called when another process has the lock and this one is the next: whatever it raises ends the waiting."""
        descriptor = self.file.descriptor
        lock(descriptor, 1)
        try:
            if not try_lock(descriptor, 0):
                while_next()
                lock(descriptor, 0)
        finally:
            unlock(descriptor, 1)

    def release(self) -> None:
        unlock(self.file.descriptor, 0)

    def close(self) -> None:
        self._disk.done(self.file)


def _offset(reservation_id: str) -> int:
    return _FIRST + int(reservation_id[:_DIGITS], 16)

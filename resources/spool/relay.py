"""Stream a feed from the spool to the partner: hashed on the way, nothing on disk, constant memory."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

HEARTBEAT_SECONDS: Final = 5.0
"""How often a transfer that moves keeps its lease alive. A transfer that stalls does not, and loses it: that is the point."""


class HashingRelay:
    """Iterate it once; afterwards `sha256` and `size_bytes` describe exactly the bytes that passed."""

    def __init__(self, blocks: Iterable[bytes], *, moved: Callable[[int], None], heartbeat: Callable[[], None]) -> None:
        self._blocks = blocks
        self._moved = moved
        self._heartbeat = heartbeat
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        due = time.monotonic() + HEARTBEAT_SECONDS
        for block in self._blocks:
            self._hash.update(block)
            yield block
            self.size_bytes += len(block)
            self._moved(self.size_bytes)
            if time.monotonic() >= due:
                self._heartbeat()
                due = time.monotonic() + HEARTBEAT_SECONDS

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

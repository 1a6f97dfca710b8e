"""Stream a feed from the spool to the partner: hashed on the way, nothing on disk, constant memory."""

import hashlib
from collections.abc import Callable, Iterable, Iterator


class HashingRelay:
    """Iterate it once; afterwards `sha256` and `size_bytes` describe exactly the bytes that passed."""

    def __init__(self, blocks: Iterable[bytes], *, moved: Callable[[int], None], heartbeat: Callable[[], None]) -> None:
        """`moved` is told the bytes so far, `heartbeat` is called, after each block."""
        self._blocks = blocks
        self._moved = moved
        self._heartbeat = heartbeat
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            self._hash.update(block)
            yield block
            self.size_bytes += len(block)
            self._moved(self.size_bytes)
            self._heartbeat()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

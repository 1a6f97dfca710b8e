"""Segments: the rows as lines, in files that only grow. One is active; it is sealed at 16 MiB or 20,000 rows, and the next begins."""

import os
import re
from collections.abc import Iterator
from typing import Final

from guards.delivery.row import MOST_ROW_BYTES
from resources.ledger.file.anchor import Signature
from resources.ledger.file.disk import Disk, File
from resources.ledger.file.line import BEFORE_ROW
from resources.ledger.file.writing import sync_directory

NAME: Final = "segments"
SEAL_BYTES: Final = 16 * 1024 * 1024
SEAL_ROWS: Final = 20_000
LONGEST_LINE: Final = MOST_ROW_BYTES + BEFORE_ROW + 2
_FILE: Final = re.compile(r"([0-9]{6,})\.jsonl")
_MOST_OPEN: Final = 16
_CHUNK: Final = 1 << 20


def path_of(number: int) -> str:
    return f"{NAME}/{number:06d}.jsonl"


def signature_of(status: os.stat_result) -> Signature:
    return Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Segments:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._open: dict[int, File] = {}

    def numbers(self) -> list[int]:
        """Of the segments that are there, in order."""
        try:
            names = self._disk.names(NAME)
        except FileNotFoundError:
            return []
        found = (_FILE.fullmatch(name) for name in names)
        return sorted(int(each[1]) for each in found if each is not None)

    def signature(self, number: int) -> Signature | None:
        """By name, so that a file put in its place is seen. None when it is gone."""
        try:
            return signature_of(self._disk.status_of(path_of(number)))
        except FileNotFoundError:
            return None

    def file(self, number: int) -> File:
        held = self._open.get(number)
        if held is None:
            while len(self._open) >= _MOST_OPEN:
                self._disk.done(self._open.pop(next(iter(self._open))))
            held = self._open[number] = self._disk.open_append(path_of(number))
        return held

    def reopen(self) -> None:
        """Whatever stands at each name now."""
        while self._open:
            self._disk.done(self._open.popitem()[1])

    def create(self, number: int) -> None:
        """Empty and durable. `FileExistsError`: somebody has gone on already."""
        self._disk.done(self._disk.create(path_of(number)))
        sync_directory(self._disk, NAME)

    def remove(self, number: int) -> None:
        if number in self._open:
            self._disk.done(self._open.pop(number))
        self._disk.unlink(path_of(number))
        sync_directory(self._disk, NAME)

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Fewer bytes when it ends before; none when it is gone."""
        try:
            return self._disk.read(self.file(number), offset, size)
        except FileNotFoundError:
            return b""

    def chunks(self, number: int, size: int | None = None) -> Iterator[bytes]:
        """The first `size` bytes, or all there are."""
        offset = 0
        while data := self.read(number, offset, _CHUNK if size is None else min(_CHUNK, size - offset)):
            yield data
            offset += len(data)

    def lines(self, number: int, offset: int = 0, until: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(offset, line with its newline), from `offset` to `until` or the end. The last has no newline when it was torn.

        A line that does not end within the longest one is cut there, so that a file of another kind does not fill the memory.
        """
        rest, begins = b"", offset
        position = offset
        while until is None or position < until:
            chunk = self.read(number, position, _CHUNK if until is None else min(_CHUNK, until - position))
            if not chunk:
                break
            position += len(chunk)
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            for line in lines:
                yield begins, line + b"\n"
                begins += len(line) + 1
            while len(rest) > 2 * LONGEST_LINE:
                yield begins, rest[:LONGEST_LINE]
                begins += LONGEST_LINE
                rest = rest[LONGEST_LINE:]
        if rest:
            yield begins, rest

    def close(self) -> None:
        self.reopen()

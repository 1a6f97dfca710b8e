"""Bytes of one file over SFTP, both ways with many requests on their way at once.

Raises the protocol's own `StatusError` and `SessionLost`; `sftp_session` turns them into sentences.
"""

import contextlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from resources.file_servers.connect import Patience
from resources.file_servers.interface import BLOCK_BYTES
from resources.file_servers.sftp_listing import read_attributes
from resources.file_servers.sftp_protocol import (
    OpenFlag,
    Reply,
    Request,
    Session,
    SessionLost,
    Status,
    StatusError,
    string,
)

IN_FLIGHT_BYTES: Final = 2 * 1024 * 1024
"""OpenSSH's channel window, so more would only wait in the server. At 40 ms round trip that still allows 50 MB/s."""

_NO_ATTRIBUTES: Final = bytes(4)


class Shrunk(Exception):
    """The file ended before the size it had when it was opened."""


class TooLong(Exception):
    """The file is longer than the ceiling."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """`size_bytes` when it was opened, None when the server would not say."""

    handle: bytes
    size_bytes: int | None


def open_file(session: Session, path: bytes) -> OpenFile:
    handle = _open(session, path, OpenFlag.READ)
    return OpenFile(handle, read_attributes(session.request(Reply.ATTRS, Request.FSTAT, handle), "").size_bytes)


def read_blocks(session: Session, file: OpenFile, *, ceiling_bytes: int) -> Generator[bytes, None, None]:
    """Blocks of at most 256 KiB, to the end of the file as the server has it then; closes it. Memory: what is in flight."""
    try:
        if file.size_bytes is not None and file.size_bytes > ceiling_bytes:
            raise TooLong(f"it has {file.size_bytes} bytes")
        yield from _blocks(session, file.handle, size=file.size_bytes or 0, ceiling_bytes=ceiling_bytes)
    finally:
        _close_quietly(session, file.handle)


def write_blocks(session: Session, handle: bytes, blocks: Iterable[bytes], *, patience: Patience) -> int:
    """Writes behind an exclusively created handle and closes it. Every status is awaited, that of CLOSE included."""
    waiting: deque[int] = deque()
    most = IN_FLIGHT_BYTES // session.write_bytes
    offset = 0
    for block in blocks:
        requests: list[tuple[bytes | memoryview, ...]] = []
        view = memoryview(block)
        for at in range(0, len(block), session.write_bytes):
            part = view[at : at + session.write_bytes]
            requests.append((handle, (offset + at).to_bytes(8, "big"), len(part).to_bytes(4, "big"), part))
        waiting.extend(session.ask_all(Request.WRITE, requests))
        offset += len(block)
        while waiting and (len(waiting) > most or session.has_answered(waiting[0])):
            session.expect(Reply.STATUS, waiting.popleft())
    while waiting:
        session.expect(Reply.STATUS, waiting.popleft())
    session.patience(patience.settle_seconds)
    try:
        session.request(Reply.STATUS, Request.CLOSE, handle)
    finally:
        session.patience()
    return offset


def create(session: Session, path: bytes) -> bytes:
    """The handle of a file that did not exist."""
    return _open(session, path, OpenFlag.WRITE | OpenFlag.CREATE | OpenFlag.EXCLUSIVE)


def abandon(session: Session, handle: bytes) -> None:
    """Closes a half-written file; whatever the server says to it no longer matters."""
    _close_quietly(session, handle)


def _open(session: Session, path: bytes, flags: int) -> bytes:
    opened = session.request(Reply.HANDLE, Request.OPEN, string(path), flags.to_bytes(4, "big"), _NO_ATTRIBUTES)
    return string(opened.string())


def _close_quietly(session: Session, handle: bytes) -> None:
    """Nothing was written through this handle, or an error of the write itself is already on its way up."""
    with contextlib.suppress(StatusError, SessionLost):
        session.request(Reply.STATUS, Request.CLOSE, handle)


def _blocks(session: Session, handle: bytes, *, size: int, ceiling_bytes: int) -> Iterator[bytes]:
    waiting: deque[tuple[int, int, int]] = deque()
    at_once = session.read_bytes
    asked = received = 0
    parts: list[bytes] = []
    gathered = 0
    try:
        while True:
            if len(waiting) <= IN_FLIGHT_BYTES // at_once // 2 and asked < size:
                asked = _ask_ahead(session, handle, waiting, asked, size)
            if waiting:
                number, offset, length = waiting.popleft()
            else:  # beyond the size at open: normally the end, else the file has grown
                number, offset, length = _ask(session, handle, received, at_once), received, at_once
            try:
                part = session.expect(Reply.DATA, number).string()
            except StatusError as status:
                if status.code != Status.EOF:
                    raise
                break
            if not part or len(part) > length:
                raise SessionLost("the server answered READ with a wrong number of bytes")
            if len(part) < length and offset + len(part) < size:
                rest = offset + len(part)
                waiting.appendleft((_ask(session, handle, rest, offset + length - rest), rest, offset + length - rest))
            received += len(part)
            if received > ceiling_bytes:
                raise TooLong("it grew while it was read")
            parts.append(part)
            gathered += len(part)
            if gathered + at_once > BLOCK_BYTES:
                yield b"".join(parts)
                parts, gathered = [], 0
    finally:
        session.forget(number for number, _, _ in waiting)
    if received < size:
        raise Shrunk(f"it ended after {received} of {size} bytes")
    if parts:
        yield b"".join(parts)


def _ask_ahead(session: Session, handle: bytes, waiting: deque[tuple[int, int, int]], asked: int, size: int) -> int:
    wanted: list[tuple[int, int]] = []
    while len(waiting) + len(wanted) < IN_FLIGHT_BYTES // session.read_bytes and asked < size:
        length = min(session.read_bytes, size - asked)
        wanted.append((asked, length))
        asked += length
    requests: list[tuple[bytes | memoryview, ...]] = [
        (handle, offset.to_bytes(8, "big"), length.to_bytes(4, "big")) for offset, length in wanted
    ]
    numbers = session.ask_all(Request.READ, requests)
    waiting.extend((number, offset, length) for number, (offset, length) in zip(numbers, wanted, strict=True))
    return asked


def _ask(session: Session, handle: bytes, offset: int, length: int) -> int:
    return session.ask(Request.READ, handle, offset.to_bytes(8, "big"), length.to_bytes(4, "big"))

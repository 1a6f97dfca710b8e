"""SFTP version 3 over one SSH channel: requests go out, every answer is seen, with the status code the server gave.

Why not `paramiko.SFTPClient`: it swallows the error of CLOSE (where a full disk shows), raises for a whole directory because of one
undecodable name, and turns every status but two into an `OSError` without a code. The channel below is paramiko's.

Not for threads: one session, one caller.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, Protocol

from paramiko import SSHException

SAFE_BYTES: Final = 32 * 1024
"""Largest READ or WRITE that every server takes (draft-ietf-secsh-filexfer-02, section 3)."""
LARGEST_BYTES: Final = 128 * 1024
"""What is used where the server announces that it takes it (OpenSSH 8.5: 255 KiB): a quarter of the answers, and half our CPU."""

_PIECE_BYTES: Final = 32 * 1024 - 64
"""What paramiko's channel puts into one SSH packet at OpenSSH's packet size of 32 KiB."""
_RECEIVE_BYTES: Final = 2 * 1024 * 1024
"""One channel window: taking all that is there costs one copy; taking part of it moves the rest each time."""
_LIMITS: Final = b"limits@openssh.com"
_OVERHEAD_BYTES: Final = 1024
"""Of a WRITE beyond its data: numbers, and a handle of at most 256 bytes."""
_MAX_PACKET_BYTES: Final = 4 * 1024 * 1024
_VERSION: Final = 3


class Request(IntEnum):
    INIT = 1
    OPEN = 3
    CLOSE = 4
    READ = 5
    WRITE = 6
    LSTAT = 7
    FSTAT = 8
    OPENDIR = 11
    READDIR = 12
    REMOVE = 13
    STAT = 17
    RENAME = 18
    EXTENDED = 200


class Reply(IntEnum):
    VERSION = 2
    STATUS = 101
    HANDLE = 102
    DATA = 103
    NAME = 104
    ATTRS = 105
    EXTENDED = 201


class Status(IntEnum):
    OK = 0
    EOF = 1
    NO_SUCH_FILE = 2
    PERMISSION_DENIED = 3
    FAILURE = 4
    BAD_MESSAGE = 5
    NO_CONNECTION = 6
    CONNECTION_LOST = 7
    OP_UNSUPPORTED = 8
    FILE_ALREADY_EXISTS = 11
    """Version 4 and later, but asyncssh and ProFTPD send it in version 3 too."""


class OpenFlag(IntEnum):
    READ = 0x01
    WRITE = 0x02
    CREATE = 0x08
    EXCLUSIVE = 0x20


class StatusError(Exception):
    """The server answered, and the answer was not what was asked for. `text` is the server's: hostile."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


class SessionLost(Exception):
    """No (usable) answer: cut, stalled or nonsense. What was asked last may or may not have happened."""


class Channel(Protocol):
    """What is needed of `paramiko.Channel`."""

    def send(self, s: bytes) -> int: ...
    def recv(self, nbytes: int) -> bytes: ...
    def recv_ready(self) -> bool: ...
    def settimeout(self, timeout: float | None) -> None: ...


class Fields:
    """Reads the fields of one packet in order. `SessionLost` when it is shorter than it says."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def uint32(self) -> int:
        return int.from_bytes(self.raw(4), "big")

    def uint64(self) -> int:
        return int.from_bytes(self.raw(8), "big")

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        try:
            taken = layout.unpack_from(self._data, self._at)
        except struct.error:
            raise SessionLost("the server sent a packet that ends too early") from None
        self._at += layout.size
        return taken

    def string(self) -> bytes:
        return self.raw(self.uint32())

    def raw(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise SessionLost("the server sent a packet that ends too early")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def rest(self) -> bytes:
        return self.raw(len(self._data) - self._at)

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)


def string(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


class Session:
    """Requests are numbered; answers may come in any order and are kept until they are asked for."""

    def __init__(self, channel: Channel, *, stall_seconds: float) -> None:
        """Greets the server. `stall_seconds`: longest silence while something is awaited or sent."""
        self._channel = channel
        self._stall_seconds = stall_seconds
        self._number = 0
        self._buffer = b""
        self._at = 0
        self._answers: dict[int, tuple[int, bytes]] = {}
        self._forgotten: set[int] = set()
        channel.settimeout(stall_seconds)
        self._send(struct.pack(">IBI", 5, Request.INIT, _VERSION))
        self.extensions = self._greeting()
        self.read_bytes, self.write_bytes = self._limits()

    def ask(self, kind: Request, *fields: bytes) -> int:
        """Sends a request; its number is for `answer`."""
        return self.ask_all(kind, [fields])[0]

    def ask_all(self, kind: Request, requests: Iterable[tuple[bytes | memoryview, ...]]) -> list[int]:
        """Several requests of one kind as one stream: at 32 KiB a WRITE is 9 SSH packets for 8 requests instead of 16."""
        numbers: list[int] = []
        parts: list[bytes | memoryview] = []
        for fields in requests:
            self._number = self._number + 1 & 0xFFFFFFFF
            numbers.append(self._number)
            parts.append(struct.pack(">IBI", 5 + sum(map(len, fields)), kind, self._number))
            parts.extend(fields)
        self._send(*parts)
        return numbers

    def answer(self, number: int) -> tuple[int, Fields]:
        """Waits for that answer. Raises `StatusError` for any status but OK."""
        while number not in self._answers:
            self._receive()
        kind, body = self._answers.pop(number)
        fields = Fields(body, 5)
        if kind == Reply.STATUS:
            code = fields.uint32()
            if code != Status.OK:
                raise StatusError(code, "" if fields.is_empty else fields.string().decode("utf-8", "surrogateescape"))
        return kind, fields

    def expect(self, kind: Reply, number: int) -> Fields:
        """As `answer`, of this kind."""
        got, fields = self.answer(number)
        if got != kind:
            raise SessionLost(f"the server answered with packet type {got} where {int(kind)} was due")
        return fields

    def request(self, expected: Reply, kind: Request, *fields: bytes) -> Fields:
        return self.expect(expected, self.ask(kind, *fields))

    def has_answered(self, number: int) -> bool:
        """Without waiting."""
        while number not in self._answers and (self._channel.recv_ready() or self._is_whole()):
            self._receive()
        return number in self._answers

    def forget(self, numbers: Iterable[int]) -> None:
        """Their answers are dropped, those that came and those still to come."""
        for number in numbers:
            if self._answers.pop(number, None) is None:
                self._forgotten.add(number)

    def patience(self, seconds: float | None = None) -> None:
        """A request that takes the server longer (hashing a file); without an argument back to `stall_seconds`."""
        self._channel.settimeout(self._stall_seconds if seconds is None else seconds)

    def _send(self, *parts: bytes | memoryview) -> None:
        try:
            for piece in _pieces(parts):
                at = 0
                while at < len(piece):
                    sent = self._channel.send(piece[at:])
                    if sent <= 0:
                        raise SessionLost("the server closed the connection")
                    at += sent
        except TimeoutError:
            raise SessionLost(f"the server took nothing for {self._stall_seconds:g} s") from None
        except (SSHException, EOFError, OSError) as error:
            raise SessionLost(_reason(error)) from error

    def _receive(self) -> None:
        """Takes one whole packet into `_answers`, waiting for it."""
        while not self._is_whole():
            self._fill()
        end = self._at + 4 + int.from_bytes(self._buffer[self._at : self._at + 4], "big")
        body = self._buffer[self._at + 4 : end]
        self._at = end
        if len(body) < 5:
            raise SessionLost("the server sent a packet that ends too early")
        number = int.from_bytes(body[1:5], "big")
        if number in self._forgotten:
            self._forgotten.discard(number)
        else:
            self._answers[number] = (body[0], body)

    def _is_whole(self) -> bool:
        have = len(self._buffer) - self._at
        if have < 4:
            return False
        length = int.from_bytes(self._buffer[self._at : self._at + 4], "big")
        if length > _MAX_PACKET_BYTES:
            raise SessionLost(f"the server announced a packet of {length} bytes: that is not SFTP")
        return have >= 4 + length

    def _fill(self) -> None:
        try:
            received = self._channel.recv(_RECEIVE_BYTES)
        except TimeoutError:
            raise SessionLost(f"the server did not answer for {self._stall_seconds:g} s") from None
        except (SSHException, EOFError, OSError) as error:
            raise SessionLost(_reason(error)) from error
        if not received:
            raise SessionLost("the server closed the connection")
        self._buffer = self._buffer[self._at :] + received
        self._at = 0

    def _greeting(self) -> dict[bytes, bytes]:
        """The server's version packet has no number. Its extensions: name to version."""
        while not self._is_whole():
            self._fill()
        length = int.from_bytes(self._buffer[:4], "big")
        fields = Fields(self._buffer[4 : 4 + length])
        self._at = 4 + length
        if fields.raw(1)[0] != Reply.VERSION or fields.uint32() < _VERSION:
            raise SessionLost("the server does not speak SFTP version 3")
        extensions: dict[bytes, bytes] = {}
        while not fields.is_empty:
            name = fields.string()
            extensions[name] = fields.string()
        return extensions

    def _limits(self) -> tuple[int, int]:
        """Bytes of one READ and one WRITE: more than is safe only where the server says how much it takes."""
        if _LIMITS not in self.extensions:
            return SAFE_BYTES, SAFE_BYTES
        try:
            said = self.request(Reply.EXTENDED, Request.EXTENDED, string(_LIMITS))
        except StatusError:
            return SAFE_BYTES, SAFE_BYTES
        packet, read, write = (said.uint64() for _ in range(3))
        room = max(packet - _OVERHEAD_BYTES, 0)
        return _fitting(min(read, room)), _fitting(min(write, room))


def _pieces(parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The parts as one stream, cut to what fits into one SSH packet: each byte is copied once."""
    pending: list[memoryview] = []
    room = _PIECE_BYTES
    for part in parts:
        view = memoryview(part)
        while len(view) >= room:
            pending.append(view[:room])
            yield b"".join(pending)
            view, pending, room = view[room:], [], _PIECE_BYTES
        if view:
            pending.append(view)
            room -= len(view)
    if pending:
        yield b"".join(pending)


def _fitting(limit: int) -> int:
    """The largest power of two from 32 KiB to 128 KiB within the limit; 0 means that the server names none."""
    size = LARGEST_BYTES
    while size > SAFE_BYTES and limit and size > limit:
        size //= 2
    return size if limit else SAFE_BYTES


def _reason(error: Exception) -> str:
    return f"the connection was cut ({str(error) or type(error).__name__})"

"""A receiver of webhooks that lies: a real HTTP server on loopback whose own record is the oracle of what it took.

with lying_webhook(Lie.ACCEPT_THEN_DROP) as server:
    ...
    assert server.accepted == [key]
"""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST."""


class Lie(StrEnum):
    """What becomes of a POST."""

    NONE = "accepts and says so"
    ACCEPT_THEN_DROP = "accepts, then drops the connection"
    ACCEPT_THEN_RESET = "accepts, then resets the connection"
    ACCEPT_TWICE = "accepts twice"
    REJECT = "rejects"
    REJECT_AFTER_ACCEPTING = "rejects after accepting"
    FAIL_AFTER_ACCEPTING = "answers 503 after accepting"
    CONFLICT_AFTER_ACCEPTING = "answers 409 after accepting"
    ANOTHER_KEY = "accepts and answers for another key"
    ANOTHER_KEY_IN_HEADER = "accepts and answers for another key in the header"
    NEVER = "accepts and never answers"
    NEVER_AND_NOT_TAKEN = "takes nothing and never answers"
    LATE = "accepts and answers when it is released"
    DRIP_HEAD = "accepts and drips its answer's head"
    DRIP_BODY = "accepts and drips its answer's body"
    GARBAGE = "accepts and answers with no HTTP"
    REDIRECT = "accepts and redirects"
    CLOSE_AT_ONCE = "closes before reading"
    RESET_AT_ONCE = "resets before reading"
    CONTINUE_FOREVER = "accepts and says 100 Continue for ever"
    CONTINUE_THEN_ACCEPT = "says 100 Continue, then accepts"
    EARLY_HINTS_ONLY = "accepts and says 103 Early Hints and nothing else"
    ENDLESS = "accepts and answers without end"
    CUT_BODY = "accepts and cuts its answer"
    PART = "accepts and answers 207"
    NOT_OURS = "accepts and answers in HTML"


class LookUp(StrEnum):
    """What becomes of a GET."""

    HONEST = "honest"
    ANOTHER_KEY = "answers for another key"
    ANOTHER_BODY = "answers with another body"
    NO_KEY = "answers without a key"
    GARBAGE = "answers with no JSON"
    REFUSES = "answers 403"
    FAILS = "answers 500"
    NEVER = "never answers"
    ENDLESS = "answers without end"
    REDIRECTS = "redirects"


OTHER_KEY: Final = "f" * 32
_CREATED: Final = b"HTTP/1.1 201 Created\r\n"
_SAID: Final = {
    Lie.REJECT: (422, ""),
    Lie.REJECT_AFTER_ACCEPTING: (422, ""),
    Lie.FAIL_AFTER_ACCEPTING: (503, ""),
    Lie.CONFLICT_AFTER_ACCEPTING: (409, ""),
    Lie.ANOTHER_KEY: (201, OTHER_KEY),
    Lie.LATE: (201, ""),
    Lie.CONTINUE_THEN_ACCEPT: (201, ""),
    Lie.PART: (207, ""),
}
"""Status, and the key that is named when it is not the message's."""
_RAW: Final = {
    Lie.GARBAGE: b"\x00\xff220 hello\r\n\r\n",
    Lie.CONTINUE_THEN_ACCEPT: b"HTTP/1.1 100 Continue\r\n\r\n",
    Lie.EARLY_HINTS_ONLY: b"HTTP/1.1 103 Early Hints\r\n\r\n",
    Lie.ENDLESS: _CREATED + b"\r\n",
    Lie.CUT_BODY: _CREATED + b'Content-Length: 500\r\n\r\n{"key": "',
}
_DRIPPED: Final = {
    Lie.DRIP_HEAD: (_CREATED + b"X-Slow: ", b"a"),
    Lie.DRIP_BODY: (_CREATED + b"Content-Length: 100000\r\n\r\n", b" "),
    Lie.CONTINUE_FOREVER: (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@dataclass(slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass
class LyingWebhook:
    lie: Lie
    port: int
    look_up: LookUp = LookUp.HONEST
    scheme: str = "http"
    accepted: list[str] = field(default_factory=list)
    """Keys, one for each time that a message was taken."""
    bodies: dict[str, dict[str, object]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    has_taken: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def posts(self) -> int:
        return sum(1 for request in self.requests if request.method == "POST")


@contextmanager
def lying_webhook(
    lie: Lie = Lie.NONE, *, look_up: LookUp = LookUp.HONEST, certificate: Path | None = None
) -> Iterator[LyingWebhook]:
    """With `certificate` (key and certificate in one PEM file) it speaks TLS."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = LyingWebhook(lie, listener.getsockname()[1], look_up, "https" if certificate else "http")
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    opened: list[socket.socket] = [listener]

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            server.connections += 1
            opened.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def serve(connection: socket.socket) -> None:
        with suppress(OSError, ValueError):
            if server.lie is Lie.RESET_AT_ONCE:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            if server.lie not in (Lie.RESET_AT_ONCE, Lie.CLOSE_AT_ONCE):
                secured = context.wrap_socket(connection, server_side=True) if context else connection
                opened.append(secured)
                _Talk(server, secured).serve()
                secured.close()
        connection.close()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        server.release.set()
        for one in opened:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class _Talk:
    def __init__(self, server: LyingWebhook, connection: socket.socket) -> None:
        self.server, self.connection = server, connection

    def serve(self) -> None:
        request = self._read()
        self.server.requests.append(request)
        if request.method == "POST":
            self._post(request)
        else:
            self._get(request)

    def _read(self) -> Request:
        lines = self.connection.makefile("rb")
        method, path, _ = lines.readline().decode("ascii").split(" ", 2)
        headers: dict[str, str] = {}
        while (line := lines.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return Request(method, path, headers, lines.read(int(headers.get("content-length", "0"))))

    def _post(self, request: Request) -> None:
        key, lie = request.headers.get("idempotency-key", ""), self.server.lie
        if lie not in (Lie.REJECT, Lie.NEVER_AND_NOT_TAKEN):
            self.server.bodies[key] = json.loads(request.body)
            self.server.accepted.extend([key] * (2 if lie is Lie.ACCEPT_TWICE else 1))
        self.server.has_taken.set()
        self._answer_post(lie, key)

    def _answer_post(self, lie: Lie, key: str) -> None:
        if lie in (Lie.NEVER, Lie.NEVER_AND_NOT_TAKEN, Lie.LATE):
            self.server.release.wait()
        if lie in _DRIPPED:
            self._drip(*_DRIPPED[lie])
        elif lie in _RAW:
            self.connection.sendall(_RAW[lie])
        if lie is Lie.ENDLESS:
            self._never_ending()
        elif lie is Lie.ACCEPT_THEN_RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        elif lie in _SAID:
            status, named = _SAID[lie]
            self._say(status, {"key": named or key})
        elif lie is Lie.ANOTHER_KEY_IN_HEADER:
            self._say(201, {}, f'Idempotency-Key: "{OTHER_KEY}"\r\n')
        elif lie is Lie.REDIRECT:
            self._say(307, {}, f"Location: {self.server.url}/elsewhere\r\n")
        elif lie is Lie.NOT_OURS:
            self._raw(200, b"<html>Welcome to the hotel's network</html>")
        elif lie in (Lie.NONE, Lie.ACCEPT_TWICE):
            self._say(201, {"key": key}, "X-Request-Id: r-17\r\n")

    def _get(self, request: Request) -> None:
        key = request.path.partition("?")[0].rpartition("/")[2]
        held = self.server.bodies.get(key)
        body_sha256 = held and held["body_sha256"]
        match self.server.look_up:
            case LookUp.ANOTHER_KEY:
                self._say(200, {"key": "e" * 32, "body_sha256": body_sha256})
            case LookUp.ANOTHER_BODY:
                self._say(200, {"key": key, "body_sha256": "0" * 64})
            case LookUp.NO_KEY:
                self._say(200, {"status": "fine"})
            case LookUp.GARBAGE:
                self._raw(200, b"[" * 5000)
            case LookUp.REFUSES:
                self._say(403, {"key": key})
            case LookUp.FAILS:
                self._say(500, {"key": key})
            case LookUp.NEVER:
                self.server.release.wait()
            case LookUp.ENDLESS:
                self.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                self._never_ending()
            case LookUp.REDIRECTS:
                self._say(302, {"key": key}, f"Location: {self.server.url}/elsewhere\r\n")
            case _ if held is None:
                self._say(404, {})
            case _:
                self._say(200, {"key": key, "body_sha256": body_sha256})

    def _drip(self, begin: bytes, drop: bytes) -> None:
        self.connection.sendall(begin)
        while not self.server.release.wait(0.02):
            self.connection.sendall(drop)

    def _never_ending(self) -> None:
        while True:
            self.connection.sendall(b" " * 65536)

    def _say(self, status: int, answer: Mapping[str, object], headers: str = "") -> None:
        self._raw(status, json.dumps(answer).encode(), headers)

    def _raw(self, status: int, body: bytes, headers: str = "") -> None:
        head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n{headers}Connection: close\r\n\r\n"
        self.connection.sendall(head.encode("ascii") + body)

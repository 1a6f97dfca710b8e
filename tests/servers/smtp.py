"""A mail server that lies: real SMTP on loopback, a fault at any step, and its own record of what it took.

    with lying_smtp({"dot": Fault.DROP}) as server:
        ...
        assert server.accepted == [key]

Steps: connect, EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, content (while the mail arrives), early (a reply too many before the
next), dot (the answer to its end), QUIT.
"""

import base64
import email
import email.policy
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

USER: Final = "opsguard"
PASSWORD: Final = "pw-canary-5c1f"


class Fault(StrEnum):
    """Instead of the answer to a step. A plain string is that answer."""

    DROP = "drops the connection"
    HANG = "never answers"
    DRIP = "drips its answer"
    GARBAGE = "answers with no SMTP"
    LATE = "answers when it is released"


@dataclass
class LyingSmtp:
    port: int
    faults: Mapping[str, str]
    takes: bool
    tls: Literal["implicit", "starttls", "none"] = "none"
    accepted: list[str] = field(default_factory=list)
    """The key of each mail that was taken, as its Message-ID says it."""
    mails: list[EmailMessage] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    envelopes: list[tuple[str, str]] = field(default_factory=list)
    has_taken: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


@contextmanager
def lying_smtp(
    faults: Mapping[str, str] | None = None,
    *,
    takes: bool = True,
    tls: Literal["implicit", "starttls", "none"] = "none",
    certificate: Path | None = None,
) -> Iterator[LyingSmtp]:
    """`takes` is whether a mail that came to its end is taken, whatever is answered then."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = LyingSmtp(listener.getsockname()[1], dict(faults or {}), takes, tls)
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
            opened.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def serve(connection: socket.socket) -> None:
        session = _Session(server, connection, context, opened)
        with suppress(OSError, _Over, ValueError):
            session.run()
        with suppress(OSError):
            session.connection.close()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        server.release.set()
        for one in opened:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class _Over(Exception):
    """This session is over."""


class _Session:
    def __init__(
        self, server: LyingSmtp, connection: socket.socket, context: ssl.SSLContext | None, opened: list[socket.socket]
    ) -> None:
        self.server, self.connection, self.context, self.opened = server, connection, context, opened
        self.sender = self.recipient = ""

    def run(self) -> None:
        if self.server.tls == "implicit":
            self._secure()
        self.lines = self.connection.makefile("rb")
        self._answer("connect", "220 lying.example ESMTP")
        while line := self.lines.readline():
            text = line.decode("ascii").strip()
            verb = text.split(" ")[0].upper()
            self.server.commands.append("AUTH" if verb == "AUTH" else text)
            self._obey(verb, text)

    def _obey(self, verb: str, text: str) -> None:
        match verb:
            case "EHLO":
                offered = ["250-lying.example", *(["250-STARTTLS"] if self.server.tls == "starttls" else [])]
                self._answer("EHLO", "\r\n".join([*offered, "250-AUTH PLAIN LOGIN", "250 SIZE 1000000"]))
            case "STARTTLS":
                self._answer("STARTTLS", "220 Go on")
                self._secure()
                self.lines = self.connection.makefile("rb")
            case "AUTH":
                secret = base64.b64encode(f"\0{USER}\0{PASSWORD}".encode()).decode()
                self._answer("AUTH", "235 In" if text == f"AUTH PLAIN {secret}" else f"535 5.7.8 not with {text}")
            case "MAIL" | "RCPT":
                address = re.search(r"<([^>]*)>", text)
                assert address is not None
                if verb == "MAIL":
                    self.sender = address[1]
                else:
                    self.recipient = address[1]
                self._answer(verb, "250 2.1.0 Ok")
            case "DATA":
                self._answer("DATA", "354 End with a dot")
                self._content()
            case "QUIT":
                self._answer("QUIT", "221 Bye")
                raise _Over
            case _:
                self._say("502 5.5.1 Not here")

    def _content(self) -> None:
        if "content" in self.server.faults:
            self.lines.readline()
            self._answer("content", "")
        content = b""
        while (line := self.lines.readline()) != b".\r\n":
            if not line:
                raise _Over
            content += line[1:] if line.startswith(b".") else line
        if self.server.takes:
            mail = email.message_from_bytes(content, policy=email.policy.SMTP)
            assert isinstance(mail, EmailMessage)
            self.server.mails.append(mail)
            self.server.envelopes.append((self.sender, self.recipient))
            self.server.accepted.append(str(mail["Message-ID"]).strip("<>").partition("@")[0])
        self.server.has_taken.set()
        self._say_early()
        self._answer("dot", "250 2.0.0 Ok: queued as 4FxYz1")

    def _say_early(self) -> None:
        """One reply too many, before that to the dot; in a call of its own, as when two programs write."""
        if "early" in self.server.faults:
            self._say(self.server.faults["early"])

    def _answer(self, step: str, usual: str) -> None:
        match self.server.faults.get(step, usual):
            case Fault.DROP:
                raise _Over
            case Fault.HANG:
                self.server.release.wait()
                raise _Over
            case Fault.LATE:
                self.server.release.wait()
                self._say(usual)
            case Fault.DRIP:
                self.connection.sendall(b"250-")
                while not self.server.release.wait(0.02):
                    self.connection.sendall(b"a")
                raise _Over
            case Fault.GARBAGE:
                self._say("<html>hello</html>")
            case said:
                self._say(said)

    def _say(self, text: str) -> None:
        self.connection.sendall(text.encode() + b"\r\n")

    def _secure(self) -> None:
        assert self.context is not None
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.opened.append(self.connection)

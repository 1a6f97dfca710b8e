"""The mail provider: one message handed to one server, step by step, so that each failure says whether it came before the last dot.

Until the line with the single dot has been sent no server may deliver (RFC 5321, 3.3 and 4.1.1.4): a failure before it is provably not
accepted. After it, 2yz is acceptance, and 4yz or 5yz is refusal: the server "MUST NOT" deliver then (4.2.5). Except 421, which whatever
stands before the real server says when it has lost it. A connection that ends without an answer to the dot is doubt.
"""

import base64
import contextlib
import re
import smtplib
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from guards.canonical import Json
from guards.delivery.registry import Provider as Named
from guards.gate import Authorization
from guards.text import one_line
from resources.providers.dialling import NotConnected, dial, secured, trusting
from resources.providers.interface import (
    Accepted,
    Ambiguous,
    Answer,
    CannotTell,
    Capabilities,
    Message,
    Rejected,
    Sender,
    Sighting,
    unfit,
)
from resources.providers.patience import GOODBYE_SECONDS, Deadline
from resources.providers.settings import SmtpEndpoint, is_address

KEY_HEADER: Final = "X-OpsGuard-Reservation"
"""Some services put a Message-ID of their own in place of ours; this header stays."""
_ENHANCED: Final = re.compile(rb"[245]\.[0-9]{1,3}\.[0-9]{1,3}(?= |$)")
_BYTES_PER_WORD: Final = 45
"""Of UTF-8 in one encoded word: 60 characters of base64 and 12 around them stay below the 75 of RFC 2047."""
_PLAIN: Final = re.compile(r"[ -~]{1,120}")
_HEADER_LINE: Final = re.compile(rb"([A-Za-z-]{1,40}): [ -~]{1,900}")
_FOLDED_LINE: Final = re.compile(rb" [!-~][ -~]{0,120}")
_MOST_KEPT: Final = 160
_TRY_LATER: Final = 421
_BYE: Final = 221


@dataclass(frozen=True, slots=True)
class SmtpProvider:
    endpoint: SmtpEndpoint
    name: str = "smtp"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            refuses_duplicates=False,
            says="SMTP cannot be asked what became of a mail: search the mail server's log, or the recipient's mailbox, for its Message-ID",
        )

    def writer(self, authorization: Authorization, *, scope: str) -> Sender:
        return Sender(self._send, authorization, scope=scope)

    def _send(self, message: Message, key: str) -> Answer:
        if refused := unfit(message, key):
            return refused
        if not is_address(Named.SMTP, message.destination):
            return Rejected("invalid_destination", "a destination of the mail provider is one plain mail address")
        with Deadline(self.endpoint.timeout_seconds) as deadline:
            call = _Call(self.endpoint, deadline)
            try:
                return call.deliver(message, key)
            finally:
                call.hang_up()

    def asks(self, message: Message) -> str:
        return ""

    def lookup(self, key: str, *, message: Message, since: datetime, until: datetime) -> Sighting:
        if refused := unfit(message, key):
            return CannotTell(refused.why)
        return CannotTell(
            f"SMTP has no look-up: search the log of {self.endpoint.host}, or the recipient's mailbox, for {message_id(self.endpoint, key)}"
        )


def message_id(endpoint: SmtpEndpoint, key: str) -> str:
    return f"<{key}@{endpoint.domain}>"


def mail(endpoint: SmtpEndpoint, message: Message, key: str) -> bytes:
    """CRLF at every line's end. Text in base64: no line of it is too long, holds a bare CR or begins with a dot, whatever the body is.

    The headers are spelt here: the standard library's `EmailMessage` decodes an encoded word in what it is given (`=?utf-8?q?=0D=0A?=`)
    and writes the line ends that were hidden in it. Raises `_Refused` for a mail that would not have exactly these headers.
    """
    headers = {
        "From": endpoint.sender,
        "To": message.destination,
        "Subject": _spelt(message.subject or f"Message {key[:8]}"),
        "Date": format_datetime(datetime.now(UTC)),
        "Message-ID": message_id(endpoint, key),
        "Auto-Submitted": "auto-generated",
        KEY_HEADER: key,
        "MIME-Version": "1.0",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "base64",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("ascii")
    text = b"".join(line + b"\r\n" for line in message.body.encode().splitlines())
    made = head + b"\r\n" + base64.encodebytes(text).replace(b"\n", b"\r\n")
    if _names(made) != [name.encode() for name in headers]:
        raise _Refused("invalid_mail", "it would have gone out with other headers than its own: nothing was contacted")
    return made


def _spelt(subject: str) -> str:
    """As it is, or (also when it looks like an encoded word itself) in encoded words of RFC 2047, cut between characters."""
    if _PLAIN.fullmatch(subject) and "=?" not in subject and subject == subject.strip():
        return subject
    words, word = [], b""
    for letter in subject:
        if len(word + letter.encode()) > _BYTES_PER_WORD:
            words.append(word)
            word = b""
        word += letter.encode()
    return "\r\n ".join(f"=?utf-8?B?{base64.b64encode(word).decode()}?=" for word in [*words, word])


def _names(made: bytes) -> list[bytes]:
    """Of the headers, as any reader finds them; empty when a line is none of ours."""
    lines = re.split(rb"\r\n|\r|\n", made.partition(b"\r\n\r\n")[0])
    matched = [_HEADER_LINE.fullmatch(line) for line in lines]
    if any(found is None and not _FOLDED_LINE.fullmatch(line) for found, line in zip(matched, lines, strict=True)):
        return []
    return [found[1] for found in matched if found is not None]


class _Refused(Exception):
    """A step before the dot failed."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


class _Session(smtplib.SMTP):
    """Takes a connection that is there already; `smtplib` would open one without our deadline."""

    def __init__(self, connection: socket.socket, endpoint: SmtpEndpoint) -> None:
        super().__init__(local_hostname="opsguard.invalid")
        self.sock = connection
        self._host = endpoint.host

    @property
    def connection(self) -> socket.socket:
        """`starttls` puts another in place."""
        if self.sock is None:
            raise smtplib.SMTPServerDisconnected("closed")
        return self.sock


class _Call:
    def __init__(self, endpoint: SmtpEndpoint, deadline: Deadline) -> None:
        self._endpoint, self._deadline = endpoint, deadline
        self._session: _Session | None = None
        self._connection: socket.socket | None = None

    def deliver(self, message: Message, key: str) -> Answer:
        try:
            content = mail(self._endpoint, message, key)
            session = self._entered()
            self._step("MAIL", *session.mail(self._endpoint.sender))
            self._step("RCPT", *session.rcpt(message.destination))
            self._step("DATA", *session.docmd("DATA"), wanted=3)
            session.send(content)
        except NotConnected as error:
            return Rejected(error.code, error.why)
        except _Refused as error:
            return Rejected(error.code, error.why)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            return Rejected(
                "smtp_broke_off", f"{self._what_happened(error)} before the end of the mail was sent: it was not taken"
            )
        if self._deadline.has_passed:
            return Rejected("smtp_broke_off", f"{self._what_happened(TimeoutError())} before the end of the mail was sent")
        return self._after_the_dot(session, message, key)

    def _after_the_dot(self, session: _Session, message: Message, key: str) -> Answer:
        if _has_spoken(session):
            return Rejected(
                "smtp_broke_off", "the mail server spoke or hung up before the end of the mail was sent: it was not taken"
            )
        try:
            session.connection.settimeout(self._deadline.left)
            session.send(b".\r\n")
            status, text = session.getreply()
        except (OSError, smtplib.SMTPException, ValueError) as error:
            return Ambiguous(f"{self._what_happened(error)} after the end of the mail was sent: it may have been taken")
        if self._deadline.has_passed:
            return Ambiguous(f"{self._what_happened(TimeoutError())} after the end of the mail was sent: it may have been taken")
        return self._in_step(session, status, self._proven(status, text, message, key))

    def _proven(self, status: int, text: bytes, message: Message, key: str) -> Answer:
        if 200 <= status <= 299:
            return Accepted(self._receipt(status, text, message, key))
        if 400 <= status <= 599 and status != _TRY_LATER:
            return Rejected(f"smtp_{status}", f"the mail server refused the mail after its end ({_shown(status, text)})")
        return Ambiguous(f"the mail server answered the end of the mail with {_shown(status, text)}, which proves nothing")

    def _in_step(self, session: _Session, status: int, answer: Answer) -> Answer:
        """A server that said one thing too many is a reply behind: what answers QUIT then is what the dot was really answered."""
        try:
            session.connection.settimeout(min(GOODBYE_SECONDS, self._deadline.left))
            goodbye, _ = session.docmd("QUIT")
        except (OSError, smtplib.SMTPException, ValueError):
            return answer
        if 400 <= goodbye <= 599 if isinstance(answer, Accepted) else 200 <= goodbye <= 299 and goodbye != _BYE:
            return Ambiguous(
                f"the mail server answered the end of the mail with {status} and with {goodbye}: one of them is not for it"
            )
        return answer

    def _entered(self) -> _Session:
        endpoint, deadline = self._endpoint, self._deadline
        self._connection = dial(endpoint.host, endpoint.usual_port, deadline=deadline)
        if endpoint.tls == "implicit":
            self._connection = secured(self._connection, endpoint.host, ca_file=endpoint.ca_file, deadline=deadline)
        self._connection.settimeout(deadline.left)
        session = self._session = _Session(self._connection, endpoint)
        self._step("the greeting", *session.getreply())
        self._step("EHLO", *session.ehlo())
        if endpoint.tls == "starttls":
            if not session.has_extn("starttls"):
                raise _Refused("tls_failed", "the mail server offers no STARTTLS: nothing was sent in the clear")
            self._step("STARTTLS", *session.starttls(context=trusting(endpoint.ca_file)))
            self._connection = session.connection
            self._step("EHLO", *session.ehlo())
        if endpoint.user:
            session.login(endpoint.user, endpoint.password.get_secret_value())
        return session

    def _step(self, name: str, status: int, text: bytes, *, wanted: int = 2) -> None:
        if status // 100 != wanted:
            code = f"smtp_{status}" if 200 <= status <= 599 else "smtp_not_understood"
            raise _Refused(code, f"the mail server answered {name} with {_shown(status, text)}: the mail was not sent")

    def _what_happened(self, error: Exception) -> str:
        """The kind of the failure only: a server's text may hold what it was sent, a password for example."""
        if self._deadline.has_passed or isinstance(error, TimeoutError):
            return f"no answer came in {self._deadline.seconds:g} s"
        if isinstance(error, smtplib.SMTPAuthenticationError):
            return f"the mail server refused user or password ({error.smtp_code})"
        return f"the connection ended or made no sense ({type(error).__name__})"

    def _receipt(self, status: int, text: bytes, message: Message, key: str) -> dict[str, Json]:
        receipt: Mapping[str, Json] = {
            "provider": "smtp",
            "key": key,
            "message_id": message_id(self._endpoint, key),
            "status": status,
            "said": self._without_secrets(text),
            "body_sha256": message.body_sha256,
        }
        return dict(receipt)

    def _without_secrets(self, text: bytes) -> str:
        """The server's own words: most name their queue's id. Nothing when they hold what we logged in with."""
        password = self._endpoint.password.get_secret_value().encode()
        if password and any(secret in text for secret in (password, base64.b64encode(password).rstrip(b"="))):
            return ""
        return one_line(text.decode("utf-8", "surrogateescape"), limit=_MOST_KEPT)

    def hang_up(self) -> None:
        """QUIT, without waiting for its answer: by now what it says changes nothing."""
        if self._session is not None and self._session.sock is not None:
            with contextlib.suppress(OSError, smtplib.SMTPException, ValueError):
                self._session.putcmd("QUIT")
            self._session.close()
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()


def _has_spoken(session: _Session) -> bool:
    """Before its turn, or gone. Without the dot nothing is taken: this is the last moment at which stopping proves something."""
    try:
        session.connection.settimeout(0)
        if session.file is not None and session.file.peek(1):
            return True
        session.connection.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except (OSError, smtplib.SMTPException):
        return True
    return True


def _shown(status: int, text: bytes) -> str:
    """The code and, where given, the enhanced one (RFC 3463); never the words."""
    if not 200 <= status <= 599:
        return "something that is no SMTP reply"
    enhanced = _ENHANCED.match(text)
    return f"{status} {enhanced[0].decode()}" if enhanced else str(status)

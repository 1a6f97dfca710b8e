"""One HTTP exchange, made once: no retry, no redirect, no proxy, and an answer that tells what may have left this machine.

Own code over `http.client` because the two things that matter here are what comfortable clients hide: whether the first byte of the
request was handed to the network, and a time for the whole call (theirs is per read, so a dripping peer never runs into it).
"""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from resources.providers.dialling import NotConnected, dial, secured
from resources.providers.patience import MOST_ANSWER_BYTES, Deadline


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    """Checked by the settings: http or https, printable ASCII, no user."""
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Read to its end. Header names are lower-case; of two equal ones the first."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class NotSent:
    """No byte of the request left."""

    code: str
    why: str


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Something may have left, and what came back is no whole answer. An answer that was not read to its end proves nothing."""

    why: str


Exchanged: TypeAlias = HttpAnswer | NotSent | NoAnswer


def exchange(request: Request, *, seconds: float, ca_file: Path | None = None) -> Exchanged:
    """Raises nothing that the network or the other side can cause."""
    address = urlsplit(request.url)
    host, tls = address.hostname or "", address.scheme == "https"
    with Deadline(seconds) as deadline:
        connection: socket.socket | None = None
        try:
            connection = dial(host, address.port or (443 if tls else 80), deadline=deadline)
            if tls:
                connection = secured(connection, host, ca_file=ca_file, deadline=deadline)
            return _asked(request, connection, deadline)
        except NotConnected as error:
            return NotSent(error.code, error.why)
        finally:
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.close()


def _asked(request: Request, connection: socket.socket, deadline: Deadline) -> Exchanged:
    address = urlsplit(request.url)
    client = http.client.HTTPConnection(address.hostname or "")
    client.sock = connection
    client.auto_open = 0  # a connection that was closed is never opened again behind our back
    path = (address.path or "/") + (f"?{address.query}" if address.query else "")
    try:
        connection.settimeout(deadline.left)
        client.request(request.method, path, request.body or None, {"Host": address.netloc, **request.headers})
        answer = client.getresponse()
        body = answer.read(MOST_ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return NoAnswer(_why(error, deadline))
    if deadline.has_passed:
        return NoAnswer(_why(TimeoutError(), deadline))
    if len(body) > MOST_ANSWER_BYTES:
        return NoAnswer(
            f"the answer ({answer.status}) is longer than {MOST_ANSWER_BYTES // 1024} KiB and was not read to its end"
        )
    if answer.length:
        return NoAnswer(f"the answer ({answer.status}) ended before its announced length")
    headers: dict[str, str] = {}
    for name, value in answer.getheaders():
        headers.setdefault(name.lower(), value)
    return HttpAnswer(answer.status, headers, body)


def _why(error: Exception, deadline: Deadline) -> str:
    """The kind of the failure only: what the other side wrote may hold anything, our own token included."""
    if deadline.has_passed or isinstance(error, TimeoutError):
        return f"no whole answer came in {deadline.seconds:g} s"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError | ssl.SSLError):
        return f"the connection ended before an answer was complete ({type(error).__name__})"
    return f"the answer could not be read ({type(error).__name__})"

"""Patience with file servers: the one place for time-outs, attempts and back-off, with the reason for each number.

Used by FTP, FTPS and SFTP alike. What is transient (`Transient`) is tried again, each time on a fresh connection, a bounded number of
times; everything else is raised at once. Tests and the sandbox pass a smaller `Patience`; nobody else has numbers of their own.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from guards.text import one_line
from resources.errors import Transient, Unreachable
from resources.file_servers.endpoint import Endpoint

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for one file server. Seconds are wall time."""

    connect_seconds: float = 10.0
    """TCP and TLS or SSH set-up. Three lost SYNs are resent after 1, 3 and 7 s; who has not answered by then is not there."""
    stall_seconds: float = 30.0
    """No byte moved, or no reply to a command. Longer than a disk that spins up or a TCP path that heals (15 to 20 s)."""
    settle_seconds: float = 120.0
    """The last reply after an upload, or a server's own hash: some scan or hash the whole file first (64 MB at 1 MB/s fits)."""
    attempts: int = 3
    """A restart of a server or a full connection table passes within two pauses; what fails three times is an incident."""
    first_pause_seconds: float = 0.5
    pause_factor: float = 4.0
    """0.5 s, then 2 s: all attempts of one step pause 2.5 s together, so a sensor's tick keeps its deadline."""

    def pause_after(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt` (the first is 1)."""
        return self.first_pause_seconds * self.pause_factor ** (attempt - 1)


PATIENCE: Final = Patience()

_KEEP_ALIVE_SECONDS: Final = 60
"""An FTP control connection is silent while a file travels; home and office routers forget silent connections after 5 minutes."""


def retrying(
    step: Callable[[], Result],
    *,
    side: str,
    patience: Patience = PATIENCE,
    before_again: Callable[[], None] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Result:
    """`step()`, tried again while it raises `Transient`; the last one is raised with the number of attempts in it.

    `before_again` drops the old connection: every attempt after the first must be on a fresh one. Only for steps that change
    nothing, or that provably changed nothing when they raise `Transient`.
    """
    attempt = 1
    while True:
        try:
            return step()
        except Transient as error:
            if before_again is not None:
                before_again()
            if attempt >= patience.attempts:
                raise Transient(f"{error} (tried {attempt} times)") from error
            logger.warning("%s: attempt %d of %d failed, trying again: %s", side, attempt, patience.attempts, error)
            pause(patience.pause_after(attempt))
            attempt += 1


def dial(endpoint: Endpoint, *, patience: Patience = PATIENCE) -> socket.socket:
    """A connected TCP socket with TCP_NODELAY, keep-alive and the stall time-out set; nothing has been read yet.

    Errors: `Transient` when refused or reset, `Unreachable` when the name is unknown or nobody answers.
    """
    where = f"{endpoint.host}:{endpoint.port}"
    try:
        connection = socket.create_connection((endpoint.host, endpoint.port), timeout=patience.connect_seconds)
    except socket.gaierror:
        raise Unreachable(f"{endpoint.side}: the host name {endpoint.host} is unknown: check the URL and the DNS") from None
    except TimeoutError:
        raise Unreachable(
            f"{endpoint.side}: connecting to {where} got no answer in {patience.connect_seconds:g} s: check host, port and firewall"
        ) from None
    except OSError as error:
        raise Transient(
            f"{endpoint.side}: connecting to {where} failed ({error.strerror or error}): is the server up, and the port right?"
        ) from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS, where the system's two hours stay
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEP_ALIVE_SECONDS)
    connection.settimeout(patience.stall_seconds)
    return connection


def hang_up(connection: socket.socket | None) -> None:
    """Closes at once, without goodbye and without errors."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.close()


def shown(text: str, *, longest: int = 200) -> str:
    """What a server said, fit for a sentence: one line, nothing that acts, bounded."""
    return one_line(text, limit=longest)

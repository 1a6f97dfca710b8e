"""Connecting to a provider under a deadline. Whatever fails in here is provably before the message: `NotConnected`."""

import socket
import ssl
from pathlib import Path

from guards.text import one_line
from resources.providers.patience import CONNECT_SECONDS, Deadline


class NotConnected(Exception):
    """`code` and `why` as in `Rejected`. The host's name is not in it: it may belong to an address that is a secret."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


def dial(host: str, port: int, *, deadline: Deadline) -> socket.socket:
    """A connected TCP socket, watched by the deadline. All addresses of the host together get 5 s; the name's look-up is the system's."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotConnected("unreachable", "the host's name is unknown: check the address and the DNS") from None
    why = "the host has no address"
    with Deadline(min(CONNECT_SECONDS, deadline.left)) as connecting:
        for family, kind, protocol, _, address in addresses:
            connection: socket.socket | None = None
            try:
                connection = socket.socket(family, kind, protocol)
                connection.settimeout(connecting.left)
                connection.connect(address)
            except OSError as error:
                if connection is not None:
                    connection.close()
                why = f"nothing was reached ({type(error).__name__}): is it up, the port right, and the way open?"
                continue
            connection.settimeout(deadline.left)
            deadline.watch(connection)
            return connection
    raise NotConnected("unreachable", why)


def trusting(ca_file: Path | None) -> ssl.SSLContext:
    """Certificates and host names are verified, TLS 1.2 at least. Raises `NotConnected` for an authority file that is none."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError):
        raise NotConnected("bad_ca_file", "the file of certificate authorities cannot be read: check ca_file") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def secured(connection: socket.socket, host: str, *, ca_file: Path | None, deadline: Deadline) -> ssl.SSLSocket:
    context = trusting(ca_file)
    connection.settimeout(deadline.left)
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise NotConnected(
            "untrusted_certificate",
            f"the certificate does not verify ({one_line(error.verify_message)}): check ca_file and the address",
        ) from None
    except (OSError, ValueError) as error:
        raise NotConnected("tls_failed", f"TLS could not be set up ({type(error).__name__})") from None

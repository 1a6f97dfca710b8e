"""Ports of 127.0.0.1 for servers that have to be told one."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from resources.errors import ConfigurationError


@contextmanager
def held_port(port: int = 0) -> Iterator[int]:
    """The port, or a free one for 0: it refuses connections until our server listens there, and nobody else gets it meanwhile.

    Linux lets a server bind what is bound and not listened on where both ask for SO_REUSEADDR, as servers do, and gives such a port to
    nobody who asks for any. Elsewhere it is only free now. Raises ConfigurationError when something listens there.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that is still closing does not count
        try:
            holder.bind(("127.0.0.1", port))
        except OSError as error:
            raise ConfigurationError(
                f"Port {port} of 127.0.0.1 is taken ({error.strerror}): end what uses it, or give another with --port."
            ) from error
        held: int = holder.getsockname()[1]
        if sys.platform != "linux":
            holder.close()
        yield held


def require_free_port(port: int) -> None:
    """Raises ConfigurationError when something listens there."""
    with held_port(port):
        pass

"""One data connection: bytes in or out, each step bounded by the stall time-out."""

import contextlib
import select
import socket
import ssl
import struct
from typing import Final

from resources.file_servers.connect import hang_up
from resources.file_servers.interface import BLOCK_BYTES

_LINGER_ZERO: Final = struct.pack("ii", 1, 0)


class DataConnection:
    """Raises OSError (TimeoutError when nothing moved for `stall_seconds`): the caller says what that means.

    `ragged` is true after a TLS stream ended without its close_notify: somebody between may have cut it.
    """

    def __init__(self, connection: socket.socket, *, stall_seconds: float) -> None:
        connection.settimeout(stall_seconds)
        self._socket = connection
        self._stall_seconds = stall_seconds
        self.ragged = False

    def wrap(self, context: ssl.SSLContext, *, host: str, session: ssl.SSLSession | None) -> None:
        """TLS from here on, resuming the control connection's session."""
        self._socket = context.wrap_socket(self._socket, server_hostname=host, session=session, suppress_ragged_eofs=False)

    def read_block(self) -> bytes:
        """Up to 256 KiB, fewer only at the end; b"" when the sender has ended."""
        pieces: list[bytes] = []
        missing = BLOCK_BYTES
        while missing:
            try:
                piece = self._socket.recv(missing)
            except ssl.SSLEOFError:
                self.ragged = True
                break
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)  # one piece is the rule on a near plain socket: no copy

    def send(self, block: bytes) -> None:
        """All of it. The time-out is per piece, not for the whole block (as `sendall` has it): a slow line is no stall."""
        view = memoryview(block)
        while view:
            view = view[self._socket.send(view) :]

    def finish_sending(self) -> None:
        """Says that all was sent; the socket stays open until the final reply, since a close with unread TLS tickets would reset it."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._send_close_notify(self._socket)
        self._socket.shutdown(socket.SHUT_WR)

    def finish_reading(self) -> None:
        """Closes before the final reply is awaited: vsftpd sends its 226 only after the TLS stream was closed from here too."""
        if isinstance(self._socket, ssl.SSLSocket) and not self.ragged:
            with contextlib.suppress(OSError):
                self._send_close_notify(self._socket)
        self.close()

    def abort(self) -> None:
        """Ends with a reset, so that the server cannot take what it has for a whole file."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        hang_up(self._socket)

    def close(self) -> None:
        hang_up(self._socket)

    def _send_close_notify(self, connection: ssl.SSLSocket) -> None:
        """Ours only. Not waiting for the server's: some answer it only after the end of the TCP stream, or never."""
        connection.setblocking(False)
        while True:
            try:
                connection.unwrap()
            except ssl.SSLWantWriteError:
                if not select.select([], [connection], [], self._stall_seconds)[1]:
                    raise TimeoutError("timed out") from None
                continue
            except (ssl.SSLError, OSError, ValueError):
                pass  # sent, and the server's own is still to come (SSLWantReadError) or never comes
            break
        connection.settimeout(self._stall_seconds)

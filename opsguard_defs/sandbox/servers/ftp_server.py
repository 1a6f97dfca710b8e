"""The sandbox's FTP server: pyftpdlib in a process of its own, jailed to one directory, on a loopback port.

    python -m opsguard_defs.sandbox.servers.ftp_server --root DIR --port 0 --ready FILE --user U --password-file F
        [--tls explicit|implicit --cert F --key F] [--log FILE]

`--tls explicit` refuses a login before AUTH TLS and data connections in the clear; `--tls implicit` speaks TLS from the first byte.
Certificate and key are made when they are absent. It ends with the process that started it. The ready file holds the bound port once
connections are taken.

Each line of the log is one JSON object {"at", "event", "user", "path", "to", "bytes"}: `login`, `upload`, `upload_cut`, `download`,
`rename` (path, to), `remove`; paths as the client sees them. It is the partner's own record: tests judge by it, not by ours.
"""

import errno
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import DTPHandler, FTPHandler, TLS_DTPHandler, TLS_FTPHandler
from pyftpdlib.servers import FTPServer

from opsguard_defs.sandbox.servers.certificate import write_self_signed
from opsguard_defs.sandbox.servers.serving import end_with_starter, say_port, server_parser

ALL_BUT_CHMOD: Final = "elradfmwT"
IDLE_SECONDS: Final = 3600
"""A person with a client thinks; the server's default of five minutes would throw them out."""


@dataclass(frozen=True, slots=True)
class AccessLog:
    """Appends one line per event, in one write, so that a reader never sees half a line."""

    path: Path | None

    def say(self, event: str, user: str, path: str = "", *, to: str = "", size: int | None = None) -> None:
        if self.path is None:
            return
        line = {"at": datetime.now(UTC).isoformat(), "event": event, "user": user, "path": path, "to": to, "bytes": size}
        with self.path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


class ResettableData(DTPHandler):  # type: ignore[misc]  # the library has no types
    """An upload that the client reset did not end: the library alone would answer 226 and count it as whole."""

    def handle_close(self) -> None:
        error = sys.exc_info()[1]  # the library calls this while it handles the error of its `recv`
        reset = error is not None and error.args[:1] == (errno.ECONNRESET,)
        if reset and self.receive and not self._closed:
            self._resp = ("426 Connection reset; transfer aborted.", logging.getLogger("pyftpdlib").debug)
            self.close()
        else:
            super().handle_close()


class ResettableTlsData(TLS_DTPHandler, ResettableData):  # type: ignore[misc]
    """The same behind TLS."""


class LoggedSession(FTPHandler):  # type: ignore[misc]
    """One client. Names are bytes that need not be UTF-8: they go through unchanged (PEP 383), as on a real Unix server."""

    access_log = AccessLog(None)
    banner = "OpsGuard sandbox FTP server"
    dtp_handler = ResettableData
    unicode_errors = "surrogateescape"
    timeout = IDLE_SECONDS
    max_login_attempts = 3
    auth_failed_timeout = 0
    use_sendfile = False
    """sendfile counts nothing, and the log says how many bytes went out."""

    def push(self, data: str) -> None:
        super(FTPHandler, self).push(data.encode(self.encoding, self.unicode_errors))

    def _say(self, event: str, file: str, *, to: str = "", sized: bool = False) -> None:
        size = Path(file).stat().st_size if sized and Path(file).exists() else None
        shown_to = self.fs.fs2ftp(to) if to else ""
        self.access_log.say(event, self.username, self.fs.fs2ftp(file), to=shown_to, size=size)

    def on_login(self, username: str) -> None:
        self.access_log.say("login", username)

    def on_file_received(self, file: str) -> None:
        self._say("upload", file, sized=True)

    def on_incomplete_file_received(self, file: str) -> None:
        self._say("upload_cut", file, sized=True)

    def on_file_sent(self, file: str) -> None:
        self._say("download", file, sized=True)

    def ftp_RNTO(self, path: str) -> Any:  # noqa: N802  # the library finds it by this name
        done = super().ftp_RNTO(path)
        if done is not None:
            self._say("rename", done[0], to=done[1])
        return done

    def ftp_DELE(self, path: str) -> Any:  # noqa: N802
        done = super().ftp_DELE(path)
        if done is not None:
            self._say("remove", done)
        return done


class ExplicitTlsSession(LoggedSession, TLS_FTPHandler):  # type: ignore[misc]
    """AUTH TLS first, PROT P before any data."""

    dtp_handler = ResettableTlsData
    tls_control_required = True
    tls_data_required = True


class ImplicitTlsSession(ExplicitTlsSession):
    """TLS from the first byte; the greeting waits for the handshake."""

    def handle(self) -> None:
        self.secure_connection(self.ssl_context)

    def handle_ssl_established(self) -> None:
        super().handle()


def session_class(tls: str | None, *, cert: Path | None, key: Path | None) -> type[LoggedSession]:
    """A fresh class per server: the library keeps its settings on the class."""
    if tls is None:
        return type("PlainSession", (LoggedSession,), {})
    if cert is None or key is None:
        raise SystemExit("--tls needs --cert and --key: both are made when the files are absent")
    if not cert.exists() or not key.exists():
        write_self_signed(cert=cert, key=key)
    base = ImplicitTlsSession if tls == "implicit" else ExplicitTlsSession
    return type("TlsSession", (base,), {"certfile": str(cert), "keyfile": str(key), "ssl_context": None})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = server_parser("FTP server", root="directory that the client sees as /", log="JSON lines of what clients did")
    parser.add_argument("--user", required=True)
    parser.add_argument("--password-file", type=Path, required=True)
    parser.add_argument("--tls", choices=("explicit", "implicit"), help="without it plain FTP")
    parser.add_argument("--cert", type=Path, help="PEM certificate; self-signed for localhost and 127.0.0.1 when absent")
    parser.add_argument("--key", type=Path, help="PEM private key; made with the certificate when absent")
    given = parser.parse_args(arguments)

    end_with_starter()
    logging.basicConfig(level=logging.WARNING)  # configured first: else the library sets up its own, which tells every command
    users = DummyAuthorizer()
    users.add_user(given.user, given.password_file.read_text().strip("\n"), str(given.root.resolve()), perm=ALL_BUT_CHMOD)
    handler = session_class(given.tls, cert=given.cert, key=given.key)
    handler.authorizer = users
    handler.access_log = AccessLog(given.log)
    server = FTPServer(("127.0.0.1", given.port), handler)
    say_port(given.ready, server.address[1])
    server.serve_forever(handle_exit=True)


if __name__ == "__main__":
    main()

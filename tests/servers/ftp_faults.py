"""An FTP server that does what real ones do rarely. Plain sockets and threads, files in memory, one set of faults per server.

`server.files` and `server.record` are the partner's own truth: tests judge by them. Each fault is a field of `Faults`; a field's
default is honest behaviour. `storms`, `hangs` and `closes` work on any command.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from resources.file_servers.endpoint import Endpoint, Profile

USER: Final = "feeds"
PASSWORD: Final = "canary-fault-password"
MODIFIED: Final = b"20260102030405"
_RESET: Final = struct.pack("ii", 1, 0)


@dataclass
class Faults:
    """Counts are bytes or rows, texts are whole replies without their line end."""

    retr_lies_after: int | None = None
    """RETR sends so many bytes and says 226."""
    retr_cut_at: int | None = None
    """The data connection is reset after so many bytes, and the control connection says 426."""
    retr_stalls_at: int | None = None
    """So many bytes, then silence on an open connection."""
    stor_keeps: int | None = None
    """STOR takes everything, keeps so many bytes and says 226."""
    stor_cut_at: int | None = None
    """Both connections are reset after so many bytes."""
    stor_full_at: int | None = None
    """552 after so many bytes, and the data connection is closed."""
    stor_stalls_at: int | None = None
    """Nothing is read any more."""
    stor_begin: str = ""
    """Answer to STOR instead of 150."""
    stor_end: str = ""
    """Answer instead of 226, after all was taken: an error that only close shows."""
    list_rows_cut: int | None = None
    """Only so many rows, and 226."""
    list_raw: bytes | None = None
    """What the data connection brings instead of the rows."""
    list_begin: str = ""
    list_end: str = "226 Transfer complete."
    """ "" closes the control connection without an answer."""
    list_endless: bool = False
    ascii_after_listing: bool = False
    """The server is in ASCII mode after each listing, and answers SIZE with 550 there."""
    rename_refused: str = ""
    rename_never_replaces: bool = False
    after_reply_lost: str = ""
    """STOR, RNTO or DELE: it is done, then the connection is closed without the answer."""
    size_refused: str = ""
    """Answer to every SIZE and MLST."""
    pasv_address: str = ""
    """What PASV says, with EPSV not understood."""
    epsv_answer: str = ""
    """Instead of a port."""
    greeting: str = "220 ready"
    login: str = ""
    """Answer to PASS; `{password}` in it is what was sent."""
    machine: bool = False
    """Offers MLSD and MLST."""
    features: tuple[str, ...] = ()
    hash_answer: str = ""
    tls_files: tuple[Path, Path] | None = None
    """Certificate and key: AUTH TLS works."""
    tls_cut: bool = False
    """Data connections end without the TLS close."""
    storms: dict[str, int] = field(default_factory=dict)
    """Command to how many times it gets 451 (421 for USER) first."""
    hangs: frozenset[str] = frozenset()
    closes: frozenset[str] = frozenset()


@dataclass
class FaultyFtp:
    """Directory /inbox only. Names are bytes."""

    faults: Faults
    port: int
    files: dict[bytes, bytes] = field(default_factory=dict)
    record: list[str] = field(default_factory=list)
    """Every command line but PASS, and `connect` for each connection."""

    def endpoint(self, **profile: object) -> Endpoint:
        tls = self.faults.tls_files
        return Endpoint(
            side="partner",
            scheme="ftps" if tls else "ftp",
            ca_file=tls[0] if tls else None,
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=SecretStr(PASSWORD),
            directory="/inbox",
            profile=Profile(**{"allow_cleartext": True, **profile}),  # type: ignore[arg-type]
        )

    def said(self, command: str) -> int:
        """How often a command came."""
        return sum(1 for line in self.record if line.split(" ")[0] == command)


@contextmanager
def faulty_ftp(faults: Faults, files: dict[bytes, bytes] | None = None) -> Iterator[FaultyFtp]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = FaultyFtp(faults, listener.getsockname()[1], dict(files or {}))
    open_sockets: list[socket.socket] = [listener]

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_sockets.append(connection)
            threading.Thread(target=_Session(server, connection, open_sockets).run, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        for one in open_sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class _Closed(Exception):
    """This session is over."""


class _Session:
    def __init__(self, server: FaultyFtp, connection: socket.socket, open_sockets: list[socket.socket]) -> None:
        self.server, self.faults = server, server.faults
        self.connection, self.open_sockets = connection, open_sockets
        self.lines = connection.makefile("rb")
        self.passive: socket.socket | None = None
        self.ascii = True
        self.renaming = b""
        self.context: ssl.SSLContext | None = None

    def run(self) -> None:
        self.server.record.append("connect")
        with suppress(_Closed, OSError):
            self.say(self.faults.greeting)
            while line := self.lines.readline():
                command, _, argument = line.rstrip(b"\r\n").partition(b" ")
                self.obey(command.decode("ascii").upper(), argument)
        self.connection.close()

    def say(self, text: str) -> None:
        self.connection.sendall(text.encode("utf-8", "surrogateescape") + b"\r\n")

    def obey(self, command: str, argument: bytes) -> None:
        if command != "PASS":
            self.server.record.append(f"{command} {argument.decode('utf-8', 'surrogateescape')}".strip())
        if command in self.faults.closes:
            raise _Closed
        if command in self.faults.hangs:
            self.lines.readline()  # until the client gives up
            raise _Closed
        if self.faults.storms.get(command, 0) > 0:
            self.faults.storms[command] -= 1
            self.say("421 Too many users" if command == "USER" else "451 Try again")
            return
        action = getattr(self, f"do_{command.lower()}", None)
        if action is None:
            self.say("502 Not here")
        else:
            action(argument)

    def do_auth(self, _: bytes) -> None:
        if self.faults.tls_files is None:
            self.say("502 Not here")
            return
        self.say("234 Go on")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*self.faults.tls_files)
        self.connection = self._secured(self.connection)
        self.lines = self.connection.makefile("rb")

    def do_pbsz(self, _: bytes) -> None:
        self.say("200 OK")

    do_prot = do_pbsz

    def _secured(self, connection: socket.socket) -> socket.socket:
        if self.context is None:
            return connection
        secured = self.context.wrap_socket(connection, server_side=True)
        self.open_sockets.append(secured)
        return secured

    def end(self, connection: socket.socket) -> None:
        """The data connection's orderly end, or what looks like one without TLS."""
        if isinstance(connection, ssl.SSLSocket) and not self.faults.tls_cut:
            with suppress(OSError):
                connection.unwrap()
        connection.close()

    def do_user(self, _: bytes) -> None:
        self.say("331 Password?")

    def do_pass(self, argument: bytes) -> None:
        if self.faults.login:
            self.say(self.faults.login.format(password=argument.decode()))
        else:
            self.say("230 In" if argument == PASSWORD.encode() else "530 Login incorrect.")

    def do_feat(self, _: bytes) -> None:
        offered = [*self.faults.features, *(["MLST type*;size*;modify*;"] if self.faults.machine else [])]
        self.say("\r\n".join(["211-Features", *(f" {feature}" for feature in offered), "211 End"]))

    def do_opts(self, _: bytes) -> None:
        self.say("200 OK")

    def do_type(self, argument: bytes) -> None:
        self.ascii = argument.upper() != b"I"
        self.say("200 OK")

    def do_cwd(self, argument: bytes) -> None:
        self.say("250 OK" if argument == b"/inbox" else "550 No such directory.")

    def do_quit(self, _: bytes) -> None:
        raise _Closed

    def do_epsv(self, _: bytes) -> None:
        if self.faults.epsv_answer:
            self.say(self.faults.epsv_answer)
        elif self.faults.pasv_address:
            self.say("500 EPSV not understood")
        else:
            self.say(f"229 Extended Passive (|||{self.listen()}|)")

    def do_pasv(self, _: bytes) -> None:
        port = self.listen()
        self.say(f"227 Passive ({self.faults.pasv_address.replace('.', ',')},{port // 256},{port % 256})")

    def listen(self) -> int:
        self.passive = socket.create_server(("127.0.0.1", 0))
        self.open_sockets.append(self.passive)
        port: int = self.passive.getsockname()[1]
        return port

    def data(self, begin: str = "") -> socket.socket | None:
        """The data connection after 150; None when the command was refused."""
        assert self.passive is not None
        if begin:
            self.passive.close()
            self.say(begin)
            return None
        self.say("150 Here it comes")
        connection, _ = self.passive.accept()
        self.passive.close()
        self.open_sockets.append(connection)
        return self._secured(connection)

    def do_list(self, _: bytes) -> None:
        self._listing(
            [b"-rw-r--r--    1 ftp      ftp      %8d Jan 02  2026 %s" % (len(content), name) for name, content in self.files()]
        )

    def do_mlsd(self, _: bytes) -> None:
        if not self.faults.machine:
            self.say("502 Not here")
            return
        self._listing([b"type=file;size=%d;modify=%s; %s" % (len(content), MODIFIED, name) for name, content in self.files()])

    def files(self) -> list[tuple[bytes, bytes]]:
        return sorted(self.server.files.items())

    def _listing(self, rows: list[bytes]) -> None:
        connection = self.data(self.faults.list_begin)
        if connection is None:
            return
        with suppress(OSError):
            while self.faults.list_endless:
                connection.sendall(b"-rw-r--r--    1 ftp      ftp             1 Jan 02  2026 feed.csv\r\n" * 1000)
            content = b"".join(row + b"\r\n" for row in rows[: self.faults.list_rows_cut])
            connection.sendall(content if self.faults.list_raw is None else self.faults.list_raw)
        self.end(connection)
        self.ascii = self.ascii or self.faults.ascii_after_listing
        if not self.faults.list_end:
            raise _Closed
        self.say(self.faults.list_end)

    def do_size(self, argument: bytes) -> None:
        content = self._content(argument)
        if self.faults.size_refused:
            self.say(self.faults.size_refused)
        elif self.ascii or content is None:
            self.say("550 SIZE not allowed in ASCII mode" if self.ascii else "550 No such file")
        else:
            self.say(f"213 {len(content)}")

    def do_mdtm(self, argument: bytes) -> None:
        self.say("550 No such file" if self._content(argument) is None else f"213 {MODIFIED.decode()}")

    def do_mlst(self, argument: bytes) -> None:
        content = self._content(argument)
        if not self.faults.machine:
            self.say("502 Not here")
        elif self.faults.size_refused or content is None:
            self.say(self.faults.size_refused or "550 No such file")
        else:
            shown = argument.decode("utf-8", "surrogateescape")
            self.say(f"250-Here\r\n type=file;size={len(content)};modify={MODIFIED.decode()}; {shown}\r\n250 End")

    def do_hash(self, _: bytes) -> None:
        self.say(self.faults.hash_answer)

    do_xsha256 = do_hash

    def _content(self, argument: bytes) -> bytes | None:
        return self.server.files.get(argument.removeprefix(b"/inbox/"))

    def do_retr(self, argument: bytes) -> None:
        content = self._content(argument)
        connection = self.data("550 No such file" if content is None else "")
        if connection is None or content is None:
            return
        faults = self.faults
        at = next((at for at in (faults.retr_lies_after, faults.retr_cut_at, faults.retr_stalls_at) if at is not None), None)
        with suppress(OSError):
            connection.sendall(content[:at])
            if faults.retr_stalls_at is not None:
                self.lines.readline()
                raise _Closed
            if faults.retr_cut_at is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.end(connection)
        self.say("426 Cut" if faults.retr_cut_at is not None else "226 Transfer complete.")

    def do_stor(self, argument: bytes) -> None:
        connection = self.data(self.faults.stor_begin)
        if connection is None:
            return
        name = argument.removeprefix(b"/inbox/")
        content = self._taken(connection)
        self.server.files[name] = content if self.faults.stor_keeps is None else content[: self.faults.stor_keeps]
        if self.faults.stor_cut_at is not None:
            for one in (connection, self.connection):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.close()
            raise _Closed
        if self.faults.stor_full_at is not None:
            self.say("552 No space left")
            connection.close()
            return
        connection.close()
        self._lose_reply("STOR")
        self.say(self.faults.stor_end or "226 Transfer complete.")

    def _taken(self, connection: socket.socket) -> bytes:
        """All bytes, or as many as the fault lets in."""
        limits = (self.faults.stor_cut_at, self.faults.stor_full_at, self.faults.stor_stalls_at)
        limit = next((at for at in limits if at is not None), None)
        content = bytearray()
        while limit is None or len(content) < limit:
            block = connection.recv(65536 if limit is None else min(65536, limit - len(content)))
            if not block:
                break
            content += block
        if self.faults.stor_stalls_at is not None:
            self.lines.readline()
            raise _Closed
        return bytes(content)

    def do_rnfr(self, argument: bytes) -> None:
        self.renaming = argument.removeprefix(b"/inbox/")
        self.say("350 To what?" if self.renaming in self.server.files else "550 No such file")

    def do_rnto(self, argument: bytes) -> None:
        to = argument.removeprefix(b"/inbox/")
        if self.faults.rename_refused:
            self.say(self.faults.rename_refused)
        elif self.faults.rename_never_replaces and to in self.server.files:
            self.say("550 File exists")
        else:
            self.server.files[to] = self.server.files.pop(self.renaming)
            self._lose_reply("RNTO")
            self.say("250 Renamed")

    def do_dele(self, argument: bytes) -> None:
        gone = self.server.files.pop(argument.removeprefix(b"/inbox/"), None)
        self._lose_reply("DELE")
        self.say("550 No such file" if gone is None else "250 Removed")

    def _lose_reply(self, command: str) -> None:
        if self.faults.after_reply_lost == command:
            raise _Closed

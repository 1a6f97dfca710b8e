"""The control connection: `ftplib` with names as exact bytes, replies as values, and data connections only to where we choose.

A control connection that raised anything but `NotObserved` is out of step and must be dropped; `FtpSession` does.
"""

import contextlib
import ftplib
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Final

from resources.errors import ConfigurationError, NotObserved, OpsGuardError, Transient, Unreachable
from resources.file_servers.connect import Patience, dial, hang_up, shown
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.ftp_data import DataConnection
from resources.file_servers.ftp_reply import NoReply, Reply, extended_port, passive_port, read_reply
from resources.file_servers.names import encoded

_FULL: Final = re.compile(r"too many|maximum number|max(imum)? .*(clients|connections|users)|try (again )?later", re.IGNORECASE)
"""ProFTPD and Serv-U refuse a login with 530 when only their connection table is full."""


class FtpControl(ftplib.FTP):
    """Plain FTP. `doing` is the step that error sentences name, for example `list /outbound`."""

    fingerprint = ""

    def __init__(self, endpoint: Endpoint, *, patience: Patience) -> None:
        # Latin-1 maps each byte to one character and back: ftplib can neither fail at a name nor change one.
        super().__init__(encoding="latin-1")
        self.endpoint = endpoint
        self.patience = patience
        self.doing = "connect"
        self.features: Mapping[str, str] = {}
        self._extended_passive = True
        self._binary = False

    def open(self) -> None:
        """Connects, verifies the server, logs in. Errors: `Unreachable` and its kinds."""
        try:
            self._greet(dial(self.endpoint, patience=self.patience))
            self.secure()
            self._log_in()
            self.protect_all_data()
            self._learn_features()
        except BaseException:
            self.hang_up()
            raise

    def secure(self) -> None:
        """Nothing to do in plain FTP."""

    def protect_all_data(self) -> None:
        """Nothing to do in plain FTP."""

    def hang_up(self) -> None:
        hang_up(self.sock)
        self.close()

    def say_goodbye(self) -> None:
        with contextlib.suppress(OSError):
            self.putcmd("QUIT")

    def ask(self, command: str, path: str = "") -> Reply:
        """Sends one command and returns its reply, whatever its code. Errors: `Transient` when cut, `Unreachable` when silent."""
        self.tell(command, path)
        return self.reply()

    def tell(self, command: str, path: str = "") -> None:
        line = f"{command} {encoded(path).decode('latin-1')}" if path else command
        try:
            self.putcmd(line)
        except OSError as error:
            raise self.broken(error) from None

    def reply(self, *, seconds: float | None = None) -> Reply:
        """The next reply; waits `seconds` for each of its lines (default: the stall time-out)."""
        assert self.sock is not None
        self.sock.settimeout(self.patience.stall_seconds if seconds is None else seconds)
        try:
            return read_reply(self.getline)
        except NoReply as error:
            raise Unreachable(self.sentence(f"{shown(str(error))}: is this an FTP server?")) from None
        except (OSError, EOFError) as error:
            raise self.broken(error) from None
        except ftplib.Error:
            raise Unreachable(self.sentence("the server sends an endless line: is this an FTP server?")) from None

    def binary(self) -> None:
        """TYPE I before every SIZE, RETR, STOR and HASH that follows a listing: in ASCII mode servers answer SIZE with 550."""
        if not self._binary:
            self.require(self.ask("TYPE I"), "the server refuses binary transfers, and nothing else is safe")
            self._binary = True

    def after_listing(self) -> None:
        """Whatever type the server fell back to for its listing is not ours any more."""
        self._binary = False

    def data(self, command: str, path: str = "") -> tuple[DataConnection, Reply]:
        """Opens a data connection and starts a transfer on it. The reply's code is 1xx, or a final one and the data is of no use."""
        connection = DataConnection(self._dial_data(), stall_seconds=self.patience.stall_seconds)
        try:
            reply = self.ask(command, path)
            if reply.begins:
                self.protect(connection)
        except BaseException:
            connection.close()
            raise
        return connection, reply

    def protect(self, connection: DataConnection) -> None:
        """Nothing to do in plain FTP."""

    def require(self, reply: Reply, otherwise: str) -> Reply:
        """The reply when it is 2xx. Errors: `Transient` for 4xx, `NotObserved` for the rest."""
        if reply.done:
            return reply
        raise self.refused(reply, otherwise)

    def refused(self, reply: Reply, otherwise: str) -> Transient | NotObserved:
        answered = self.sentence(f'the server answers "{self.said(reply)}": ')
        if reply.passing:
            return Transient(answered + "it may pass by itself, try again later")
        return NotObserved(answered + otherwise)

    def broken(self, error: BaseException) -> OpsGuardError:
        """What a socket error means here."""
        if isinstance(error, TimeoutError):
            waited = self.sock.gettimeout() if self.sock is not None else self.patience.stall_seconds
            return Unreachable(
                self.sentence(
                    f"no answer in {waited or 0:g} s: the server hangs, or a firewall dropped the connection; look at the server"
                )
            )
        if isinstance(error, ssl.SSLError):
            return Transient(
                self.sentence(f"TLS failed ({shown(error.reason or str(error))}): try again, look at the server's log")
            )
        return Transient(self.sentence("the server closed the connection: try again, and look at its log if it happens again"))

    def sentence(self, what: str) -> str:
        return f"{self.endpoint.side}: {shown(self.doing)}: {what}"

    def said(self, reply: Reply) -> str:
        """A reply fit to be shown: escaped, bounded, and without the password, should the server repeat it."""
        secret = self.endpoint.password.get_secret_value()
        text = reply.text.replace(secret, "***") if secret else reply.text
        return shown(f"{reply.code} {text}".strip())

    def _greet(self, connection: socket.socket) -> None:
        self.host = self.endpoint.host
        self.af = connection.family
        self.attach(connection)
        self.doing = "connect"
        greeting = self.reply(seconds=self.patience.connect_seconds)
        if greeting.begins:  # 120: ready in n minutes
            greeting = self.reply(seconds=self.patience.connect_seconds)
        if greeting.passing:
            raise self.refused(greeting, "")
        if not greeting.done:
            raise Unreachable(self.sentence(f'the server greets with "{self.said(greeting)}": is this the right port?'))

    def attach(self, connection: socket.socket) -> None:
        self.sock = connection
        self.file = connection.makefile("r", encoding=self.encoding)

    def _log_in(self) -> None:
        user, password = self.endpoint.user, self.endpoint.password.get_secret_value()
        self.doing = f"log in as {user}"
        if any(character in user + password for character in "\0\r\n"):
            raise ConfigurationError(f"{self.endpoint.side}: user or password holds a line end: check the settings")
        reply = self.ask("USER", user)
        if reply.code == 331:
            reply = self.ask("PASS", password) if password else self.ask("PASS ")
        if reply.done:
            return
        if reply.passing or _FULL.search(reply.text):
            raise Transient(self.sentence(f'the server answers "{self.said(reply)}": try again later'))
        raise Unreachable(self.sentence(f'the server answers "{self.said(reply)}": check the user name and the password'))

    def _learn_features(self) -> None:
        self.doing = "ask for features"
        reply = self.ask("FEAT")
        if reply.code == 211:
            words = (line.strip().partition(" ") for line in reply.lines[1:-1])
            self.features = {name.upper(): value.strip() for name, _, value in words if name}
        if "UTF8" in self.features:
            self.ask("OPTS UTF8 ON")  # IIS sends its ANSI code page otherwise; who always speaks UTF-8 may refuse it
        wanted = ("type", "size", "modify")
        facts = self.features.get("MLST", "").lower().split(";")
        if any(fact in facts for fact in wanted):  # offered without a star: not sent unless asked for
            self.ask("OPTS MLST type;size;modify;")

    def _dial_data(self) -> socket.socket:
        assert self.sock is not None
        port = self._passive_port()
        # Never the address of the PASV reply: it would let a server aim us at a third machine.
        host = self.endpoint.profile.passive_address or self.sock.getpeername()[0]
        try:
            connection = socket.create_connection((host, port), timeout=self.patience.connect_seconds)
        except TimeoutError:
            raise Unreachable(
                self.sentence(
                    f"no data connection to port {port} in {self.patience.connect_seconds:g} s: open the server's passive ports"
                )
            ) from None
        except OSError as error:
            raise Transient(self.sentence(f"no data connection to port {port} ({error.strerror or error}): try again")) from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _passive_port(self) -> int:
        if self._extended_passive:
            reply = self.ask("EPSV")
            if reply.code == 229:
                return self._port(extended_port(reply), reply)
            if reply.passing:
                raise self.refused(reply, "")
            self._extended_passive = False
        reply = self.ask("PASV")
        if reply.code != 227:
            raise self.refused(reply, "the server offers no passive data connections, and no others are made")
        return self._port(passive_port(reply), reply)

    def _port(self, port: int | None, reply: Reply) -> int:
        if port is None:
            raise NotObserved(self.sentence(f'"{self.said(reply)}" names no port: the server is not usable'))
        return port

"""FTP and FTPS: an open session that can only look. See `interface` for what each method promises."""

from collections.abc import Iterator

from guards.spool.listing import Entry, Listing
from resources.errors import NotObserved, Transient
from resources.file_servers.connect import shown
from resources.file_servers.ftp_control import FtpControl
from resources.file_servers.ftp_data import DataConnection
from resources.file_servers.ftp_entry import Listings, ask_about
from resources.file_servers.ftp_hash import server_sha256
from resources.file_servers.ftp_listing import SeenListing, list_directory
from resources.file_servers.ftp_session import FtpSession
from resources.file_servers.interface import ServerIdentity
from resources.file_servers.mlsd import count
from resources.file_servers.names import checked_directory, joined, refusal


class FtpReader:
    """An open session that can only look."""

    def __init__(self, session: FtpSession) -> None:
        self._session = session
        self._listings = Listings()

    @property
    def identity(self) -> ServerIdentity:
        return self._session.identity

    def list(self, directory: str, *, limit: int) -> Listing:
        def fetch(control: FtpControl) -> SeenListing:
            return list_directory(control, directory, limit=limit)

        seen = self._session.attempt(f"list {directory}", fetch)
        if seen.broken_off:
            self._session.drop()
        self._listings.remember(seen)
        return seen.listing

    def stat(self, directory: str, name: str) -> Entry | None:
        where = self._checked(directory, name)
        return self._session.attempt(
            f"look at {joined(where, name)}", lambda control: ask_about(control, self._listings, where, name)
        )

    def read(self, directory: str, name: str, *, ceiling_bytes: int) -> Iterator[bytes]:
        path = joined(self._checked(directory, name), name)
        return self._blocks(path, ceiling_bytes=ceiling_bytes)

    def sha256(self, directory: str, name: str) -> str | None:
        path = joined(self._checked(directory, name), name)
        return self._session.attempt(f"hash {path}", lambda control: server_sha256(control, path))

    def _checked(self, directory: str, name: str) -> str:
        """The directory. A name that must not enter a command is listed, but never asked about."""
        if why := refusal(name):
            raise NotObserved(f"{self._session.endpoint.side}: no server is asked about {shown(name)}: {why}")
        return checked_directory(directory, side=self._session.endpoint.side)

    def _blocks(self, path: str, *, ceiling_bytes: int) -> Iterator[bytes]:
        """Retried until the first byte only; a session whose transfer did not end in order is dropped."""

        def start(control: FtpControl) -> tuple[FtpControl, DataConnection, int | None]:
            control.binary()
            said = control.ask("SIZE", path)
            size = count(said.text) if said.code == 213 else None
            if size is not None and size > ceiling_bytes:
                raise NotObserved(control.sentence(f"it has {size} bytes, more than the ceiling of {ceiling_bytes}"))
            connection, reply = control.data("RETR", path)
            if not reply.begins:
                connection.close()
                raise control.refused(reply, f"does the file exist, and may {control.endpoint.user} read it?")
            return control, connection, size

        control, connection, size = self._session.attempt(f"read {path}", start)
        self._session.transferring = True
        ended = False
        try:
            received = 0
            while block := _received(control, connection):
                received += len(block)
                if received > ceiling_bytes:
                    raise NotObserved(control.sentence(f"it has more bytes than the ceiling of {ceiling_bytes}"))
                yield block
            connection.finish_reading()
            final = control.reply()
            if not final.done:
                raise Transient(control.sentence(f'it ended with "{control.said(final)}" after {received} bytes: try again'))
            if (size is not None and received < size) or (connection.ragged and received != size):
                raise Transient(
                    control.sentence(f"it was cut after {received} of {size} bytes, whatever the server says: try again")
                )
            ended = True
        finally:
            connection.close()
            self._session.transferring = False
            if not ended:
                self._session.drop()


def _received(control: FtpControl, connection: DataConnection) -> bytes:
    try:
        return connection.read_block()
    except OSError as error:
        raise control.broken(error) from None

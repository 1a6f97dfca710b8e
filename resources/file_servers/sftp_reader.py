"""SFTP: an open session that can only look. See `interface` for what each method promises."""

from collections.abc import Iterator
from typing import Final

from guards.spool.listing import Entry, Listing
from resources.errors import NotObserved, Transient
from resources.file_servers.connect import shown
from resources.file_servers.interface import ServerIdentity
from resources.file_servers.names import checked_directory, encoded, joined
from resources.file_servers.sftp_listing import list_directory, name_refusal, stat_entry
from resources.file_servers.sftp_protocol import Reply, Request, Session, Status, StatusError, string
from resources.file_servers.sftp_session import SftpSession
from resources.file_servers.sftp_transfer import OpenFile, Shrunk, TooLong, open_file, read_blocks

_HASH_NAME: Final = b"check-file-name"
_WHOLE_FILE: Final = bytes(8) + bytes(8) + bytes(4)
"""From byte 0, to the end, in one piece."""


class SftpReader:
    """An open session that can only look."""

    def __init__(self, session: SftpSession) -> None:
        self._session = session
        self._has_hashes = True

    @property
    def identity(self) -> ServerIdentity:
        return self._session.identity

    def list(self, directory: str, *, limit: int) -> Listing:
        where = checked_directory(directory, side=self._session.endpoint.side)
        return self._session.attempt(f"list {shown(where)}", lambda session: list_directory(session, where, limit=limit))

    def stat(self, directory: str, name: str) -> Entry | None:
        where = self._checked(directory, name)
        return self._session.attempt(f"look at {_shown_path(where, name)}", lambda session: stat_entry(session, where, name))

    def read(self, directory: str, name: str, *, ceiling_bytes: int) -> Iterator[bytes]:
        where = self._checked(directory, name)
        return self._blocks(where, name, ceiling_bytes=ceiling_bytes)

    def sha256(self, directory: str, name: str) -> str | None:
        """By `check-file-name`, which ProFTPD has but does not announce: one question tells. A server without it is asked once."""
        where = self._checked(directory, name)
        if not self._has_hashes:
            return None
        return self._session.attempt(f"hash {_shown_path(where, name)}", lambda session: self._hash(session, joined(where, name)))

    def _checked(self, directory: str, name: str) -> str:
        """The directory."""
        if why := name_refusal(name):
            raise NotObserved(f"{self._session.endpoint.side}: no server is asked about {shown(name)}: {why}")
        return checked_directory(directory, side=self._session.endpoint.side)

    def _hash(self, session: Session, path: str) -> str | None:
        session.patience(self._session.patience.settle_seconds)
        try:
            answer = session.request(
                Reply.EXTENDED, Request.EXTENDED, string(_HASH_NAME), string(encoded(path)), string(b"sha256"), _WHOLE_FILE
            )
        except StatusError as status:
            self._has_hashes = status.code != Status.OP_UNSUPPORTED
            return None
        finally:
            session.patience()
        return _digest(answer.rest())

    def _blocks(self, directory: str, name: str, *, ceiling_bytes: int) -> Iterator[bytes]:
        """Retried until the file is open; then a cut is the reader's to hear of."""
        doing = f"read {_shown_path(directory, name)}"

        def start(session: Session) -> tuple[Session, OpenFile]:
            return session, open_file(session, encoded(joined(directory, name)))

        session, file = self._session.attempt(doing, start)
        blocks = read_blocks(session, file, ceiling_bytes=ceiling_bytes)
        try:
            while block := self._session.observed(doing, lambda _: next(blocks, b"")):
                yield block
        except TooLong as error:
            raise NotObserved(self._session.sentence(doing, f"{error}, more than the ceiling of {ceiling_bytes}")) from error
        except Shrunk as error:
            raise Transient(self._session.sentence(doing, f"{error}: try again")) from error
        finally:
            blocks.close()


def _digest(answer: bytes) -> str | None:
    """The algorithm and the 32 bytes as they are (ProFTPD), or after the extension's name, as the draft has it."""
    for named in (b"", string(b"check-file"), string(_HASH_NAME)):
        head = named + string(b"sha256")
        if answer.startswith(head) and len(answer) == len(head) + 32:
            return answer[len(head) :].hex()
    return None


def _shown_path(directory: str, name: str) -> str:
    return shown(joined(directory, name))

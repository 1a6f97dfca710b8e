"""SFTP behind the interface of all file servers. Here the server's answers become our errors, each with side, step and what to try."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from guards.gate import Authorization, require_authentic
from guards.spool.listing import Entry, Listing
from guards.text import one_line
from resources.errors import NotObserved, OutcomeUnknown, Rejected, Transient
from resources.file_servers.connect import PATIENCE, Patience, shown
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import ServerIdentity
from resources.file_servers.sftp_connection import Connection, connect
from resources.file_servers.sftp_listing import list_directory, path_of, stat_entry
from resources.file_servers.sftp_protocol import Reply, Request, Session, SessionLost, Status, StatusError, string
from resources.file_servers.sftp_transfer import Shrunk, TooLong, abandon, create, read_file, write_new_file

_POSIX_RENAME: Final = b"posix-rename@openssh.com"
_HASH_NAME: Final = b"check-file-name"
_WORDS: Final[dict[int, str]] = {
    Status.NO_SUCH_FILE: "no such file or directory",
    Status.PERMISSION_DENIED: "permission denied",
    Status.FAILURE: "failure",
    Status.OP_UNSUPPORTED: "not supported",
    Status.FILE_ALREADY_EXISTS: "the name is taken",
}


class SftpReader:
    """One session that only looks."""

    def __init__(self, connection: Connection, endpoint: Endpoint, patience: Patience) -> None:
        self._session: Session = connection.session
        self._identity = connection.identity
        self._endpoint = endpoint
        self._patience = patience
        self._hashes = True

    @property
    def identity(self) -> ServerIdentity:
        return self._identity

    def list(self, directory: str, *, limit: int) -> Listing:
        with self._observing(f"listing {one_line(directory)}"):
            return list_directory(self._session, directory, limit=limit)

    def stat(self, directory: str, name: str) -> Entry | None:
        step = f"asking for {_place(directory, name)}"
        if not _is_component(name):
            raise NotObserved(f"{self._endpoint.side}: {step}: that is not the name of one file")
        with self._observing(step):
            return stat_entry(self._session, directory, name)

    def read(self, directory: str, name: str, *, ceiling_bytes: int) -> Iterator[bytes]:
        step = f"reading {_place(directory, name)}"
        if not _is_component(name):
            raise NotObserved(f"{self._endpoint.side}: {step}: that is not the name of one file")
        with self._observing(step):
            yield from read_file(self._session, path_of(directory, name), ceiling_bytes=ceiling_bytes)

    def sha256(self, directory: str, name: str) -> str | None:
        """By `check-file-name`, which ProFTPD has but does not announce: one question tells. A server without it is asked once."""
        if not self._hashes or not _is_component(name):
            return None
        whole_file = bytes(8) + bytes(8) + bytes(4)  # from 0, to the end, in one piece
        self._session.patience(self._patience.settle_seconds)
        try:
            with self._observing(f"hashing {_place(directory, name)}", passing=(StatusError,)):
                answer = self._session.request(
                    Reply.EXTENDED,
                    Request.EXTENDED,
                    string(_HASH_NAME),
                    string(path_of(directory, name)),
                    string(b"sha256"),
                    whole_file,
                )
                answer.string()
                algorithm, digest = answer.string(), answer.rest()
        except StatusError as status:
            self._hashes = status.code != Status.OP_UNSUPPORTED
            return None
        finally:
            self._session.patience()
        return digest.hex() if algorithm == b"sha256" and len(digest) == 32 else None

    @contextmanager
    def _observing(self, step: str, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        try:
            yield
        except SessionLost as lost:
            raise Transient(f"{self._endpoint.side}: {step}: {shown(str(lost))}") from lost
        except StatusError as status:
            if passing:
                raise
            raise NotObserved(f"{self._endpoint.side}: {step}: the server said: {_said(status)}") from status
        except TooLong as error:
            raise NotObserved(f"{self._endpoint.side}: {step}: longer than allowed: {error}") from error
        except Shrunk as error:
            raise Transient(f"{self._endpoint.side}: {step}: {error}") from error


class SftpWriter(SftpReader):
    """A session that an authorization opened, for these directories only."""

    def __init__(self, connection: Connection, endpoint: Endpoint, patience: Patience, directories: tuple[str, ...]) -> None:
        super().__init__(connection, endpoint, patience)
        self._directories = frozenset(_plain(directory) for directory in directories)

    def write(self, directory: str, name: str, blocks: Iterable[bytes]) -> int:
        path = self._own(directory, name)
        step = f"writing {_place(directory, name)}"
        with self._asking(step):
            try:
                handle = create(self._session, path)
            except StatusError as status:
                raise Rejected(
                    f"{self._endpoint.side}: {step}: {self._taken(directory, name) or _said(status)}; nothing was written"
                ) from status
        try:
            return write_new_file(self._session, handle, blocks)
        except StatusError as status:
            abandon(self._session, handle)
            raise OutcomeUnknown(
                f"{self._endpoint.side}: {step}: the server said: {_said(status)}, after bytes were sent: an incomplete file may be there"
            ) from status
        except SessionLost as lost:
            raise OutcomeUnknown(
                f"{self._endpoint.side}: {step}: {shown(str(lost))}, after bytes were sent: observe on a fresh connection"
            ) from lost
        except BaseException:  # the blocks' own source failed: its error says more, and the half file is the caller's to remove
            abandon(self._session, handle)
            raise

    def rename(self, directory: str, name: str, to_directory: str, to_name: str, *, replace: bool = False) -> None:
        path, to_path = self._own(directory, name), self._own(to_directory, to_name)
        step = f"renaming {_place(directory, name)} to {_place(to_directory, to_name)}"
        if replace and _POSIX_RENAME not in self._session.extensions:
            raise Rejected(f"{self._endpoint.side}: {step}: this server cannot replace in one step; nothing was changed")
        if not replace:
            with self._observing(step):
                taken = self._taken(to_directory, to_name)
            if taken:
                raise Rejected(f"{self._endpoint.side}: {step}: {taken}; nothing was changed")
        with self._asking(step):
            try:
                if replace:
                    self._session.request(Reply.STATUS, Request.EXTENDED, string(_POSIX_RENAME), string(path), string(to_path))
                else:
                    self._session.request(Reply.STATUS, Request.RENAME, string(path), string(to_path))
            except StatusError as status:
                # OpenSSH says "Failure" and no reason when the name is taken.
                taken = "" if replace else self._taken(to_directory, to_name)
                raise Rejected(f"{self._endpoint.side}: {step}: {taken or _said(status)}; nothing was changed") from status

    def remove(self, directory: str, name: str) -> None:
        path = self._own(directory, name)
        step = f"removing {_place(directory, name)}"
        with self._asking(step):
            try:
                self._session.request(Reply.STATUS, Request.REMOVE, string(path))
            except StatusError as status:
                if status.code == Status.NO_SUCH_FILE:
                    return
                raise Rejected(
                    f"{self._endpoint.side}: {step}: the server said: {_said(status)}; nothing was changed"
                ) from status

    @contextmanager
    def _asking(self, step: str) -> Iterator[None]:
        try:
            yield
        except SessionLost as lost:
            raise OutcomeUnknown(
                f"{self._endpoint.side}: {step}: {shown(str(lost))}, after it was asked for: observe on a fresh connection"
            ) from lost

    def _own(self, directory: str, name: str) -> bytes:
        if _plain(directory) not in self._directories:
            raise Rejected(f"{self._endpoint.side}: {one_line(directory)} is not a directory that this writer was opened for")
        if not _is_component(name):
            raise Rejected(f"{self._endpoint.side}: {one_line(name)} is not the name of one file")
        return path_of(directory, name)

    def _taken(self, directory: str, name: str) -> str:
        """Why the name cannot be used, "" when it is free or the server will not say."""
        try:
            found = stat_entry(self._session, directory, name)
        except StatusError:
            return ""
        return f"{_place(directory, name)} is there already" if found is not None else ""


class SftpServer:
    """Nothing is contacted before `reader` or `writer` is entered."""

    def __init__(self, endpoint: Endpoint, *, patience: Patience = PATIENCE) -> None:
        self._endpoint = endpoint
        self._patience = patience

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @contextmanager
    def reader(self) -> Iterator[SftpReader]:
        connection = connect(self._endpoint, self._patience)
        try:
            yield SftpReader(connection, self._endpoint, self._patience)
        finally:
            connection.close()

    @contextmanager
    def writer(self, authorization: Authorization, *, scope: str, directories: tuple[str, ...]) -> Iterator[SftpWriter]:
        require_authentic(authorization, scope=scope)
        connection = connect(self._endpoint, self._patience)
        try:
            yield SftpWriter(connection, self._endpoint, self._patience, directories)
        finally:
            connection.close()


def _plain(directory: str) -> str:
    return directory.rstrip("/") or "/"


def _place(directory: str, name: str) -> str:
    return one_line(f"{directory.rstrip('/')}/{name}")


def _is_component(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _said(status: StatusError) -> str:
    words = _WORDS.get(status.code, f"status {status.code}")
    text = shown(status.text.strip())
    return words if not text or text.lower().replace(".", "") in words else f"{words} ({text})"

"""One interface for FTP, FTPS and SFTP. A session is one connection; directories are absolute paths, names are single components.

A `Reader` has no method that can change anything. A `Writer` is opened only with an `Authorization`, works only inside the
directories it was opened for, and never removes or replaces what it was not told to by name.

Absence: `stat` returns None only when the server provably says "no such name"; when it will not tell, it raises `NotObserved`.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from guards.canonical import Json
from guards.gate import Authorization
from guards.spool.listing import Entry, Listing
from resources.file_servers.endpoint import Endpoint

BLOCK_BYTES: Final = 256 * 1024
"""Size of the blocks that are relayed: memory is constant whatever the file's size."""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Who answered: `fingerprint` is `SHA256:...` of the SSH host key or of the TLS certificate, "" for plain FTP."""

    host: str
    port: int
    protocol: str
    fingerprint: str

    def as_json(self) -> dict[str, Json]:
        return {"host": self.host, "port": self.port, "protocol": self.protocol, "fingerprint": self.fingerprint}


class Reader(Protocol):
    """An open session that can only look. Errors: `Unreachable` and its kinds."""

    @property
    def identity(self) -> ServerIdentity: ...

    def list(self, directory: str, *, limit: int) -> Listing:
        """Every row but `.` and `..`. A listing of `limit` rows or more, or of doubtful completeness, says so in `incomplete`."""
        ...

    def stat(self, directory: str, name: str) -> Entry | None:
        """One name asked for by itself (MLST, else SIZE and MDTM in TYPE I; SFTP lstat)."""
        ...

    def read(self, directory: str, name: str, *, ceiling_bytes: int) -> Iterator[bytes]:
        """Blocks of at most 256 KiB. Raises `NotObserved` when the file is longer than the ceiling, `Transient` when cut."""
        ...

    def sha256(self, directory: str, name: str) -> str | None:
        """The server's own hash (HASH, XSHA256, check-file-name), 64 hex digits; None when this server has none that works."""
        ...


class Writer(Reader, Protocol):
    """A session that an `Authorization` opened. Errors: `Rejected` (provably nothing happened) or `OutcomeUnknown`."""

    def write(self, directory: str, name: str, blocks: Iterable[bytes]) -> int:
        """Creates a file that must not exist yet and returns the bytes sent. Errors of the last block and of close are raised."""
        ...

    def rename(self, directory: str, name: str, to_directory: str, to_name: str, *, replace: bool = False) -> None:
        """`replace=False` never knowingly overwrites: SFTP's own rename refuses; on FTP the target is asked for just before.
        `replace=True` asks for an atomic replacement (posix-rename; RNTO where the server replaces) and raises `Rejected` when
        the server refuses to rename onto an existing name."""
        ...

    def remove(self, directory: str, name: str) -> None:
        """Removes one file. Absent already is fine."""
        ...


class FileServer(Protocol):
    """A server that can be connected to. `open_server` makes the right one for an endpoint."""

    @property
    def endpoint(self) -> Endpoint: ...

    def reader(self) -> AbstractContextManager[Reader]:
        """Connects (bounded retries for what is transient), verifies the server, logs in."""
        ...

    def writer(self, authorization: Authorization, *, scope: str, directories: tuple[str, ...]) -> AbstractContextManager[Writer]:
        """Checks the authorization for `scope` first, then as `reader`. Any other directory than `directories` is refused."""
        ...

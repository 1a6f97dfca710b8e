"""SFTP file servers: the reader, and the way to a writer. See `interface` for what each method promises."""

from collections.abc import Iterator
from contextlib import contextmanager

from guards.gate import Authorization, require_authentic
from resources.file_servers.connect import PATIENCE, Patience
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import Reader, Writer
from resources.file_servers.sftp_reader import SftpReader
from resources.file_servers.sftp_session import SftpSession
from resources.file_servers.sftp_writer import SftpWriter


class SftpServer:
    """Nothing is contacted before `reader()` or `writer()` is entered."""

    def __init__(self, endpoint: Endpoint, *, patience: Patience = PATIENCE) -> None:
        self._endpoint = endpoint
        self._patience = patience

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        with self._session() as session:
            yield SftpReader(session)

    @contextmanager
    def writer(self, authorization: Authorization, *, scope: str, directories: tuple[str, ...]) -> Iterator[Writer]:
        require_authentic(authorization, scope=scope)

        with self._session() as session:
            yield SftpWriter(session, directories=directories)

    @contextmanager
    def _session(self) -> Iterator[SftpSession]:
        session = SftpSession(self._endpoint, patience=self._patience)
        session.open()
        try:
            yield session
        finally:
            session.drop()

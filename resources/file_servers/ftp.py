"""FTP and FTPS file servers: the reader, and the way to a writer. See `interface` for what each method promises."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from guards.gate import Authorization, require_authentic
from resources.file_servers.connect import Patience
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.ftp_reader import FtpReader
from resources.file_servers.ftp_session import FtpSession
from resources.file_servers.ftp_writer import FtpWriter
from resources.file_servers.interface import Reader, Writer


class FtpServer:
    """Nothing is contacted before `reader()` or `writer()` is entered."""

    def __init__(self, endpoint: Endpoint, *, patience: Patience) -> None:
        self._endpoint = endpoint
        self._patience = patience

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        with self._session() as session:
            yield FtpReader(session)

    def writer(self, authorization: Authorization, *, scope: str, directories: tuple[str, ...]) -> AbstractContextManager[Writer]:
        require_authentic(authorization, scope=scope)
        return self._writing(directories)

    @contextmanager
    def _writing(self, directories: tuple[str, ...]) -> Iterator[Writer]:
        with self._session() as session:
            yield FtpWriter(session, directories=directories)

    @contextmanager
    def _session(self) -> Iterator[FtpSession]:
        session = FtpSession(self._endpoint, patience=self._patience)
        session.open()
        try:
            yield session
        finally:
            session.close()

"""The two writing sessions of one authorised run. After an error a session is replaced by a fresh connection, never used again."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from guards.gate import Authorization
from resources.file_servers.interface import FileServer, Writer
from resources.spool.sides import OpenSides, Sides


class Session:
    """One side. Connects when first asked for."""

    def __init__(self, server: FileServer, authorization: Authorization, *, scope: str, directories: tuple[str, ...]) -> None:
        self._server = server
        self._authorization = authorization
        self._scope = scope
        self._directories = directories
        self._opened: AbstractContextManager[Writer] | None = None
        self._writer: Writer | None = None

    @property
    def writer(self) -> Writer:
        """The open session; raises `Unreachable` and its kinds when there is none and none can be made."""
        if self._writer is None:
            self._opened = self._server.writer(self._authorization, scope=self._scope, directories=self._directories)
            self._writer = self._opened.__enter__()
        return self._writer

    def renew(self) -> None:
        """Drops the connection; the next use makes a fresh one. Never raises: what is dropped was broken already."""
        opened, self._opened, self._writer = self._opened, None, None
        if opened is not None:
            try:
                opened.__exit__(None, None, None)
            except (OSError, EOFError, RuntimeError):
                return


class WriterSessions:
    """Spool side: may rename inside spool and archive. Partner side: may write in the inbox only."""

    def __init__(self, sides: Sides, authorization: Authorization, *, scope: str) -> None:
        route = sides.route
        self._sides = sides
        self.source = Session(sides.source, authorization, scope=scope, directories=(route.source.directory, route.archive))
        self.partner = Session(sides.partner, authorization, scope=scope, directories=(route.partner.directory,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.source.renew()
        self.partner.renew()

    def readers(self) -> OpenSides:
        """The same connections, seen as readers."""
        return OpenSides(route=self._sides.route, source=self.source.writer, partner=self.partner.writer)

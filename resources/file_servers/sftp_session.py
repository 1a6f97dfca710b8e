"""One SFTP session that survives a lost connection where that is safe, and turns the server's answers into our errors.

Every sentence names side and step. What only looks may be asked again on a fresh connection; what changes something never is.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from resources.errors import NotObserved, OutcomeUnknown, Transient, UntrustedServer
from resources.file_servers.connect import Patience, retrying, shown
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import ServerIdentity
from resources.file_servers.sftp_connection import Connection, connect
from resources.file_servers.sftp_protocol import Session, SessionLost, Status, StatusError

Result = TypeVar("Result")

_WORDS: Final[dict[int, str]] = {
    Status.NO_SUCH_FILE: "no such file or directory",
    Status.PERMISSION_DENIED: "permission denied",
    Status.FAILURE: "failure",
    Status.OP_UNSUPPORTED: "not supported",
    Status.FILE_ALREADY_EXISTS: "the name is taken",
}


class SftpSession:
    """At most one connection at a time. `open` before anything else."""

    def __init__(self, endpoint: Endpoint, *, patience: Patience) -> None:
        self.endpoint = endpoint
        self.patience = patience
        self._connection: Connection | None = None
        self._identity: ServerIdentity | None = None

    @property
    def identity(self) -> ServerIdentity:
        assert self._identity is not None  # set by open
        return self._identity

    @property
    def cipher(self) -> str:
        """What the live connection encrypts with, towards the server."""
        assert self._connection is not None  # set by open
        return str(self._connection.transport.local_cipher)

    def open(self) -> None:
        self.attempt("connect", lambda _: None)

    def connected(self) -> Session:
        """The live connection's, else a fresh one's, in one attempt."""
        if self._connection is None:
            made = connect(self.endpoint, self.patience)
            if self._identity not in (None, made.identity):
                made.close()
                raise UntrustedServer(
                    f"{self.endpoint.side}: the host key changed between two connections of one session: look who answers there"
                )
            self._connection, self._identity = made, made.identity
        return self._connection.session

    def drop(self) -> None:
        """The connection is of no more use; the next step makes a fresh one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def sentence(self, doing: str, what: str) -> str:
        return f"{self.endpoint.side}: {doing}: {what}"

    def observed(self, doing: str, action: Callable[[Session], Result]) -> Result:
        """One try of something that only looks."""
        try:
            return action(self.connected())
        except SessionLost as lost:
            self.drop()
            raise Transient(self.sentence(doing, shown(str(lost)))) from lost
        except StatusError as status:
            raise NotObserved(self.sentence(doing, f"the server said: {said(status)}")) from status

    def attempt(self, doing: str, action: Callable[[Session], Result]) -> Result:
        """As `observed`, on a fresh connection again while that is `Transient`."""
        return retrying(lambda: self.observed(doing, action), side=self.endpoint.side, patience=self.patience)

    def asked(self, doing: str, action: Callable[[Session], Result]) -> Result:
        """One try of something that changes the server. A `StatusError` is for the caller: only it knows what a no means."""
        session = self.connected()
        try:
            return action(session)
        except SessionLost as lost:
            self.drop()
            raise OutcomeUnknown(
                self.sentence(
                    doing, f"{shown(str(lost))}, after it was asked for: it may have happened, observe on a fresh connection"
                )
            ) from lost


def said(status: StatusError) -> str:
    """The server's no in words; its own text, which is hostile, in brackets."""
    words = _WORDS.get(status.code, f"status {status.code}")
    text = shown(status.text.strip())
    return words if not text or text.lower().replace(".", "") in words else f"{words} ({text})"

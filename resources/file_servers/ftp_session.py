"""One FTP session: a control connection that is replaced when it breaks, and bounded attempts for what is transient."""

from collections.abc import Callable
from typing import TypeVar

from resources.errors import NotObserved, Rejected, UntrustedServer
from resources.file_servers.connect import Patience, retrying
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.ftp_control import FtpControl
from resources.file_servers.ftps import FtpsControl
from resources.file_servers.interface import ServerIdentity

Result = TypeVar("Result")


class FtpSession:
    """Not for several threads. While a transfer is under way nothing else may be asked: FTP has one reply at a time."""

    def __init__(self, endpoint: Endpoint, *, patience: Patience) -> None:
        self.endpoint = endpoint
        self.patience = patience
        self.transferring = False
        self._control: FtpControl | None = None
        self._fingerprint = ""

    @property
    def identity(self) -> ServerIdentity:
        where = self.endpoint
        return ServerIdentity(host=where.host, port=where.port, protocol=where.scheme, fingerprint=self._fingerprint)

    def open(self) -> None:
        self.attempt("connect", lambda _: None)

    def attempt(self, doing: str, step: Callable[[FtpControl], Result]) -> Result:
        """`step(control)`, again on a fresh connection while it raises `Transient`. Only for steps that then provably changed nothing."""
        return retrying(lambda: self.once(doing, step), side=self.endpoint.side, patience=self.patience, before_again=self.drop)

    def once(self, doing: str, step: Callable[[FtpControl], Result]) -> Result:
        """One attempt. After any error but an answer (`NotObserved`, `Rejected`) the connection is out of step and dropped."""
        if self.transferring:
            raise RuntimeError("a transfer is under way on this session: finish or close it first")
        control = self._connected()
        control.doing = doing
        try:
            return step(control)
        except (NotObserved, Rejected):
            raise
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """The next step connects anew."""
        if self._control is not None:
            self._control.hang_up()
            self._control = None
        self.transferring = False

    def close(self) -> None:
        """QUIT without waiting for the answer: everything of ours was answered before."""
        if self._control is not None and not self.transferring:
            self._control.say_goodbye()
        self.drop()

    def _connected(self) -> FtpControl:
        if self._control is None:
            if self.endpoint.scheme == "ftp" and not self.endpoint.profile.allow_cleartext:
                side = self.endpoint.side
                raise UntrustedServer(
                    f"{side}: ftp:// sends the password and the feeds readable by anybody between, and nothing was contacted:"
                    f" use ftps:// or sftp://, or set allow_cleartext = true in {side}_profile"
                )
            control = (FtpControl if self.endpoint.scheme == "ftp" else FtpsControl)(self.endpoint, patience=self.patience)
            control.open()
            if self._fingerprint and control.fingerprint != self._fingerprint:
                control.hang_up()
                raise UntrustedServer(
                    f"{self.endpoint.side}: the certificate changed between two connections of one session: look who answers there"
                )
            self._fingerprint = control.fingerprint
            self._control = control
        return self._control

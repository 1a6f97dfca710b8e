"""Writing over FTP and FTPS. Every error says whether something may have happened: `Rejected` and `Transient` no, `OutcomeUnknown` perhaps."""

import contextlib
from collections.abc import Iterable

from resources.errors import NotObserved, OutcomeUnknown, Rejected, Transient, Unreachable
from resources.file_servers.connect import shown
from resources.file_servers.ftp_control import FtpControl
from resources.file_servers.ftp_data import DataConnection
from resources.file_servers.ftp_reader import FtpReader
from resources.file_servers.ftp_reply import Reply
from resources.file_servers.ftp_session import FtpSession
from resources.file_servers.names import checked_directory, joined, refusal


class FtpWriter(FtpReader):
    """Works inside `directories` only. Opened by `FtpServer.writer`, which checks the authorization first."""

    def __init__(self, session: FtpSession, *, directories: tuple[str, ...]) -> None:
        super().__init__(session)
        self._directories = frozenset(checked_directory(directory, side=session.endpoint.side) for directory in directories)

    def write(self, directory: str, name: str, blocks: Iterable[bytes]) -> int:
        """STOR of a name that is not there. `Transient` (4xx, or cut before STOR was answered): no byte of ours went out, though some
        servers leave an empty file. An error of `blocks` itself is raised as it is, after the upload was reset."""
        where = self._inside(directory, name)
        path = joined(where, name)
        self._refuse_taken(where, name, doing=f"write {path}")
        control, connection = self._session.once(f"write {path}", lambda control: _start_upload(control, path))
        self._session.transferring = True
        ended = False
        sent = 0
        try:
            for block in blocks:
                self._send(control, connection, block, sent)
                sent += len(block)
            try:
                connection.finish_sending()
            except OSError as error:
                raise self._lost(control, connection, error, sent) from None
            _settle(control, sent)
            ended = True
        finally:
            if ended:
                connection.close()
            else:
                connection.abort()
            self._session.transferring = False
            if not ended:
                self._session.drop()
        return sent

    def rename(self, directory: str, name: str, to_directory: str, to_name: str, *, replace: bool = False) -> None:
        """RNFR may be tried again; once RNTO went out, only its reply counts: 250 done, 5xx `Rejected`, all else unknown."""
        source = joined(self._inside(directory, name), name)
        target_directory = self._inside(to_directory, to_name)
        target = joined(target_directory, to_name)
        doing = f"rename {source} to {target}"
        if not replace:
            self._refuse_taken(target_directory, to_name, doing=doing)

        def announce(control: FtpControl) -> FtpControl:
            reply = control.ask("RNFR", source)
            if reply.code != 350:
                raise _rejected(control, reply)
            return control

        def take(control: FtpControl) -> None:
            reply = _answer(control, "RNTO", target)
            if reply.code // 100 == 5:
                raise _rejected(control, reply)
            if not reply.done:
                raise OutcomeUnknown(
                    control.sentence(f'the server answers "{control.said(reply)}": look which of the two names is there')
                )

        self._session.attempt(doing, announce)
        self._session.once(doing, take)

    def remove(self, directory: str, name: str) -> None:
        where = self._inside(directory, name)
        path = joined(where, name)

        def delete(control: FtpControl) -> None:
            reply = _answer(control, "DELE", path)
            if reply.done:
                return
            if reply.passing:
                raise Transient(
                    control.sentence(f'the server answers "{control.said(reply)}": nothing was removed, try again later')
                )
            refused = _rejected(control, reply)
            try:
                gone = self.stat(where, name) is None
            except NotObserved:
                gone = False
            if not gone:
                raise refused

        self._session.attempt(f"remove {path}", delete)

    def _inside(self, directory: str, name: str) -> str:
        side = self._session.endpoint.side
        if why := refusal(name):
            raise Rejected(f"{side}: nothing was written: {shown(name)} cannot be a name here: {why}")
        where = checked_directory(directory, side=side)
        if where not in self._directories:
            raise Rejected(f"{side}: nothing was written: {shown(where)} is not a directory that this run may write in")
        return where

    def _refuse_taken(self, directory: str, name: str, *, doing: str) -> None:
        """A dot name that this server would hide anyway counts as free when it refuses to speak about it: our own temporary names."""
        try:
            found = self.stat(directory, name)
        except NotObserved:
            if not name.startswith("."):
                raise
            return
        if found is not None:
            raise Rejected(
                f"{self._session.endpoint.side}: {shown(doing)}: {shown(joined(directory, name))} exists already: nothing was written"
            )

    def _send(self, control: FtpControl, connection: DataConnection, block: bytes, sent: int) -> None:
        try:
            connection.send(block)
        except OSError as error:
            raise self._lost(control, connection, error, sent) from None

    def _lost(self, control: FtpControl, connection: DataConnection, error: OSError, sent: int) -> OutcomeUnknown:
        """The data connection broke: the control connection often says why (552: no space)."""
        connection.abort()
        why = str(control.broken(error))
        if not isinstance(error, TimeoutError):
            with contextlib.suppress(Unreachable):
                why = control.sentence(f'the server answers "{control.said(control.reply(seconds=5))}"')
        return OutcomeUnknown(f"{why} (after about {sent} bytes; what is there now must be looked at)")


def _start_upload(control: FtpControl, path: str) -> tuple[FtpControl, DataConnection]:
    control.binary()
    connection, reply = control.data("STOR", path)
    if not reply.begins:
        connection.close()
        raise _rejected(control, reply)
    return control, connection


def _settle(control: FtpControl, sent: int) -> None:
    try:
        final = control.reply(seconds=control.patience.settle_seconds)
    except Unreachable as error:
        raise OutcomeUnknown(f"{error} (all {sent} bytes were sent; what is there now must be looked at)") from None
    if not final.done:
        raise OutcomeUnknown(
            control.sentence(f'the server answers "{control.said(final)}" after {sent} bytes: look at what is there now')
        )


def _answer(control: FtpControl, command: str, path: str) -> Reply:
    """The reply to a command that may have worked even when its reply never comes."""
    try:
        return control.ask(command, path)
    except Unreachable as error:
        raise OutcomeUnknown(f"{error} ({command} was sent: it may have happened, look at what is there)") from None


def _rejected(control: FtpControl, reply: Reply) -> Rejected | Transient:
    said = control.sentence(f'the server answers "{control.said(reply)}": nothing was written')
    return Transient(f"{said}, it may pass by itself") if reply.passing else Rejected(f"{said}, look at permissions and names")

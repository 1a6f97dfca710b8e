"""Writing over SFTP. Every error says whether something may have happened: `Rejected` and `Transient` no, `OutcomeUnknown` perhaps."""

from collections.abc import Iterable
from typing import Final

from resources.errors import NotObserved, OutcomeUnknown, Rejected
from resources.file_servers.connect import shown
from resources.file_servers.names import checked_directory, encoded, joined
from resources.file_servers.sftp_listing import name_refusal
from resources.file_servers.sftp_protocol import Reply, Request, Session, Status, StatusError, string
from resources.file_servers.sftp_reader import SftpReader
from resources.file_servers.sftp_session import SftpSession, said
from resources.file_servers.sftp_transfer import abandon, create, write_blocks

_POSIX_RENAME: Final = b"posix-rename@openssh.com"


class SftpWriter(SftpReader):
    """Works inside `directories` only. Opened by `SftpServer.writer`, which checks the authorization first."""

    def __init__(self, session: SftpSession, *, directories: tuple[str, ...]) -> None:
        super().__init__(session)
        self._directories = frozenset(checked_directory(directory, side=session.endpoint.side) for directory in directories)

    def write(self, directory: str, name: str, blocks: Iterable[bytes]) -> int:
        """Exclusive create: the server refuses a name that is there. An error of `blocks` itself is raised as it is, after the
        handle was closed; the half file is the caller's to remove."""
        where = self._inside(directory, name)
        path = joined(where, name)
        doing = f"write {shown(path)}"
        try:
            session, handle = self._session.asked(doing, lambda session: (session, create(session, encoded(path))))
        except StatusError as status:
            raise self._rejected(doing, status, where, name) from status
        try:
            return self._session.asked(doing, lambda _: write_blocks(session, handle, blocks, patience=self._session.patience))
        except StatusError as status:
            abandon(session, handle)
            raise OutcomeUnknown(
                self._session.sentence(
                    doing, f"the server said: {said(status)}, after bytes were sent: what is there now must be looked at"
                )
            ) from status
        except OutcomeUnknown:
            raise
        except BaseException:  # the source of the blocks failed, and its error says more
            abandon(session, handle)
            raise

    def rename(self, directory: str, name: str, to_directory: str, to_name: str, *, replace: bool = False) -> None:
        source = joined(self._inside(directory, name), name)
        target_directory = self._inside(to_directory, to_name)
        target = joined(target_directory, to_name)
        doing = f"rename {shown(source)} to {shown(target)}"
        if replace and _POSIX_RENAME not in self._session.connected().extensions:
            raise Rejected(self._session.sentence(doing, "nothing was changed: this server cannot replace in one step"))
        if not replace:
            # Asked for although the protocol's rename refuses: some servers in front of an object store replace all the same.
            self._refuse_taken(doing, target_directory, to_name)

        def ask(session: Session) -> None:
            if replace:
                session.request(
                    Reply.STATUS, Request.EXTENDED, string(_POSIX_RENAME), string(encoded(source)), string(encoded(target))
                )
            else:
                session.request(Reply.STATUS, Request.RENAME, string(encoded(source)), string(encoded(target)))

        try:
            self._session.asked(doing, ask)
        except StatusError as status:
            if replace:
                raise Rejected(self._session.sentence(doing, f"nothing was changed: {said(status)}")) from status
            raise self._rejected(doing, status, target_directory, to_name) from status

    def remove(self, directory: str, name: str) -> None:
        path = joined(self._inside(directory, name), name)
        doing = f"remove {shown(path)}"
        try:
            self._session.asked(doing, lambda session: session.request(Reply.STATUS, Request.REMOVE, string(encoded(path))))
        except StatusError as status:
            if status.code != Status.NO_SUCH_FILE:
                raise Rejected(self._session.sentence(doing, f"nothing was changed: {said(status)}")) from status

    def _inside(self, directory: str, name: str) -> str:
        side = self._session.endpoint.side
        if why := name_refusal(name):
            raise Rejected(f"{side}: nothing was written: {shown(name)} cannot be a name here: {why}")
        where = checked_directory(directory, side=side)
        if where not in self._directories:
            raise Rejected(f"{side}: nothing was written: {shown(where)} is not a directory that this run may write in")
        return where

    def _refuse_taken(self, doing: str, directory: str, name: str) -> None:
        if self.stat(directory, name) is not None:
            raise Rejected(self._session.sentence(doing, f"nothing was changed: {shown(joined(directory, name))} exists already"))

    def _rejected(self, doing: str, status: StatusError, directory: str, name: str) -> Rejected:
        """OpenSSH says "Failure" and no more when a name is taken: look whether it is."""
        try:
            taken = self.stat(directory, name) is not None
        except NotObserved:
            taken = False
        why = f"{shown(joined(directory, name))} exists already" if taken else said(status)
        return Rejected(self._session.sentence(doing, f"nothing was changed: {why}"))

"""An SFTP server that does what real ones do rarely: the sandbox's, with one fault, in a process of its own.

    python -m tests.servers.sftp_faults --fault NAME[:N] <arguments of the sandbox's server>

| fault | what happens |
|---|---|
| `error_on_close` | every WRITE succeeds, CLOSE of a written file fails (disk full on flush) |
| `full_after:N` | WRITE fails once N bytes of a file are written |
| `cut_upload:N`, `cut_download:N` | the connection is cut at byte N of a file |
| `cut_open` | the file is created, then the connection is cut before the answer |
| `cut_close` | the file is whole and closed, then the connection is cut before the answer |
| `rename_reply_lost` | the rename happens, then the connection is cut before the answer |
| `rename_refused` | both renames answer "Failure" and nothing else |
| `rename_overwrites` | the plain rename replaces an existing name, as some managed servers do |
| `no_posix_rename` | not offered, not understood |
| `remove_reply_lost` | the file is removed, then the connection is cut |
| `list_cut:N`, `list_fails:N` | after N rows the connection is cut / READDIR answers "Failure" |
| `list_twice` | every name is listed a second time with another size |
| `stat_denied`, `stat_failure` | LSTAT answers "Permission denied" / "Failure" |
| `no_attributes` | the server gives neither size nor type nor time |
| `short_reads` | READ answers with fewer bytes than were asked for, as it may |
| `ends_early:N` | READ says end of file at byte N although the size is larger |
| `hang_read`, `hang_stat`, `hang_login` | no answer, the connection stays |
| `sha256`, `sha256_unnamed`, `sha256_wrong_length` | `check-file-name` is understood, as the draft has it / as ProFTPD / nonsense |
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any, ClassVar, cast

import asyncssh
from asyncssh.packet import String
from asyncssh.sftp import SFTPServerHandler

from opsguard_defs.sandbox.servers import sftp_server
from opsguard_defs.sandbox.servers.sftp_server import Jail, OpenFile


class FaultyJail(Jail):
    """One fault, the same for every connection of this process."""

    fault: ClassVar[str] = ""
    at: ClassVar[int] = 0

    def _cut(self) -> None:
        self.connection.abort()

    async def _hang(self) -> None:
        await asyncio.Event().wait()

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> OpenFile:
        opened = super().open(path, pflags, attrs)
        if self.fault == "cut_open" and opened.for_writing:
            self._cut()
        return opened

    def write(self, file_obj: object, offset: int, data: bytes) -> int:
        handle = cast("OpenFile", file_obj)
        if self.fault == "full_after" and handle.written + len(data) > self.at:
            raise asyncssh.SFTPFailure("No space left on device")
        if self.fault == "cut_upload" and handle.written + len(data) > self.at:
            super().write(file_obj, offset, data[: self.at - handle.written])
            self._cut()
            return 0
        return super().write(file_obj, offset, data)

    def read(self, file_obj: object, offset: int, size: int) -> Any:
        if self.fault == "hang_read":
            return self._hang()
        if self.fault == "cut_download" and offset + size > self.at:
            self._cut()
        if self.fault == "ends_early":
            size = max(0, min(size, self.at - offset))
        if self.fault == "short_reads":
            size = min(size, 1000 + offset % 20_000)
        return super().read(file_obj, offset, size)

    def close(self, file_obj: object) -> None:
        handle = cast("OpenFile", file_obj)
        super().close(file_obj)
        if handle.for_writing and self.fault == "error_on_close":
            raise asyncssh.SFTPFailure("No space left on device")
        if handle.for_writing and self.fault == "cut_close":
            self._cut()

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        if self.fault == "rename_refused":
            raise asyncssh.SFTPFailure("Failure")
        if self.fault == "rename_overwrites":
            Jail.posix_rename(self, oldpath, newpath)
            return
        super().rename(oldpath, newpath)
        if self.fault == "rename_reply_lost":
            self._cut()

    def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        if self.fault == "rename_refused":
            raise asyncssh.SFTPFailure("Failure")
        super().posix_rename(oldpath, newpath)
        if self.fault == "rename_reply_lost":
            self._cut()

    def remove(self, path: bytes) -> None:
        super().remove(path)
        if self.fault == "remove_reply_lost":
            self._cut()

    def lstat(self, path: bytes) -> Any:
        match self.fault:
            case "hang_stat":
                return self._hang()
            case "stat_denied":
                raise asyncssh.SFTPPermissionDenied("Permission denied")
            case "stat_failure":
                raise asyncssh.SFTPFailure("Failure")
            case "no_attributes":
                super().lstat(path)
                return asyncssh.SFTPAttrs()
        return super().lstat(path)

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        count = 0
        async for row in super().scandir(path):
            if self.fault == "list_cut" and count >= self.at:
                self._cut()
                return
            if self.fault == "list_fails" and count >= self.at:
                raise asyncssh.SFTPFailure("Failure")
            if self.fault == "no_attributes":
                row.attrs = asyncssh.SFTPAttrs()
            count += 1
            yield row
            if self.fault == "list_twice" and row.filename not in (b".", b".."):
                yield asyncssh.SFTPName(row.filename, attrs=asyncssh.SFTPAttrs(size=1, permissions=0o100644))


class _Hash:
    """The draft's answer: the extension's name, the algorithm, the bytes of the hash. ProFTPD leaves the first away."""

    def __init__(self, digest: bytes, *, named: bool) -> None:
        self._answer = (String("check-file") if named else b"") + String("sha256") + digest

    def encode(self, _version: int) -> bytes:
        return self._answer


async def _check_file_name(handler: SFTPServerHandler, packet: Any) -> _Hash:
    path = packet.get_string()
    jail = cast("FaultyJail", handler._server)
    with open(jail.map_path(path), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return _Hash(digest[:7] if jail.fault == "sha256_wrong_length" else digest, named=jail.fault != "sha256_unnamed")


class _HangingDoor(sftp_server.Door):
    async def validate_password(self, username: str, password: str) -> bool:  # type: ignore[override]
        await asyncio.Event().wait()
        return False


def main() -> None:
    parser = sftp_server.arguments_parser()
    parser.add_argument("--fault", required=True)
    given = parser.parse_args()
    FaultyJail.fault, _, at = given.fault.partition(":")
    FaultyJail.at = int(at or 0)
    if FaultyJail.fault == "no_posix_rename":
        name = b"posix-rename@openssh.com"
        SFTPServerHandler._extensions = [extension for extension in SFTPServerHandler._extensions if extension[0] != name]
        del SFTPServerHandler._packet_handlers[name]
    if FaultyJail.fault.startswith("sha256"):
        SFTPServerHandler._packet_handlers[b"check-file-name"] = _check_file_name
        SFTPServerHandler._return_types[b"check-file-name"] = asyncssh.constants.FXP_EXTENDED_REPLY
    if FaultyJail.fault == "hang_login":
        sftp_server.Door = _HangingDoor  # type: ignore[misc]
    sftp_server.run(given, jail=FaultyJail)


if __name__ == "__main__":
    main()

"""The sandbox's SFTP server: asyncssh in a process of its own, jailed to one directory, on a loopback port.

    python -m opsguard_defs.sandbox.servers.sftp_server --root DIR --port 0 --ready FILE --user U --password-file F --host-key F
        [--authorized-keys F] [--log FILE]

Not the client's library, so that a mistake of paramiko's is not met by the same mistake. In the client's own process it would also
share its interpreter lock. It ends with the process that started it. The ready file holds the bound port once connections are taken.

Each line of the log is one JSON object {"at", "event", "user", "path", "to", "bytes"}: `login`, `upload` and `download` (when the client
closes the file; bytes written or read), `upload_cut` (the connection ended first), `rename` (path, to), `remove`. It is the partner's
own record: tests judge by it, not by ours.
"""

import argparse
import asyncio
import hmac
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

import asyncssh

from opsguard_defs.sandbox.servers.serving import end_with_starter, say_port, server_parser


@dataclass(slots=True)
class AccessLog:
    """Appends one line per event, in one write, so that a reader never sees half a line."""

    path: Path | None

    def say(self, event: str, user: str, path: bytes = b"", *, to: bytes = b"", size: int | None = None) -> None:
        if self.path is None:
            return
        line = {
            "at": datetime.now(UTC).isoformat(),
            "event": event,
            "user": user,
            "path": path.decode("utf-8", "surrogateescape"),
            "to": to.decode("utf-8", "surrogateescape"),
            "bytes": size,
        }
        with self.path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


@dataclass(frozen=True, slots=True)
class Settings:
    root: Path
    user: str
    password: str
    host_key: Path
    authorized_keys: Path | None
    log: AccessLog


@dataclass(slots=True)
class OpenFile:
    """One open handle and what went through it."""

    inner: IO[bytes]
    path: bytes
    written: int = 0
    read: int = 0
    for_writing: bool = field(default=False)


class Door(asyncssh.SSHServer):
    """Who may come in: one user, by password or by an authorised key."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        keys_of_user = self._settings.authorized_keys if username == self._settings.user else None
        if keys_of_user is not None and self._connection is not None:
            self._connection.set_authorized_keys(str(keys_of_user))
        return True

    def password_auth_supported(self) -> bool:
        return bool(self._settings.password)

    def validate_password(self, username: str, password: str) -> bool:
        given, wanted = f"{username}\0{password}".encode(), f"{self._settings.user}\0{self._settings.password}".encode()
        return hmac.compare_digest(given, wanted)

    def auth_completed(self) -> None:
        user = self._connection.get_extra_info("username") if self._connection is not None else ""
        self._settings.log.say("login", user)


class Jail(asyncssh.SFTPServer):
    """Files below one directory. Renaming and removing are logged when they happened, transfers when the file was closed."""

    def __init__(self, chan: "asyncssh.SSHServerChannel[bytes]", settings: Settings) -> None:
        super().__init__(chan, chroot=os.fsencode(settings.root))
        self._log = settings.log
        self._user = str(chan.get_extra_info("username"))

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> OpenFile:
        inner = cast("IO[bytes]", super().open(path, pflags, attrs))
        return OpenFile(inner, path, for_writing=bool(pflags & asyncssh.FXF_WRITE))

    def read(self, file_obj: object, offset: int, size: int) -> bytes:
        handle = cast("OpenFile", file_obj)
        handle.inner.seek(offset)
        block = handle.inner.read(size)
        handle.read += len(block)
        return block

    def write(self, file_obj: object, offset: int, data: bytes) -> int:
        handle = cast("OpenFile", file_obj)
        handle.inner.seek(offset)
        count = handle.inner.write(data)
        handle.written += count
        return count

    def fstat(self, file_obj: object) -> Any:
        return super().fstat(cast("OpenFile", file_obj).inner)

    def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> Any:
        return super().fsetstat(cast("OpenFile", file_obj).inner, attrs)

    def fsync(self, file_obj: object) -> Any:
        return super().fsync(cast("OpenFile", file_obj).inner)

    def close(self, file_obj: object) -> None:
        handle = cast("OpenFile", file_obj)
        handle.inner.close()
        if handle.for_writing:
            self._log.say("upload_cut" if self.channel.is_closing() else "upload", self._user, handle.path, size=handle.written)
        elif handle.read:
            self._log.say("download", self._user, handle.path, size=handle.read)

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        super().rename(oldpath, newpath)
        self._log.say("rename", self._user, oldpath, to=newpath)

    def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        super().posix_rename(oldpath, newpath)
        self._log.say("rename", self._user, oldpath, to=newpath)

    def remove(self, path: bytes) -> None:
        super().remove(path)
        self._log.say("remove", self._user, path)


async def serve(settings: Settings, *, port: int, ready: Path, jail: type[Jail] = Jail) -> None:
    """Until a signal. Links that lead out of the jail must not be put into it: the server follows them."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listener = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=lambda: Door(settings),
        server_host_keys=[str(settings.host_key)],
        sftp_factory=lambda chan: jail(chan, settings),
        allow_scp=False,
        agent_forwarding=False,
        x11_forwarding=False,
    )
    say_port(ready, listener.get_port())
    await stop.wait()
    listener.close()
    await listener.wait_closed()


def arguments_parser() -> argparse.ArgumentParser:
    parser = server_parser("SFTP server", root="directory that the client sees as /", log="JSON lines of what clients did")
    parser.add_argument("--user", required=True)
    parser.add_argument("--password-file", type=Path, help="without it only keys log in")
    parser.add_argument(
        "--host-key", type=Path, required=True, help="private key; generated (Ed25519) when absent, with FILE.pub beside it"
    )
    parser.add_argument("--authorized-keys", type=Path, help="OpenSSH authorized_keys file")
    return parser


def run(given: argparse.Namespace, *, jail: type[Jail] = Jail) -> None:
    """Until a signal, or until the process that started us ends."""
    end_with_starter()
    if not given.host_key.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment="opsguard-sandbox")
        given.host_key.touch(mode=0o600)
        key.write_private_key(str(given.host_key))
        key.write_public_key(f"{given.host_key}.pub")
    settings = Settings(
        root=given.root.resolve(),
        user=given.user,
        password=given.password_file.read_text().strip("\n") if given.password_file else "",
        host_key=given.host_key,
        authorized_keys=given.authorized_keys,
        log=AccessLog(given.log),
    )
    asyncio.run(serve(settings, port=given.port, ready=given.ready, jail=jail))


def main(arguments: Sequence[str] | None = None) -> None:
    run(arguments_parser().parse_args(arguments))


if __name__ == "__main__":
    main()

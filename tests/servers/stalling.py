"""File servers that stop in the middle on request: the sandbox's own, which take a command, do it or not, and then never answer.

    python -m tests.servers.stalling --protocol ftp|sftp --arm FILE [--never-replaces] <arguments of the sandbox's server>

While FILE exists it holds {"event", "when", "pattern"}: `upload`, `rename` or `remove`, `before` or `after` it is done, and a regular
expression for "path -> to". The first that fits is left without an answer, FILE is removed, and the log gets the event `stalled`. A
process that is killed then was killed exactly between its write and the knowledge of it. `held` (FTP renames) is a request that was long
on its way: it is obeyed and answered once a file `release` is beside FILE.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import asyncssh
from asyncssh.sftp import SFTPServerHandler
from pydantic import SecretStr

from opsguard_defs.processes import module_command
from opsguard_defs.sandbox.servers import ftp_server, sftp_server
from opsguard_defs.sandbox.servers.ftp_server import LoggedSession
from opsguard_defs.sandbox.servers.sftp_server import Jail, OpenFile
from resources.file_servers.endpoint import Endpoint, Profile
from tests.servers.peer import Peer
from tests.servers.sftp import await_port, running


class Arm:
    """Shared by all connections of this process."""

    file: ClassVar[Path]
    never_replaces: ClassVar[bool] = False

    @classmethod
    def fires(cls, event: str, when: str, path: str, to: str = "") -> bool:
        if not cls.file.exists():
            return False
        armed = json.loads(cls.file.read_text())
        if (armed["event"], armed["when"]) != (event, when) or not re.search(armed["pattern"], f"{path} -> {to}"):
            return False
        cls.file.unlink()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class StallingPeer(Peer):
    arm_file: Path

    def arm(self, event: str, when: str, pattern: str) -> None:
        self.arm_file.write_text(json.dumps({"event": event, "when": when, "pattern": pattern}))

    def release(self) -> None:
        self.arm_file.with_name("release").touch()

    def is_armed(self) -> bool:
        return self.arm_file.exists()

    def stalled(self) -> int:
        """How often a client was left without an answer."""
        return self.log.read_text().count('"stalled"') if self.log is not None and self.log.exists() else 0


class StallingSession(LoggedSession):
    """FTP: a muted session says nothing more."""

    muted = False
    storing = ""

    def respond(self, resp: str, *more: Any, **named: Any) -> None:
        if resp.startswith("226") and self.storing:
            path, self.storing = self.storing, ""
            self._stall_if("upload", "after", path)
        if not self.muted:
            super().respond(resp, *more, **named)

    def _stall_if(self, event: str, when: str, path: str, to: str = "") -> bool:
        if Arm.fires(event, when, path, to):
            self.muted = True
            self.access_log.say("stalled", self.username, path, to=to)
        return self.muted

    def ftp_STOR(self, file: str, mode: str = "w") -> Any:
        self.storing = self.fs.fs2ftp(file)
        return None if self._stall_if("upload", "before", self.storing) else super().ftp_STOR(file, mode)

    def ftp_RNTO(self, path: str) -> Any:
        source, target = self.fs.fs2ftp(self._rnfr or ""), self.fs.fs2ftp(path)
        if self._stall_if("rename", "before", source, target):
            return None
        if Arm.fires("rename", "held", source, target):
            self.access_log.say("held", self.username, source, to=target)
            waiting = self.ioloop.call_every(0.02, lambda: self._go_on(waiting, path))
            return None
        if Arm.never_replaces and Path(path).exists():
            self._rnfr = None
            self.respond("550 File exists.")
            return None
        return self._done_unseen("rename", source, target, lambda: super(StallingSession, self).ftp_RNTO(path))

    def _go_on(self, waiting: Any, path: str) -> None:
        if Arm.file.with_name("release").exists():
            waiting.cancel()
            self.ftp_RNTO(path)

    def ftp_DELE(self, path: str) -> Any:
        shown = self.fs.fs2ftp(path)
        if self._stall_if("remove", "before", shown):
            return None
        return self._done_unseen("remove", shown, "", lambda: super(StallingSession, self).ftp_DELE(path))

    def _done_unseen(self, event: str, path: str, to: str, work: Any) -> Any:
        stalls = Arm.fires(event, "after", path, to)
        self.muted = stalls
        done = work()
        if stalls:
            self.access_log.say("stalled", self.username, path, to=to)
        return done


class StallingJail(Jail):
    """SFTP: a request is never answered."""

    def _stall(self, path: bytes, to: bytes = b"") -> Any:
        self._log.say("stalled", self._user, path, to=to)
        return asyncio.Event().wait()

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> Any:
        if pflags & asyncssh.FXF_WRITE and Arm.fires("upload", "before", path.decode()):
            return self._stall(path)
        return super().open(path, pflags, attrs)

    def close(self, file_obj: object) -> Any:
        handle = cast("OpenFile", file_obj)
        super().close(file_obj)
        if handle.for_writing and Arm.fires("upload", "after", handle.path.decode()):
            return self._stall(handle.path)
        return None

    def rename(self, oldpath: bytes, newpath: bytes) -> Any:
        return self._around("rename", oldpath, newpath, lambda: super(StallingJail, self).rename(oldpath, newpath))

    def posix_rename(self, oldpath: bytes, newpath: bytes) -> Any:
        return self._around("rename", oldpath, newpath, lambda: super(StallingJail, self).posix_rename(oldpath, newpath))

    def remove(self, path: bytes) -> Any:
        return self._around("remove", path, b"", lambda: super(StallingJail, self).remove(path))

    def _around(self, event: str, path: bytes, to: bytes, work: Any) -> Any:
        if Arm.fires(event, "before", path.decode(), to.decode()):
            return self._stall(path, to)
        stalls = Arm.fires(event, "after", path.decode(), to.decode())
        work()
        return self._stall(path, to) if stalls else None


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--protocol", choices=("ftp", "sftp"), required=True)
    parser.add_argument("--arm", type=Path, required=True)
    parser.add_argument("--never-replaces", action="store_true")
    given, rest = parser.parse_known_args()
    Arm.file, Arm.never_replaces = given.arm, given.never_replaces
    if given.protocol == "ftp":
        ftp_server.session_class = lambda *_, **__: StallingSession
        ftp_server.main(rest)
        return
    if given.never_replaces:
        name = b"posix-rename@openssh.com"
        SFTPServerHandler._extensions = [extension for extension in SFTPServerHandler._extensions if extension[0] != name]
        del SFTPServerHandler._packet_handlers[name]
    sftp_server.run(sftp_server.arguments_parser().parse_args(rest), jail=StallingJail)


@contextmanager
def stalling_peer(base: Path, protocol: Literal["ftp", "sftp"], *, never_replaces: bool = False) -> Iterator[StallingPeer]:
    inbox = base / "root" / "inbox"
    inbox.mkdir(parents=True)
    (base / "password").write_text("canary-stalling-password")
    arguments: list[object] = ["--protocol", protocol, "--arm", base / "arm", "--root", base / "root", "--ready", base / "ready"]
    arguments += ["--log", base / "log.jsonl", "--user", "feeds", "--password-file", base / "password"]
    arguments += ["--host-key", base / "host_key"] if protocol == "sftp" else []
    arguments += ["--never-replaces"] if never_replaces else []
    with running(module_command("tests.servers.stalling", *arguments), base / "out") as process:
        port = await_port(process, base / "ready", base / "out")
        endpoint = Endpoint(
            side="partner",
            scheme=protocol,
            host="127.0.0.1",
            port=port,
            user="feeds",
            directory="/inbox",
            password=SecretStr("canary-stalling-password"),
            host_key=(base / "host_key.pub").read_text() if protocol == "sftp" else "",
            profile=Profile(allow_cleartext=protocol == "ftp"),
        )
        yield StallingPeer(f"stalling {protocol}", endpoint, inbox, log=base / "log.jsonl", arm_file=base / "arm")


if __name__ == "__main__":
    main()

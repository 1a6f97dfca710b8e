"""An FTP server that tells no times: no `modify` fact, and MDTM is not understood. The sandbox's own, in a process of its own.

python -m tests.servers.timeless <arguments of the sandbox's server>
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pydantic import SecretStr
from pyftpdlib.filesystems import AbstractedFS

from opsguard_defs.processes import module_command
from opsguard_defs.sandbox.servers import ftp_server
from opsguard_defs.sandbox.servers.ftp_server import LoggedSession
from resources.file_servers.endpoint import Endpoint, Profile
from tests.servers.peer import Abilities, Peer
from tests.servers.sftp import await_port, running


class TimelessFiles(AbstractedFS):
    def format_mlsx(self, basedir: str, listing: list[str], perms: str, facts: list[str], ignore_err: bool = True) -> Any:
        told = [fact for fact in facts if fact not in ("modify", "create")]
        return super().format_mlsx(basedir, listing, perms, told, ignore_err)


class TimelessSession(LoggedSession):
    abstracted_fs = TimelessFiles
    proto_cmds: ClassVar = {name: about for name, about in LoggedSession.proto_cmds.items() if name not in ("MDTM", "MFMT")}


@contextmanager
def timeless_peer(base: Path) -> Iterator[Peer]:
    inbox = base / "root" / "inbox"
    inbox.mkdir(parents=True)
    (base / "password").write_text("canary-timeless-password")
    arguments = ["--root", base / "root", "--ready", base / "ready", "--user", "feeds", "--password-file", base / "password"]
    with running(module_command("tests.servers.timeless", *arguments), base / "out") as process:
        port = await_port(process, base / "ready", base / "out")
        endpoint = Endpoint(
            side="source",
            scheme="ftp",
            host="127.0.0.1",
            port=port,
            user="feeds",
            directory="/inbox",
            password=SecretStr("canary-timeless-password"),
            profile=Profile(allow_cleartext=True),
        )
        yield Peer("timeless", endpoint, inbox, Abilities())


def main() -> None:
    def timeless(*_: Any, **__: Any) -> type[LoggedSession]:
        return TimelessSession

    ftp_server.session_class = timeless
    ftp_server.main()


if __name__ == "__main__":
    main()

"""A stand-in for Microsoft's IIS, as far as a client can tell: the sandbox's server with other answers, in a process of its own.

    python -m tests.servers.iis <arguments of the sandbox's server>

DOS-style rows with minutes, no MLSD, MLST, MFMT and EPSV, SYST says Windows_NT, and RNTO onto an existing name is refused.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from pyftpdlib.filesystems import AbstractedFS

from opsguard_defs.sandbox.servers import ftp_server
from opsguard_defs.sandbox.servers.ftp_server import LoggedSession


class DosFiles(AbstractedFS):
    def format_list(self, basedir: str, listing: list[str], ignore_err: bool = True) -> Iterator[bytes]:
        for name in sorted(listing):
            path = Path(basedir, name)
            seen = path.stat()
            kind = f"{'<DIR>':<14}" if path.is_dir() else f"{seen.st_size:>14}"
            row = f"{time.strftime('%m-%d-%y  %I:%M%p', time.gmtime(seen.st_mtime))}       {kind} {name}\r\n"
            yield os.fsencode(row)

    def rename(self, src: str, dst: str) -> None:
        if Path(dst).exists():
            raise FileExistsError(17, "Cannot create a file when that file already exists.")
        super().rename(src, dst)


class DosSession(LoggedSession):
    abstracted_fs = DosFiles
    banner = "Microsoft FTP Service"
    proto_cmds: ClassVar = {
        name: about for name, about in LoggedSession.proto_cmds.items() if name not in ("MLSD", "MLST", "MFMT", "EPSV")
    }

    def ftp_SYST(self, line: str) -> None:
        self.respond("215 Windows_NT")

    def ftp_FEAT(self, line: str) -> None:
        self.respond("211-Extended features supported:\r\n LANG EN*\r\n UTF8\r\n SIZE\r\n MDTM\r\n211 END")


def main() -> None:
    def dos(*_: Any, **__: Any) -> type[LoggedSession]:
        return DosSession

    ftp_server.session_class = dos
    ftp_server.main()


if __name__ == "__main__":
    main()

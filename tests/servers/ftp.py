"""FTP servers for tests: the sandbox's own, plain and with TLS, each in a process of its own that ends with ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from opsguard_defs.processes import module_command
from resources.file_servers.endpoint import Endpoint, Profile
from tests.servers.peer import Abilities, Peer
from tests.servers.sftp import await_port, running

USER = "feeds"
PASSWORD = "canary-ftp-password"
CLEARTEXT = Profile(allow_cleartext=True)


@contextmanager
def sandbox_ftp_peer(base: Path, *, tls: Literal["", "explicit", "implicit"] = "", side: str = "partner") -> Iterator[Peer]:
    """The sandbox's server: MLSD, seconds, every name; links are followed."""
    arguments: list[object] = ["--tls", tls, "--cert", base / "cert.pem", "--key", base / "key.pem"] if tls else []
    abilities = Abilities(types_links=False, doubts_round_counts=True)
    with _python_server(base, "opsguard_defs.sandbox.servers.ftp_server", arguments) as (port, inbox):
        yield Peer(f"sandbox {tls}", _endpoint(base, port, tls=tls, side=side), inbox, abilities, log=base / "log.jsonl")


@contextmanager
def iis_peer(base: Path, *, side: str = "partner") -> Iterator[Peer]:
    """The look-alike of `tests.servers.iis`: rows as IIS writes them, no MLSD, and a rename that never replaces."""
    abilities = Abilities(tells_seconds=False, types_links=False, replaces=False, doubts_round_counts=True)
    with _python_server(base, "tests.servers.iis", []) as (port, inbox):
        yield Peer("iis", _endpoint(base, port, tls="", side=side), inbox, abilities, log=base / "log.jsonl")


@contextmanager
def _python_server(base: Path, module: str, arguments: list[object]) -> Iterator[tuple[int, Path]]:
    inbox = base / "root" / "inbox"
    inbox.mkdir(parents=True)
    (base / "password").write_text(PASSWORD)
    common = ["--root", base / "root", "--ready", base / "ready", "--log", base / "log.jsonl", "--user", USER]
    command = module_command(module, *common, "--password-file", base / "password", *arguments)
    with running(command, base / "out") as process:
        yield await_port(process, base / "ready", base / "out"), inbox


def _endpoint(base: Path, port: int, *, tls: str, side: str) -> Endpoint:
    return Endpoint(
        side=side,
        scheme="ftps-implicit" if tls == "implicit" else "ftps" if tls else "ftp",
        host="127.0.0.1",
        port=port,
        user=USER,
        password=SecretStr(PASSWORD),
        directory="/inbox",
        ca_file=base / "cert.pem" if tls else None,
        profile=Profile() if tls else CLEARTEXT,
    )

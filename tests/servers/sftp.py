"""SFTP servers for tests: asyncssh as in the sandbox, each in a process of its own that ends with ours."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from opsguard_defs.processes import module_command, module_environment, start_tied, stop
from resources.file_servers.endpoint import Endpoint
from tests.patience import PATIENCE_SECONDS
from tests.servers.peer import Abilities, Peer

PASSWORD = "canary-sftp-password"
ABILITIES = Abilities(sends_newlines=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SftpPeer(Peer):
    process: subprocess.Popen[bytes]


@contextmanager
def asyncssh_peer(
    base: Path, *, fault: str = "", side: str = "partner", authorized_keys: Path | None = None
) -> Iterator[SftpPeer]:
    """`fault`: see `tests.servers.sftp_faults`; without one the sandbox's own server."""
    inbox = base / "root" / "inbox"
    inbox.mkdir(parents=True, exist_ok=True)
    (base / "password").write_text(PASSWORD)
    keep = base / "host_key"
    arguments: list[object] = ["--root", base / "root", "--ready", base / "ready", "--log", base / "log.jsonl", "--user", "feeds"]
    arguments += ["--password-file", base / "password", "--host-key", keep]
    arguments += ["--authorized-keys", authorized_keys] if authorized_keys is not None else []
    module = "tests.servers.sftp_faults" if fault else "opsguard_defs.sandbox.servers.sftp_server"
    with running(module_command(module, *arguments, *(["--fault", fault] if fault else [])), base / "out") as process:
        port = await_port(process, base / "ready", base / "out")
        endpoint = Endpoint(
            side=side,
            scheme="sftp",
            host="127.0.0.1",
            port=port,
            user="feeds",
            directory="/inbox",
            password=SecretStr(PASSWORD),
            host_key=keep.with_name(keep.name + ".pub").read_text(),
        )
        yield SftpPeer(
            name=fault or "asyncssh", endpoint=endpoint, inbox=inbox, process=process, abilities=ABILITIES, log=base / "log.jsonl"
        )


@contextmanager
def running(command: list[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as file:
        process = start_tied(command, env=module_environment(), output=file)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)  # a test may have stopped it
        stop([process], seconds=10)


def await_port(process: subprocess.Popen[bytes], ready: Path, output: Path) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {output.read_text(errors='replace')[-2000:]}")
        time.sleep(0.01)
    return int(ready.read_text())

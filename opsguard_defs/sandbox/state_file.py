"""What runs, as the keeper wrote it down: its own identity and that of every server."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from opsguard_defs.processes import ProcessIdentity
from opsguard_defs.sandbox import roster
from opsguard_defs.sandbox.layout import write_private


@dataclass(frozen=True, slots=True)
class SandboxServer:
    """One running server. `files` is what it shows as `/`; `log` holds a JSON line per upload, rename and delete."""

    name: str
    scheme: roster.Scheme
    port: int
    process: ProcessIdentity
    files: Path
    log: Path
    user: str = ""
    password: str = field(default="", repr=False)
    host: str = roster.HOST

    @property
    def url(self) -> str:
        """Without the password."""
        return (
            f"{self.scheme}://{self.user}@{self.host}:{self.port}/" if self.user else f"{self.scheme}://{self.host}:{self.port}/"
        )

    @property
    def is_running(self) -> bool:
        return self.process.is_alive()


@dataclass(frozen=True, slots=True)
class Running:
    """A sandbox that is up. Passwords are not kept in the state file but beside it, and are read with it."""

    keeper: ProcessIdentity
    servers: tuple[SandboxServer, ...]
    tied_to: int | None = None
    """The process with which this sandbox ends, or None: it stays until `down`."""

    @property
    def is_whole(self) -> bool:
        return self.keeper.is_alive() and all(server.is_running for server in self.servers)

    def server(self, name: str) -> SandboxServer:
        """Raises KeyError for a name that is not in the roster."""
        return {server.name: server for server in self.servers}[name]


def write_state(path: Path, running: Running) -> None:
    document = {
        "keeper": running.keeper.as_json(),
        "tied_to": running.tied_to,
        "servers": [
            {
                "name": server.name,
                "scheme": server.scheme,
                "port": server.port,
                "process": server.process.as_json(),
                "files": str(server.files),
                "log": str(server.log),
                "user": server.user,
            }
            for server in running.servers
        ],
    }
    write_private(path, json.dumps(document, indent=2) + "\n")


def read_state(path: Path, *, passwords: dict[str, str]) -> Running | None:
    """None when there is none, or it cannot be understood (a full disk, another version): then nothing of it is trusted."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Running(
            keeper=ProcessIdentity(**document["keeper"]),
            tied_to=document["tied_to"],
            servers=tuple(
                SandboxServer(
                    name=entry["name"],
                    scheme=entry["scheme"],
                    port=int(entry["port"]),
                    process=ProcessIdentity(**entry["process"]),
                    files=Path(entry["files"]),
                    log=Path(entry["log"]),
                    user=entry["user"],
                    password=passwords.get(entry["name"], ""),
                )
                for entry in document["servers"]
            ),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def read_keeper(path: Path) -> ProcessIdentity | None:
    """The keeper as it wrote itself into its lock, before anything was up."""
    try:
        return ProcessIdentity(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None

"""Starting one server: on the port it had before when that is free, else on another, and waiting until it accepts connections."""

import json
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from opsguard_defs.processes import ProcessIdentity, module_command, module_environment, start_tied
from opsguard_defs.sandbox import identity
from opsguard_defs.sandbox.layout import Layout, private_directory, write_private
from opsguard_defs.sandbox.roster import SLACK, USER, WEBHOOKS, ServerKind
from opsguard_defs.sandbox.state_file import SandboxServer
from resources.errors import Unreachable

START_SECONDS: Final = 120.0
"""A server needs 0.3 to 1 s; on a machine that starts everything at once with cold disks it needs far longer."""
_SINKS: Final = {SLACK: "slack_sink", WEBHOOKS: "webhook_receiver"}
"""Servers without an account, and their modules."""


@dataclass(frozen=True, slots=True)
class Started:
    server: SandboxServer
    process: subprocess.Popen[bytes]


@dataclass(slots=True)
class Starting:
    layout: Layout
    kind: ServerKind
    port: int
    """The port asked for; 0 lets the kernel choose."""
    process: subprocess.Popen[bytes]

    @classmethod
    def begin(cls, layout: Layout, kind: ServerKind, *, port: int) -> "Starting":
        """Returns at once."""
        _ready_file(layout, kind).unlink(missing_ok=True)
        files = layout.files(kind.name)
        private_directory(files)
        arguments: list[object] = ["--root", files, "--port", port, "--ready", _ready_file(layout, kind)]
        arguments += ["--log", _log_file(layout, kind), *_credentials(layout, kind)]
        module = f"opsguard_defs.sandbox.servers.{_module(kind)}"
        with _output_file(layout, kind).open("wb") as output:
            process = start_tied(module_command(module, *arguments), env=module_environment(), output=output)
        return cls(layout, kind, port, process)

    def wait(self) -> Started:
        """Raises Unreachable with what the server said when it does not start."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            port = _read_port(_ready_file(self.layout, self.kind))
            if port is not None and self.process.poll() is None:
                return Started(self._server(port), self.process)
            if self.process.poll() is not None:
                if self.port:  # somebody else has the port by now
                    again = Starting.begin(self.layout, self.kind, port=0)
                    self.port, self.process = again.port, again.process
                    continue
                raise Unreachable(self._failure(f"ended with exit code {self.process.returncode}"))
            time.sleep(0.01)
        raise Unreachable(self._failure(f"did not accept connections within {START_SECONDS:.0f} s"))

    def _server(self, port: int) -> SandboxServer:
        process = ProcessIdentity.of(self.process.pid)
        if process is None:
            raise Unreachable(self._failure("ended as soon as it had started"))
        server = SandboxServer(
            name=self.kind.name,
            scheme=self.kind.scheme,
            port=port,
            process=process,
            files=self.layout.files(self.kind.name),
            log=_log_file(self.layout, self.kind),
        )
        if self.kind.name in _SINKS:
            return server
        return replace(server, user=USER, password=identity.read_password(self.layout, self.kind.name))

    def _failure(self, what: str) -> str:
        said = _output_file(self.layout, self.kind).read_text(encoding="utf-8", errors="replace").strip()
        missing = " `pip install 'opsguard[sandbox]'` brings the sandbox's servers." if "ModuleNotFoundError" in said else ""
        return f"The sandbox's server {self.kind.name} {what}.{missing} It said:\n{said[-2000:] or '(nothing)'}"


def read_ports(layout: Layout) -> dict[str, int]:
    """Ports of the last start by server name; none when the file is missing or not ours."""
    try:
        ports = json.loads(layout.ports.read_text(encoding="utf-8"))
        return {name: port for name, port in ports.items() if isinstance(port, int) and 1024 <= port <= 65535}
    except (FileNotFoundError, ValueError, AttributeError):
        return {}


def write_ports(layout: Layout, ports: dict[str, int]) -> None:
    write_private(layout.ports, json.dumps(ports, indent=2) + "\n")


def _module(kind: ServerKind) -> str:
    if kind.name in _SINKS:
        return _SINKS[kind.name]
    return "sftp_server" if kind.scheme == "sftp" else "ftp_server"


def _credentials(layout: Layout, kind: ServerKind) -> list[object]:
    if kind.name in _SINKS:
        return []
    entered_with: list[object] = ["--user", USER, "--password-file", identity.password_file(layout, kind.name)]
    match kind.scheme:
        case "sftp":
            return [*entered_with, "--host-key", identity.host_key(layout, kind.name)]
        case "ftps" | "ftps-implicit":
            certificate, key, _ = identity.certificate(layout)
            tls = "explicit" if kind.scheme == "ftps" else "implicit"
            return [*entered_with, "--tls", tls, "--cert", certificate, "--key", key]
        case _:
            return entered_with


def _ready_file(layout: Layout, kind: ServerKind) -> Path:
    return layout.logs / f"{kind.name}.ready"


def _log_file(layout: Layout, kind: ServerKind) -> Path:
    return layout.logs / f"{kind.name}.jsonl"


def _output_file(layout: Layout, kind: ServerKind) -> Path:
    return layout.logs / f"{kind.name}.out"


def _read_port(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii").strip())
    except (FileNotFoundError, ValueError):
        return None

"""Webserver and daemon as children of this process, instead of `dagster dev`.

`dagster dev` started by nohup, by `cmd &` in a script or by a test runner ignores SIGTERM (it copies what SIGINT does), and killed it leaves
webserver, daemon and their code servers running. These end with us, however we end.
"""

import http.client
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from opsguard_defs import dagster_home
from opsguard_defs.instance import WORKSPACE
from opsguard_defs.ports import held_port
from opsguard_defs.processes import module_command, module_environment, start_tied, stop
from opsguard_defs.sandbox.layout import private_directory
from resources.errors import Unreachable

LOAD_SECONDS: Final = 300.0
"""12 to 17 s on two idle cores; 100 s were seen on two cores shared by sixteen busy processes."""
END_SECONDS: Final = 8.0
"""They need 3 s, longer with a run under way."""
LARGEST_LOG_BYTES: Final = 4 * 1024 * 1024
"""Of `dagster.log`; the one before it is kept beside it as `dagster.log.1`."""
_LEFTOVER_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 20.0
_LOADED: Final = """{ workspaceOrError { __typename
  ... on PythonError { message causes { message } }
  ... on Workspace { locationEntries { name loadStatus locationOrLoadError { __typename ... on PythonError { message causes { message } } } } } } }"""


@dataclass(frozen=True, slots=True)
class Services:
    url: str
    """Of the UI, without a closing slash."""
    log: Path
    children: tuple["subprocess.Popen[bytes]", ...]

    def check(self) -> None:
        """Raises Unreachable when one of them has ended by itself. Call it now and then: it also keeps the log short."""
        shorten(self.log)
        for child in self.children:
            if child.poll() is not None:
                raise Unreachable(f"Dagster's {_role(child)} ended with exit code {child.returncode}:\n{_tail(self.log)}")


@contextmanager
def services(
    *,
    home: Path,
    state_url: str,
    port: int = 0,
    read_only: bool = False,
    daemon: bool = True,
    workspace: Path = WORKSPACE,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Services]:
    """Runs for the length of the block; inside it the code location is loaded and the UI answers. Call from the main thread.

    port 0 takes a free one. `environment` is added to ours. Raises ConfigurationError for a port that is taken, Unreachable (with
    Dagster's text) when the location does not load or a child ends.
    """
    with held_port(port) as port:
        prepared = {**dagster_home.prepare(home, state_url), **(environment or {})}
        dagster_home.create_tables(prepared)
        logs = home.absolute() / "log"
        private_directory(logs)
        log = logs / "dagster.log"
        log.touch(mode=0o600)
        webserver: list[object] = ["--port", port, "--workspace", workspace, *(["--read-only"] if read_only else [])]
        commands = [module_command("opsguard_defs.webserver", *webserver)]
        if daemon:
            commands.append(module_command("dagster._daemon", "run", "-w", workspace))
        children: list[subprocess.Popen[bytes]] = []
        try:
            with log.open("ab") as output:
                env = module_environment(prepared)
                for command in commands:
                    children.append(start_tied(command, env=env, output=output, cwd=workspace.parent, new_session=True))  # noqa: PERF401
            running = Services(url=f"http://127.0.0.1:{port}", log=log, children=tuple(children))
            _wait_until_loaded(running)
            yield running
        finally:
            stop(children, seconds=END_SECONDS)
            for child in children:
                _end_session(child.pid)


def _wait_until_loaded(running: Services) -> None:
    deadline = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < deadline:
        running.check()
        workspace = _ask(f"{running.url}/graphql", _LOADED)
        if workspace is not None:
            if workspace["__typename"] == "PythonError":
                raise Unreachable(f"Dagster cannot read its workspace:\n{_text_of(workspace)}")
            entries = workspace["locationEntries"]
            if entries and all(entry["loadStatus"] == "LOADED" for entry in entries):
                _require_no_error(entries)
                return
        time.sleep(_POLL_SECONDS)
    raise Unreachable(f"Dagster did not load the code location within {LOAD_SECONDS:.0f} s:\n{_tail(running.log)}")


def _require_no_error(entries: Sequence[Mapping[str, Any]]) -> None:
    """LOADED is also said of a location whose import failed."""
    for entry in entries:
        error = entry["locationOrLoadError"]
        if error["__typename"] == "PythonError":
            raise Unreachable(f"The code location {entry['name']} does not load:\n{_text_of(error)}")


def _ask(url: str, query: str) -> dict[str, Any] | None:
    """`workspaceOrError`, or None while nobody answers. A proxy in the environment is not for this machine's own address."""
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - our own address
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_ASK_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)["data"]["workspaceOrError"]
            return found
    except urllib.error.HTTPError as error:
        raise Unreachable(f"Something answers at {url} that is not our webserver: {error}.") from error
    except (OSError, ValueError, http.client.HTTPException):  # the last: it ended in the middle of its answer
        return None


def _text_of(error: Mapping[str, Any]) -> str:
    return "\n".join([error["message"].strip(), *(cause["message"].strip() for cause in error["causes"])])


def _end_session(session: int) -> None:
    """What a child started and left behind when it had to be killed: code servers, run workers. Each child leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGTERM)
        deadline = time.monotonic() + _LEFTOVER_SECONDS
        while time.monotonic() < deadline:
            os.killpg(session, 0)
            time.sleep(_POLL_SECONDS)
        os.killpg(session, signal.SIGKILL)


def _role(child: "subprocess.Popen[bytes]") -> str:
    return "daemon" if "dagster._daemon" in str(child.args) else "webserver"


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-3000:].strip()


def shorten(log: Path) -> None:
    """Past `LARGEST_LOG_BYTES` it begins anew. Those who write hold it open to append, so it is emptied, not renamed."""
    if log.stat().st_size > LARGEST_LOG_BYTES:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)

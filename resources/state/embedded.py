"""The embedded PostgreSQL as a client sees it: one per home directory, shared by every process that opens it, gone after the last.

    url = state_url(Path(".opsguard"))      # OPSGUARD_STATE_URL when set, else postgresql://opsguard:...@127.0.0.1:PORT/postgres

The port changes with every start of the server: ask for the URL, never store it. A process that was only handed the URL (by its
environment) does not keep the server alive; one that called `state_url` does, until it ends.
"""

import fcntl
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from resources.errors import ConfigurationError, OpsGuardError, Unreachable
from resources.state.embedded_server import says_ready, server_lives
from resources.state.keeper_lock import keeper_lives

GRACE_SECONDS: Final = 10.0
"""How long an unused server stays up; OPSGUARD_POSTGRES_GRACE_SECONDS overrides. Short commands in a row share one server."""
START_SECONDS: Final = 240.0
"""initdb takes 0.6 s, start 0.03 s; the rest is for a machine that is drowning."""
POLL_SECONDS: Final = 0.02

_held: Final[dict[Path, int]] = {}
_opening: Final = threading.Lock()


def state_url(home: Path) -> str:
    """The URL of the state database. Starts or joins the embedded server when OPSGUARD_STATE_URL is unset."""
    configured = os.environ.get("OPSGUARD_STATE_URL", "").strip()
    return configured or open_embedded(home / "postgres")


def open_embedded(home: Path) -> str:
    """The URL of the server that lives in `home`, started if need be; this process keeps it alive until it ends."""
    with _opening:
        try:
            home = home.absolute()
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            home = home.resolve()
            if home not in _held:
                _held[home] = _join(home)
            with (home / "start.lock").open("a") as gate:
                _lock_in_time(gate.fileno(), fcntl.LOCK_EX, home)
                return _wait_for_keeper(home) or _start_keeper(home)
        except OSError as error:
            raise ConfigurationError(
                f"the embedded PostgreSQL needs a directory it can write, and {home} is not one ({error.strerror or error}): "
                "set OPSGUARD_HOME to another, or OPSGUARD_STATE_URL to a PostgreSQL of your own"
            ) from error


def leave(home: Path) -> None:
    """Stop keeping the server of `home` alive from this process; without other clients it ends after its grace."""
    with _opening:
        descriptor = _held.pop(home.resolve(), None)
        if descriptor is not None:
            os.close(descriptor)


def _join(home: Path) -> int:
    descriptor = os.open(home / "clients.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        _lock_in_time(descriptor, fcntl.LOCK_SH, home)  # waits for a keeper that is just stopping
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock_in_time(descriptor: int, kind: int, home: Path) -> None:
    """Who has it may have been stopped, or wait for one that was."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise _silent(home) from error
            time.sleep(POLL_SECONDS)
        else:
            return


def _running(home: Path) -> str | None:
    """Asked while a keeper lives: processes of a killed server outlive it for a moment, its file says that it is ready, and the port
    may be another program's by then."""
    try:
        url = (home / "url").read_text()
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 5):
            return url if says_ready(home / "data") and server_lives(home / "data") else None
    except (OSError, ValueError):
        return None


def _wait_for_keeper(home: Path) -> str | None:
    """The URL, at once or when the keeper that lives has started its server (again); None when no keeper lives.

    One home has one keeper: a second would wait in vain for the first one's server to end, or take its place under another URL.
    """
    deadline = time.monotonic() + START_SECONDS
    while keeper_lives(home):
        if url := _running(home):
            return url
        if time.monotonic() > deadline:
            raise _silent(home)
        time.sleep(POLL_SECONDS)
    return None


def _silent(home: Path) -> Unreachable:
    return Unreachable(
        f"the embedded PostgreSQL has not answered for {START_SECONDS:.0f} s; see {home / 'keeper.log'} and {home / 'log'}"
    )


def _start_keeper(home: Path) -> str:
    grace = os.environ.get("OPSGUARD_POSTGRES_GRACE_SECONDS", "") or str(GRACE_SECONDS)
    root = Path(__file__).resolve().parents[2]
    with (home / "keeper.log").open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "resources.state.keeper", str(home), grace],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=_keeper_environment(root),
        )
    assert keeper.stdout is not None
    with keeper.stdout as answers:
        waiting, _, _ = select.select([answers], [], [], START_SECONDS)
        line = answers.readline() if waiting else b""
    try:
        answer = json.loads(line)
    except ValueError:
        keeper.kill()
        keeper.wait()
        raise Unreachable(f"the embedded PostgreSQL did not start; see {home / 'keeper.log'} and {home / 'log'}") from None
    if "error" in answer:
        keeper.wait()
        if url := _wait_for_keeper(home):  # another one lives: its client was killed before it had come so far as to say so
            return url
        kind: type[OpsGuardError] = ConfigurationError if answer["error"] == "ConfigurationError" else Unreachable
        raise kind(str(answer["message"]))
    keeper.returncode = 0  # it outlives us on purpose; without this Popen warns about it when collected
    try:
        return (home / "url").read_text()
    except FileNotFoundError:
        raise Unreachable(f"the embedded PostgreSQL was ended as soon as it had started; see {home / 'keeper.log'}") from None


def _keeper_environment(root: Path) -> dict[str, str]:
    """No secrets of ours travel into a process that lives on: only what finding Python and the programs takes."""
    kept = {name: value for name in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR") if (value := os.environ.get(name))}
    return {**kept, "PYTHONPATH": str(root), "LC_ALL": "C", "PYTHONUTF8": "1"}

"""The keeper: owns one embedded PostgreSQL, restarts it when it is killed, and stops it soon after its last client.

    python -m resources.state.keeper HOME GRACE_SECONDS

Started by `resources.state.embedded`; one line of JSON on standard output says `{"port": N}` or what went wrong. Clients hold a
shared lock on HOME/clients.lock for as long as they live (the kernel drops it, also after SIGKILL). A server that dies is started
again on the same port with its own crash recovery, so that URLs which clients hold stay good; clients that come meanwhile wait.
"""

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import quote

from resources.errors import ConfigurationError, OpsGuardError, Unreachable
from resources.state.embedded_server import DATABASE, ROLE, initialise, start
from resources.state.keeper_lock import keeping

POLL_SECONDS: Final = 0.25
RESTARTS: Final = 5
RESTART_WINDOW_SECONDS: Final = 60.0
"""A server that falls over more often than this has a full disk or a broken one: clients are told instead."""
STOP_SECONDS: Final = 10.0
"""PostgreSQL 18 forgets a fast shutdown that reaches it during crash recovery; the immediate one that follows loses nothing."""


def keep(home: Path, *, grace_seconds: float, answer: TextIO) -> None:
    """Runs until nobody has held the clients' lock for `grace_seconds`, or SIGTERM."""
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    data = home / "data"
    password = _password(home, fresh=not data.exists())
    if not data.exists():
        initialise(data, password)
    process, port = start(data, port=None)
    try:
        _publish(home / "url", f"postgresql://{ROLE}:{quote(password, safe='')}@127.0.0.1:{port}/{DATABASE}")
        _tell(answer, {"port": port})
        _until_unused(home, process, port, grace_seconds)
    finally:
        (home / "url").unlink(missing_ok=True)


def _until_unused(home: Path, process: "subprocess.Popen[bytes]", port: int, grace_seconds: float) -> None:
    last_used = time.monotonic()
    restarts: deque[float] = deque(maxlen=RESTARTS)
    with (home / "clients.lock").open("a") as clients:
        try:
            while True:
                if process.poll() is not None:
                    now = time.monotonic()
                    if len(restarts) == RESTARTS and now - restarts[0] < RESTART_WINDOW_SECONDS:
                        raise Unreachable(f"the embedded PostgreSQL ended {RESTARTS + 1} times in a minute: see {home / 'log'}")
                    restarts.append(now)
                    process, _ = start(home / "data", port=port)
                if _in_use(clients):
                    last_used = time.monotonic()
                elif time.monotonic() - last_used > grace_seconds:
                    (home / "url").unlink(missing_ok=True)
                    return  # still holding the lock: newcomers wait until the server has stopped
                else:
                    fcntl.flock(clients, fcntl.LOCK_UN)
                try:
                    process.wait(POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            _stop(process)


def _in_use(clients: TextIO) -> bool:
    try:
        fcntl.flock(clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    for stronger in (
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGKILL,
    ):  # after any but the first the next start recovers from the log
        process.send_signal(stronger)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return


def _password(home: Path, *, fresh: bool) -> str:
    path = home / "password"
    if fresh:
        _publish(path, secrets.token_urlsafe(24))
    try:
        return path.read_text().strip()
    except FileNotFoundError as error:
        raise ConfigurationError(f"{path} is gone, and with it the way into the database beside it: restore the file") from error


def _publish(path: Path, text: str) -> None:
    """Whole or not at all, readable by the owner only."""
    partial = path.with_name(f"{path.name}.part")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def _tell(answer: TextIO, message: dict[str, object]) -> None:
    """The client may have gone; from here on there is nobody to talk to."""
    try:
        answer.write(json.dumps(message) + "\n")
        answer.flush()
    except BrokenPipeError:
        pass
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), answer.fileno())


def _leave(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


def main(arguments: list[str]) -> int:
    home, grace_seconds = Path(arguments[0]), float(arguments[1])
    try:
        with keeping(home):
            keep(home, grace_seconds=grace_seconds, answer=sys.stdout)
    except OpsGuardError as error:
        _tell(sys.stdout, {"error": type(error).__name__, "message": str(error)})
        return error.exit_code
    except OSError as error:
        _tell(sys.stdout, {"error": "Unreachable", "message": f"{home}: {error.strerror or error}"})
        return Unreachable.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

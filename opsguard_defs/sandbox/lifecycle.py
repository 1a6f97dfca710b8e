"""Starting, finding and stopping a sandbox. One per home directory; everything here may be called twice, and by several at once."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from opsguard_defs.processes import module_command, module_environment, start_tied
from opsguard_defs.sandbox import configuration, roster
from opsguard_defs.sandbox.layout import Layout, default_home, is_locked, locked
from opsguard_defs.sandbox.places import Places, places
from opsguard_defs.sandbox.state_file import Running, read_keeper, read_state
from resources.errors import OpsGuardError, Unreachable

START_SECONDS: Final = 300.0
"""Usually 2 to 4 s; the first start also makes the database. The rest is for a machine that is drowning."""
STOP_SECONDS: Final = 60.0
"""A process that waits for a busy disk ends, also by SIGKILL, when the disk has answered."""
_POLL_SECONDS: Final = 0.02


class Sandbox:
    """The sandbox of one home directory.

    sandbox = Sandbox()                 # $OPSGUARD_HOME, else .opsguard
    running = sandbox.up()              # stays when we end; `sandbox.running()` ends with the block
    running.server("partner_sftp").url
    """

    def __init__(self, home: Path | None = None) -> None:
        self.layout = Layout((home or default_home()).absolute())

    @property
    def home(self) -> Path:
        return self.layout.home

    @property
    def config(self) -> Path:
        """Its `opsguard.toml`; exists once it was up."""
        return self.layout.config

    @property
    def watches(self) -> tuple[str, ...]:
        return tuple(watch.name for watch in roster.WATCHES)

    def places(self, watch: str) -> Places:
        """The directories of a watch on this disk. Raises KeyError for a watch that the sandbox does not have."""
        return places(self.layout, roster.watch(watch))

    def up(self, *, tied: bool = False) -> Running:
        """All servers accept connections when this returns; those of a sandbox that is up already are left alone.

        tied: a sandbox that this call starts ends with this process, also when it is killed (call from the main thread).
        Raises ConfigurationError for a home that cannot be written, Unreachable when a server does not start.
        """
        self.layout.make()
        with locked(self.layout.start_lock):
            # An `up` that was killed may have left a keeper that is still starting.
            _until(lambda: self.status() is not None or not is_locked(self.layout.keeper_lock), seconds=START_SECONDS)
            running = self.status()
            if running is not None and running.is_whole:
                return running
            self._end()  # what is left of one whose servers were killed
            return self._start(tied=tied)

    def down(self) -> bool:
        """Nothing of it runs when this returns; the database follows when its last user has left. False: it was not up."""
        if not self.layout.root.is_dir():
            return False
        with locked(self.layout.start_lock):
            return self._end()

    def status(self) -> Running | None:
        """None when it is not up. A server in it may have ended: see `is_whole`."""
        running = read_state(self.layout.state, passwords=self._passwords())
        return running if running is not None and running.keeper.is_alive() else None

    def env(self) -> dict[str, str]:
        """The variables with which commands and clients find this sandbox. Raises Unreachable when it is not up."""
        running = self.status()
        if running is None:
            raise Unreachable(f"No sandbox is up in {self.home}: start it with `opsguard sandbox up`.")
        return {
            "OPSGUARD_HOME": str(self.home),
            "OPSGUARD_CONFIG": str(self.config),
            **configuration.secrets({server.name: server for server in running.servers}),
        }

    @contextmanager
    def running(self) -> Iterator[Running]:
        """Up for the length of the block. One that was up before stays up after it."""
        before = self.status()
        running = self.up(tied=True)
        try:
            yield running
        finally:
            if before is None or before.keeper != running.keeper:
                self.down()

    def _start(self, *, tied: bool) -> Running:
        log = self.layout.keeper_log
        log.touch(mode=0o600)
        with log.open("ab") as output:
            output_from = output.tell()
            keeper = self._spawn(output, tied=tied)
        try:
            return self._await(keeper, log, output_from)
        except BaseException:
            keeper.terminate()
            keeper.wait()
            raise

    def _await(self, keeper: "subprocess.Popen[bytes]", log: Path, output_from: int) -> Running:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            running = self.status()
            if running is not None and running.keeper.pid == keeper.pid:
                keeper.returncode = 0  # it outlives us on purpose: without this Popen warns about it when collected
                return running
            if keeper.poll() is not None:
                with log.open("rb") as output:
                    output.seek(output_from)
                    said = output.read().decode("utf-8", "replace").strip()
                raise Unreachable(said or f"The sandbox's keeper ended with exit code {keeper.returncode}; see {log}.")
            time.sleep(_POLL_SECONDS)
        raise Unreachable(f"The sandbox did not start within {START_SECONDS:.0f} s; see {self.layout.logs}.")

    def _spawn(self, output: IO[bytes], *, tied: bool) -> subprocess.Popen[bytes]:
        arguments: list[object] = ["--home", self.home]
        if not os.environ.get("OPSGUARD_STATE_URL", "").strip():
            arguments.append("--own-database")
        if tied:
            command = module_command("opsguard_defs.sandbox.keeper", *arguments, "--tied-to", os.getpid())
            return start_tied(command, env=_bare_environment(), output=output, new_session=True)
        return subprocess.Popen(
            module_command("opsguard_defs.sandbox.keeper", *arguments),
            env=_bare_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _end(self) -> bool:
        running = read_state(self.layout.state, passwords={})
        keeper = running.keeper if running is not None else read_keeper(self.layout.keeper_lock)
        servers = [server.process for server in running.servers] if running is not None else []
        members = [member for member in (keeper, *servers) if member is not None]
        was_up = any(member.is_alive() for member in members)
        if keeper is not None and keeper.send(signal.SIGTERM):
            _until(lambda: not keeper.is_alive(), seconds=STOP_SECONDS)
        for member in members:
            member.send(signal.SIGKILL)
        if not _until(lambda: not any(member.is_alive() for member in members), seconds=STOP_SECONDS):
            raise OpsGuardError(f"Processes of the sandbox in {self.home} do not end: {', '.join(str(m.pid) for m in members)}.")
        self.layout.state.unlink(missing_ok=True)
        return was_up

    def _passwords(self) -> dict[str, str]:
        found = {}
        for kind in roster.SERVERS:
            path = self.layout.identity / f"{kind.name}.password"
            if path.exists():
                found[kind.name] = path.read_text(encoding="ascii").strip()
        return found


def _bare_environment() -> dict[str, str]:
    """What Python and its programs need. The keeper lives on: the passwords of the shell that started it must not live on in it."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "OPSGUARD_POSTGRES_GRACE_SECONDS")
    return {name: value for name, value in module_environment().items() if name in kept or name.startswith(("PYTHON", "LC_"))}


def _until(condition: Callable[[], bool], *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True

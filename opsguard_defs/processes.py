"""Child processes that cannot outlive us, and how to know a process again after its number was given to another.

Linux: PR_SET_PDEATHSIG, so a child also ends when its parent is killed by SIGKILL. It fires when the *thread* that forked ends:
call `start_tied` from the main thread. Elsewhere the tie is only the parent's own `stop`.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import opsguard_defs

PROJECT_ROOT = Path(opsguard_defs.__file__).resolve().parent.parent
"""Where `guards`, `resources`, `opsguard_defs` are found; also holds dagster.yaml and workspace.yaml in a checkout."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process number alone may belong to somebody else by now; with its start time it does not."""

    pid: int
    started: str
    """Linux: clock ticks since boot, from /proc/PID/stat. Elsewhere the start time as `ps` prints it."""

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """None when there is no such process, or only its exit status is left (a zombie)."""
        started = _started_linux(pid) if sys.platform == "linux" else _started_by_ps(pid)
        return None if started is None else cls(pid, started)

    def as_json(self) -> dict[str, int | str]:
        return {"pid": self.pid, "started": self.started}

    def is_alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def send(self, number: signal.Signals) -> bool:
        """False when the process is gone already."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _started_linux(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()  # the program's name before it may hold blanks and brackets
    has_ended = (
        fields[0] in "ZX" and int(fields[17]) <= 1
    )  # a killed thread that waits for a disk keeps the process's files and ports
    return None if has_ended else fields[19]


def _started_by_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def module_command(module: str, *arguments: object) -> list[str]:
    """`-P`: a directory called `resources` where the operator happens to stand must not shadow ours."""
    return [sys.executable, "-P", "-m", module, *(str(argument) for argument in arguments)]


def module_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment, with the project importable from any working directory."""
    paths = [str(PROJECT_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **(extra or {})}


def start_tied(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    output: IO[bytes],
    cwd: Path | str = "/",
    death_signal: signal.Signals = signal.SIGTERM,
    new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a child that gets `death_signal` when we die. Signals that nohup or `cmd &` left ignored work again in it.

    `new_session`: Ctrl-C in the terminal then reaches us only, and we end the children in order.
    """
    return subprocess.Popen(
        command,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=new_session,
        preexec_fn=_tie(death_signal),
    )


def _tie(death_signal: signal.Signals) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    parent = os.getpid()

    def in_child() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))
            if os.getppid() != parent:  # it died before the tie was made
                os._exit(1)

    return in_child


def stop(children: Sequence[subprocess.Popen[bytes]], *, seconds: float) -> None:
    """SIGTERM to all at once, SIGKILL to those that are still there after `seconds`."""
    for child in children:
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + seconds
    for child in children:
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

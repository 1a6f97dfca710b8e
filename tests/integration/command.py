"""`opsguard` as a program of its own: what a person or a script gets from it."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opsguard_defs

PROJECT = Path(opsguard_defs.__file__).resolve().parent.parent
SECONDS = 240
"""Ends a hung program; no test waits for it."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """stdout as JSON, one object per line."""
        return [json.loads(text) for text in self.out.splitlines()]


@dataclass(frozen=True)
class Command:
    """Runs in `directory`, with nothing of OpsGuard's in the environment but what is given."""

    directory: Path
    environ: Mapping[str, str]

    def __call__(self, *arguments: str, **environ: str) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "opsguard_defs", *arguments],
            cwd=self.directory,
            env=self._environment(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    def on_a_terminal(self, *arguments: str, **environ: str) -> tuple[int, bytes]:
        """(exit code, every byte that a terminal would get)."""
        ours, theirs = pty.openpty()
        program = subprocess.Popen(
            [sys.executable, "-m", "opsguard_defs", *arguments],
            cwd=self.directory,
            env=self._environment({"TERM": "xterm-256color", **environ}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        seen = b""
        try:
            while block := os.read(ours, 65536):
                seen += block
        except OSError:  # EIO: nobody has the other end any more
            pass
        finally:
            os.close(ours)
        return program.wait(SECONDS), seen

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPSGUARD_", "DAGSTER_"))}
        return {**kept, "PYTHONPATH": str(PROJECT), "PYTHONUTF8": "1", **self.environ, **more}

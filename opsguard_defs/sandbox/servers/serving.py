"""How each server of the sandbox is asked for, says its port, and ends: with a signal, or with the process that started it."""

import argparse
import ctypes
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

PR_SET_PDEATHSIG: Final = 1


class Serving(Protocol):
    """A server that takes connections in threads of its own."""

    @property
    def port(self) -> int: ...

    def close(self) -> None: ...


def server_parser(what: str, *, root: str, log: str) -> argparse.ArgumentParser:
    """`what` is served, `root` and `log` say what is in that directory and that file."""
    parser = argparse.ArgumentParser(description=f"The sandbox's {what} on 127.0.0.1")
    parser.add_argument("--root", type=Path, required=True, help=root)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ready", type=Path, required=True, help="file that gets the bound port")
    parser.add_argument("--log", type=Path, help=log)
    return parser


def end_with_starter() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def say_port(ready: Path, port: int) -> None:
    """Whole or not at all: whoever started the server reads it as soon as it is there."""
    arriving = ready.with_name(ready.name + ".new")
    arriving.write_text(str(port))
    arriving.replace(ready)


def serve_until_signal(given: argparse.Namespace, start: Callable[[], Serving]) -> None:
    end_with_starter()
    given.root.mkdir(parents=True, exist_ok=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # in all threads: `sigwait` gets them
    server = start()
    say_port(given.ready, server.port)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.close()

"""The sandbox's receivers of messages as processes of their own, started by module name, and their pages."""

import http.client
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS, until


def command(module: str, directory: Path) -> list[str]:
    files = ("--root", f"{directory}/root", "--ready", f"{directory}/ready", "--log", f"{directory}/log")
    return [sys.executable, "-m", module, *files]


def port_when_ready(directory: Path) -> int:
    until((directory / "ready").exists, "the receiver is ready")
    return int((directory / "ready").read_text())


def get(port: int, path: str, *, host: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()

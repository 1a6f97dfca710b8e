"""Where benchmarks happen: a directory of their own, and servers in processes of their own.

The servers are the real ones where they are installed (vsftpd, OpenSSH), because the sandbox's are Python and would be the limit of
both figures; else the sandbox's, which the results then show.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from bench.harness import NotHere
from tests.servers.ftp import sandbox_ftp_peer
from tests.servers.openssh import openssh_peer
from tests.servers.peer import Peer
from tests.servers.vsftpd import VSFTPD, vsftpd_peer

MEGABYTE = 1_000_000


@contextmanager
def bench_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="opsguard-bench-") as name:
        base = Path(name)
        base.chmod(0o755)  # vsftpd's user looks into it
        yield base


@contextmanager
def ftp_server(base: Path, *, side: str) -> Iterator[Peer]:
    with _or_not_here(lambda: (vsftpd_peer if _has_vsftpd() else sandbox_ftp_peer)(_made(base), side=side)) as peer:
        yield peer


@contextmanager
def sftp_server(base: Path, *, side: str) -> Iterator[Peer]:
    with _or_not_here(lambda: openssh_peer(_made(base), side=side)) as peer:
        yield peer


def make_feed(path: Path, size: int) -> Path:
    """Random bytes: nothing on the way may compress them, and no two feeds are equal."""
    blocks = size // MEGABYTE
    block = os.urandom(MEGABYTE)
    with path.open("wb") as file:
        file.write(os.urandom(MEGABYTE))
        for _ in range(blocks - 1):
            file.write(block)
    return path


def _has_vsftpd() -> bool:
    return VSFTPD.exists() and os.geteuid() == 0


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


@contextmanager
def _or_not_here(start: Callable[[], AbstractContextManager[Peer]]) -> Iterator[Peer]:
    """A test would be skipped: a benchmark says what is missing and goes on."""
    try:
        server = start()
        peer = server.__enter__()
    except pytest.skip.Exception as missing:
        raise NotHere(str(missing)) from missing
    try:
        yield peer
    finally:
        server.__exit__(None, None, None)

"""Servers shared by the spool tests of one module: each test gets directories of its own on them."""

from collections.abc import Callable, Iterator

import pytest

from resources.state import StateStore
from tests.integration.spool.world import Place, place
from tests.servers.ftp import sandbox_ftp_peer
from tests.servers.peer import Peer
from tests.servers.sftp import asyncssh_peer


@pytest.fixture(scope="module")
def ftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with sandbox_ftp_peer(tmp_path_factory.mktemp("ftp")) as peer:
        yield peer


@pytest.fixture(scope="module")
def sftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with asyncssh_peer(tmp_path_factory.mktemp("sftp")) as peer:
        yield peer


@pytest.fixture(params=["ftp", "sftp"])
def peer(request: pytest.FixtureRequest) -> Peer:
    found: Peer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def on(state_store: StateStore) -> Callable[..., Place]:
    """`on(peer)`: a watch with both sides on that server; `on(source, partner, **profile)` on two."""

    def make(source: Peer, partner: Peer | None = None, **more: object) -> Place:
        return place(state_store, source, partner or source, **more)  # type: ignore[arg-type]

    return make

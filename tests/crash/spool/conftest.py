"""One database and one set of servers per module; each case is a watch of its own in directories of its own."""

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from resources.state import StateStore
from resources.state.engine import parse_url
from tests.integration.spool.world import Place, place
from tests.servers.ftp import sandbox_ftp_peer
from tests.servers.peer import Peer
from tests.servers.sftp import asyncssh_peer


@pytest.fixture(scope="module")
def store(postgres_url: str) -> Iterator[StateStore]:
    name = f"opsguard_crash_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = parse_url(postgres_url).set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    with StateStore.open(url) as store:
        yield store
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def ftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with sandbox_ftp_peer(tmp_path_factory.mktemp("ftp")) as peer:
        yield peer


@pytest.fixture(scope="module")
def sftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with asyncssh_peer(tmp_path_factory.mktemp("sftp")) as peer:
        yield peer


@pytest.fixture
def on(store: StateStore) -> Callable[..., Place]:
    """`on(peer)`: a watch of a new name with both sides on that server."""

    def make(peer: Peer, **profile: object) -> Place:
        return place(store, peer, peer, name=f"crash_{secrets.token_hex(6)}", **profile)  # type: ignore[arg-type]

    return make

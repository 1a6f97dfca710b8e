"""A state database that is not there, hangs or breaks: a sentence for the operator, an exit code, never a password."""

import socket
import traceback

import psycopg
import pytest
from sqlalchemy import text

from opsguard_defs.ports import held_port
from resources.errors import ConfigurationError, OpsGuardError, OutcomeUnknown, Unreachable
from resources.state import StateStore
from resources.state.engine import POOL_SIZE, open_engine, reading, writing
from resources.state.errors import LeaseLost

SECRET = "s3cr3t-c4n4ry"


def error_of(url: str) -> OpsGuardError:
    with pytest.raises(OpsGuardError) as caught:
        StateStore.open(url)
    whole = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert SECRET not in whole
    return caught.value


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{SECRET}@127.0.0.1/d",
        f"not a url {SECRET}",
        "",
        f"postgresql://u:{SECRET}@127.0.0.1:port/d",
        f"sqlite:///{SECRET}",
    ],
)
def test_a_url_that_is_none_is_a_configuration_error(url):
    assert isinstance(error_of(url), ConfigurationError)


def test_nobody_listens():
    with held_port() as port:
        error = error_of(f"postgresql://u:{SECRET}@127.0.0.1:{port}/d")
    assert isinstance(error, Unreachable)
    assert "refused" in str(error)


def test_a_wrong_password_and_a_missing_database(database_url):
    right = psycopg.conninfo.conninfo_to_dict(database_url)
    assert isinstance(error_of(database_url.replace(right["password"], SECRET)), Unreachable)
    assert "does not exist" in str(error_of(database_url.replace(right["dbname"], "nowhere")))


def test_a_server_that_accepts_and_says_nothing_is_given_up_on(monkeypatch):
    monkeypatch.setattr("resources.state.engine.CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = error_of(f"postgresql://u:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/d")
    assert isinstance(error, Unreachable)


def test_what_is_shown_of_a_store_has_no_password(state_store, database_url):
    password = psycopg.conninfo.conninfo_to_dict(database_url)["password"]
    assert password not in repr(state_store) + repr(state_store.engine) + repr(state_store.ledger)


def test_a_failing_statement_shows_no_parameters(state_store):
    def fail(connection):
        connection.execute(text("SELECT CAST(:value AS integer)"), {"value": SECRET})

    for use in (lambda: reading(state_store.engine, fail), lambda: writing(state_store.engine, "it", fail)):
        with pytest.raises(Unreachable) as caught:
            use()
        assert "parameters" not in str(caught.value)
        assert "SELECT" not in str(caught.value)


def test_a_read_survives_one_cut_connection(state_store, postgres_url):
    """The server is restarted, or a firewall forgets us, between two looks."""
    state_store.now()
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'opsguard' AND datname = %s",
            [state_store.engine.url.database],
        )
    assert state_store.now() is not None


def test_a_read_is_tried_twice_and_a_write_once(state_store, postgres_url):
    tries = []

    def cut(connection):
        tries.append(1)
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", [own])
        connection.execute(text("SELECT 1"))

    with pytest.raises(Unreachable):
        reading(state_store.engine, cut)
    assert len(tries) == 2
    with pytest.raises(Unreachable):
        writing(state_store.engine, "it", cut)
    assert len(tries) == 3


def test_a_connection_cut_while_committing_is_an_unknown_outcome(state_store, postgres_url):
    def cut_before_commit(connection):
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", [own])

    with pytest.raises(OutcomeUnknown, match="look before you repeat"):
        writing(state_store.engine, "the thing", cut_before_commit)


def test_a_session_is_bounded_and_says_who_it_is(database_url):
    engine = open_engine(database_url)
    wanted = {
        "application_name": "opsguard",
        "statement_timeout": "1min",
        "lock_timeout": "30s",
        "idle_in_transaction_session_timeout": "2min",
        "TimeZone": "UTC",
        "synchronous_commit": "on",
    }
    with engine.connect() as connection:
        shown = {name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in wanted}
    engine.dispose()
    assert shown == wanted


@pytest.mark.parametrize("is_refusal", [True, False], ids=["a refusal", "a failed statement"])
def test_a_connection_that_is_cut_before_the_rollback_does_not_hide_what_was_said(state_store, postgres_url, is_refusal):
    """It ended in an error of SQLAlchemy's."""

    def fails(connection):
        try:
            connection.execute(text("SELECT 1/0" if not is_refusal else "SELECT 1"))
        finally:
            with psycopg.connect(postgres_url, autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'opsguard'")
        raise LeaseLost("another run has it")

    for _ in range(2 * POOL_SIZE + 1):  # none of its connections is lost to the pool
        with pytest.raises(LeaseLost if is_refusal else Unreachable, match="another run has it" if is_refusal else "by zero"):
            writing(state_store.engine, "it", fails)

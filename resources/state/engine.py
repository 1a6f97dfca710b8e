"""One engine, and the two ways to use it: `reading` (one transparent retry) and `writing` (never retried).

Every number that bounds a wait on the state database is here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from resources.errors import ConfigurationError, OutcomeUnknown, Unreachable

CONNECT_SECONDS: Final = 10
STATEMENT_SECONDS: Final = 60
"""The largest statement writes a report of 20,000 findings (0.2 s); a minute is for a machine that is drowning."""
LOCK_SECONDS: Final = 30
"""Every lock here is held for one short transaction; longer means a stuck session, and that has to be said."""
IDLE_SECONDS: Final = 120
"""A frozen process must not hold a lease's row for ever."""
POOL_SIZE: Final = 4
POOL_WAIT_SECONDS: Final = 30
_SHAPE: Final = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_SESSION: Final = {
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "lock_timeout": f"{LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "TimeZone": "UTC",
    "DateStyle": "ISO",  # times are read as they are spelt
    "default_transaction_isolation": "read committed",  # after a wait for a lock, the next statement must see what was committed
    "synchronous_commit": "on",  # a server configured for speed must not acknowledge what it may lose
    "search_path": "pg_catalog",  # every table is named with its schema; nothing of a user's shadows a function
}

ONE_SNAPSHOT: Final = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
"""First in a transaction whose questions have to see one state."""

Result = TypeVar("Result")


def parse_url(url: str) -> URL:
    """Any spelling of a PostgreSQL URL, with our driver in it. The text is never repeated in an error: it holds a password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigurationError(f"OPSGUARD_STATE_URL is not a database URL: write {_SHAPE}") from None
    if parsed.drivername.partition("+")[0] not in {"postgresql", "postgres"}:
        raise ConfigurationError(
            f"OPSGUARD_STATE_URL is for another kind of database; PostgreSQL 13 or later is needed: {_SHAPE}"
        )
    return parsed.set(drivername="postgresql+psycopg")


def connect_arguments() -> dict[str, str | int]:
    """They go before what the URL says of the same."""
    return {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "opsguard",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
    }


def open_engine(url: str) -> Engine:
    engine = create_engine(
        parse_url(url),
        pool_size=POOL_SIZE,
        max_overflow=POOL_SIZE,
        pool_timeout=POOL_WAIT_SECONDS,
        pool_pre_ping=True,
        pool_recycle=1800,
        hide_parameters=True,
        connect_args=connect_arguments(),
    )
    event.listen(engine, "connect", prepare_session)
    return engine


def prepare_session(connection: Any, _record: object) -> None:
    """As statements, not as a start-up option: connection poolers refuse those."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_catalog.set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS setting(name, value)",
            (list(_SESSION), list(_SESSION.values())),
        )
    connection.commit()


def reading(engine: Engine, work: Callable[[Connection], Result]) -> Result:
    """`work` only reads. A connection that breaks is replaced once; a second break is `Unreachable`."""
    try:
        return _read_once(engine, work)
    except SQLAlchemyError as error:
        if not _is_broken_connection(error):
            _unreachable(error)
    try:
        return _read_once(engine, work)
    except SQLAlchemyError as error:
        _unreachable(error)


def _read_once(engine: Engine, work: Callable[[Connection], Result]) -> Result:
    with engine.connect() as connection:
        result = work(connection)
        connection.rollback()
        return result


def writing(engine: Engine, what: str, work: Callable[[Connection], Result]) -> Result:
    """`work` in one transaction. Before COMMIT was sent an error means nothing was written (`Unreachable`).

    An error while committing is `OutcomeUnknown`: the caller looks, it does not repeat. `what` names the thing written.
    """
    try:
        connection = engine.connect()
    except SQLAlchemyError as error:
        _unreachable(error)
    with _let_go(connection):
        try:
            transaction = connection.begin()
            result = work(connection)
        except SQLAlchemyError as error:
            _unreachable(error)
        except (
            psycopg.Error
        ) as error:  # of the driver itself: SQLAlchemy has no COPY, and does not know that this one may be broken
            connection.invalidate(error)
            raise unreachable(error) from None
        try:
            transaction.commit()
        except SQLAlchemyError as error:
            if _is_refused_commit(error):
                _unreachable(error)
            raise in_doubt(what, getattr(error, "orig", None) or error) from None
        return result


@contextmanager
def _let_go(connection: Connection) -> Iterator[None]:
    """Closed at the end. A rollback that fails, since the connection was cut, takes nothing back that the server keeps, and is not what
    is told."""
    try:
        yield
    finally:
        try:
            connection.close()
        except SQLAlchemyError as error:
            connection.invalidate(error)


def _is_refused_commit(error: SQLAlchemyError) -> bool:
    return is_refused_commit(getattr(error, "orig", None))


def is_refused_commit(error: object) -> bool:
    """The server answered with an error to COMMIT itself (a deferred constraint, a serialisation failure): nothing was kept."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    return sqlstate[:2] in {"23", "40"} and sqlstate != "40003"


def _is_broken_connection(error: SQLAlchemyError) -> bool:
    return isinstance(error, DBAPIError) and (error.connection_invalidated or isinstance(error.orig, psycopg.OperationalError))


def _unreachable(error: SQLAlchemyError) -> NoReturn:
    if isinstance(error, PoolTimeout):
        raise busy() from None
    raise unreachable(getattr(error, "orig", None) or error) from None


def busy() -> Unreachable:
    return Unreachable(
        f"all {2 * POOL_SIZE} connections to the state database were busy for {POOL_WAIT_SECONDS} s: is it hanging?"
    )


def unreachable(error: Exception) -> Unreachable:
    """For an error of the driver (or of SQLAlchemy's own): nothing was recorded."""
    if isinstance(error, psycopg.errors.RaiseException):
        return Unreachable(f"the state database refused a change: {cause(error)}")
    return Unreachable(f"the state database could not be used: {cause(error)}")


def in_doubt(what: str, error: Exception) -> OutcomeUnknown:
    return OutcomeUnknown(f"the state database did not say whether {what} was recorded ({cause(error)}): look before you repeat")


_ADVICE: Final = {
    "53100": "its disk is full: free some space, nothing was recorded",
    "57014": f"a statement took longer than {STATEMENT_SECONDS} s",
    "55P03": f"another session held a lock for {LOCK_SECONDS} s",
    "53300": "it has no connection left: raise max_connections, or stop other users of it",
    "28P01": "it does not accept the user name and password in OPSGUARD_STATE_URL",
    "3D000": "the database named in OPSGUARD_STATE_URL does not exist: create it",
    "42501": "the user in OPSGUARD_STATE_URL lacks a privilege: it must own the schema opsguard, or may create it",
}


def cause(error: Exception) -> str:
    """One line that names no value: statements and parameters stay out, and libpq never repeats a password."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    if sqlstate in _ADVICE:
        return _ADVICE[sqlstate]
    shown = "" if isinstance(error, SQLAlchemyError) else str(error)  # SQLAlchemy's own shows the statement
    said = getattr(getattr(error, "diag", None), "message_primary", None) or shown
    first = next((line.strip() for line in said.splitlines() if line.strip()), type(error).__name__)
    return f"{first[:300]}{f' [{sqlstate}]' if sqlstate else ''}"

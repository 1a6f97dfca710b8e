"""Connections for what has to be quick: the driver itself, autocommit, statements prepared on the server, no ping before use.

A transition of the ledger is two short statements. Through SQLAlchemy, with its ping, BEGIN and COMMIT, the same took nine round trips
and four times as long.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result
from sqlalchemy import Engine

from resources.errors import OutcomeUnknown, Unreachable
from resources.state import engine as bounds
from resources.state.engine import busy, connect_arguments, prepare_session, unreachable

IDLE_SECONDS: Final = 300
"""A firewall may have forgotten a connection that was idle for longer."""

_POINT_LOOKUPS: Final = """
    SELECT pg_catalog.set_config(name, value, false)
    FROM (VALUES ('enable_seqscan', 'off'), ('plan_cache_mode', 'force_generic_plan'), ('jit', 'off')) AS setting(name, value)
"""
"""Every statement here finds single rows by key. A plan made while the tables were empty would read them whole for ever after."""


class Session(psycopg.Connection[tuple[Any, ...]]):
    """A connection that remembers what it has prepared."""

    names: dict[str, bytes]


def ask(session: Session, statement: str, parameters: Mapping[str, str | int | datetime | None]) -> tuple[Any, ...]:
    """The first row, () when there is none. Raises what psycopg raises.

    libpq itself, in one call that ends when the server has answered (or its time is up): the driver's cursor, which can be interrupted
    in between, took another 0.15 ms each time.
    """
    query, places, types = _positional(statement)
    if (name := session.names.get(statement)) is None:
        name = f"opsguard_{len(session.names)}".encode()
        _checked(session.pgconn.prepare(name, query, types))
        session.names[statement] = name
    values = [parameters[place] for place in places]
    given: list[Any] = [value.encode() if type(value) is str else _spelt(value) for value in values]
    result = _checked(session.pgconn.exec_prepared(name, given))
    if not result.ntuples:
        return ()
    return tuple(_read(result.get_value(0, column), result.ftype(column)) for column in range(result.nfields))


def _checked(result: pq.abc.PGresult) -> pq.abc.PGresult:
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise error_from_result(result)
    return result


_PLACE: Final = re.compile(r"%\((\w+)\)s")
_TEXT, _INT, _BIGINT, _TIMESTAMP = 25, 23, 20, 1184
_TYPES: Final = {
    "sequence": _BIGINT,
    "fence": _BIGINT,
    "scope_fence": _BIGINT,
    "known_fence": _BIGINT,
    "known_row": _BIGINT,
    "attempt": _INT,
    "lease_seconds": _INT,
    "since": _TIMESTAMP,
    "at": _TIMESTAMP,
}
"""By a parameter's name; all others are text."""


@lru_cache
def _positional(statement: str) -> tuple[bytes, tuple[str, ...], list[int]]:
    places = tuple(dict.fromkeys(_PLACE.findall(statement)))
    query = _PLACE.sub(lambda found: f"${places.index(found[1]) + 1}", statement)
    return query.encode(), places, [_TYPES.get(place, _TEXT) for place in places]


def _spelt(value: str | int | datetime | None) -> bytes | None:
    if value is None:
        return None
    return (value.isoformat() if isinstance(value, datetime) else str(value)).encode()


_READERS: Final[Mapping[int, Callable[[str], Any]]] = {
    16: lambda said: said == "t",
    _BIGINT: int,
    _INT: int,
    _TIMESTAMP: datetime.fromisoformat,
}


def _read(value: bytes | None, type_of: int) -> Any:
    if value is None:
        return None
    read = _READERS.get(type_of)
    return value.decode() if read is None else read(value.decode())


class Sessions:
    """As many as the engine's pool may have; opened when first needed, kept when whole."""

    def __init__(self, engine: Engine) -> None:
        positional, self._target = engine.dialect.create_connect_args(engine.url)
        assert not positional
        self._idle: list[tuple[Session, float]] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(2 * bounds.POOL_SIZE)

    @contextmanager
    def one(self, *, fresh: bool = False) -> Iterator[Session]:
        """`fresh`: not one that lay idle, because the last one was found broken, and then so are probably all."""
        if not self._free.acquire(timeout=bounds.POOL_WAIT_SECONDS):
            raise busy()
        try:
            if fresh:
                self.close()
            session = self._kept() or self._opened()
            try:
                yield session
            except (Unreachable, OutcomeUnknown):
                session.close()  # a pooler that lost what was prepared, or a standby behind it, would fail every call after this one
                raise
            finally:
                self._put_back(session)
        finally:
            self._free.release()

    def close(self) -> None:
        """Those in use are kept when they are put back."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session, _ in idle:
            session.close()

    def _kept(self) -> Session | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                session, used_at = self._idle.pop()
            if time.monotonic() - used_at < IDLE_SECONDS:
                return session
            session.close()

    def _opened(self) -> Session:
        try:
            session = Session.connect(**{**self._target, **connect_arguments()}, autocommit=True)
            prepare_session(session, None)
            session.execute(_POINT_LOOKUPS)
            session.names = {}
        except psycopg.Error as error:
            raise unreachable(error) from None
        return session

    def _put_back(self, session: Session) -> None:
        if session.closed or session.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
            session.close()
            return
        with self._lock:
            self._idle.append((session, time.monotonic()))

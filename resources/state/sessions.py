"""Connections for what has to be quick: the driver itself, autocommit, statements prepared on the server, no ping before use.

A transition of the ledger is two short statements. Through SQLAlchemy, with its ping, BEGIN and COMMIT, the same took nine round trips
and four times as long.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import psycopg
from sqlalchemy import Engine

from resources.state import engine as bounds
from resources.state.engine import CONNECT, busy, prepare_session, unreachable

IDLE_SECONDS: Final = 300
"""A firewall may have forgotten a connection that was idle for longer."""
Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_POINT_LOOKUPS: Final = """
    SELECT pg_catalog.set_config(name, value, false)
    FROM (VALUES ('enable_seqscan', 'off'), ('plan_cache_mode', 'force_generic_plan'), ('jit', 'off')) AS setting(name, value)
"""
"""Every statement here finds single rows by key. A plan made while the tables were empty would read them whole for ever after."""


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
            session: Session = psycopg.connect(
                **self._target, **{**CONNECT, "connect_timeout": bounds.CONNECT_SECONDS}, autocommit=True, prepare_threshold=0
            )
            prepare_session(session, None)
            session.execute(_POINT_LOOKUPS)
        except psycopg.Error as error:
            raise unreachable(error) from None
        return session

    def _put_back(self, session: Session) -> None:
        if session.closed or session.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
            session.close()
            return
        with self._lock:
            self._idle.append((session, time.monotonic()))

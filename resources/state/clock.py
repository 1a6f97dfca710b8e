"""The database clock: the only clock for leases, expiry and everything that is remembered."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, DateTime, Function, func, select


def current() -> Function[Any]:
    """Inside a statement: the time now, not the transaction's start (which is older after a wait for a lock)."""
    return func.clock_timestamp(type_=DateTime(timezone=True))


def now(connection: Connection) -> datetime:
    moment: datetime = connection.execute(select(current())).scalar_one()
    return moment

"""One writer per scope: a lease with a fence that grows with every holder, judged by the database clock.

A lease row is never deleted, so that a fence is never given out twice.
"""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, select, update
from sqlalchemy.dialects.postgresql import INTERVAL, insert
from sqlalchemy.sql import ColumnElement, cast, literal

from guards.gate import Authorization, Lease
from guards.refusal import RefusalCode, Refused
from resources.state.clock import current
from resources.state.errors import LeaseLost
from resources.state.tables import leases

SHORTEST_TTL_SECONDS: Final = 1
LONGEST_TTL_SECONDS: Final = 86_400


def acquire(connection: Connection, scope: str, *, holder: str, ttl_seconds: int) -> Lease | Refused:
    """A new fence, or who holds the scope and until when. The same holder asking again gets a new fence: its earlier one is void."""
    if not holder or not SHORTEST_TTL_SECONDS <= ttl_seconds <= LONGEST_TTL_SECONDS:
        raise ValueError(f"a lease needs a holder and a ttl of {SHORTEST_TTL_SECONDS} to {LONGEST_TTL_SECONDS} seconds")
    fresh = insert(leases).values(
        scope=scope,
        fence=1,
        holder=holder,
        ttl_seconds=ttl_seconds,
        acquired_at=current(),
        expires_at=current() + _seconds(ttl_seconds),
    )
    statement = fresh.on_conflict_do_update(
        index_elements=[leases.c.scope],
        set_={
            "fence": leases.c.fence + 1,
            "holder": holder,
            "ttl_seconds": ttl_seconds,
            "acquired_at": current(),
            "expires_at": current() + _seconds(ttl_seconds),
        },
        where=(leases.c.expires_at <= current()) | (leases.c.holder == holder),
    ).returning(*_COLUMNS)
    won = connection.execute(statement).one_or_none()
    if won is not None:
        return _lease(won)
    held = connection.execute(select(*_COLUMNS).where(leases.c.scope == scope)).one()
    return Refused(
        RefusalCode.BUSY,
        f"run {held.holder} is writing {scope} (its lease ends {held.expires_at:%Y-%m-%d %H:%M:%S} UTC): wait for it, then report again",
    )


def heartbeat(connection: Connection, lease: Lease) -> Lease:
    """The same fence for another full ttl; `LeaseLost` when it has ended or somebody else holds the scope."""
    statement = (
        update(leases)
        .where(_is_live(lease.scope, lease.holder, lease.fence))
        .values(expires_at=current() + leases.c.ttl_seconds * _seconds(1))
        .returning(*_COLUMNS)
    )
    renewed = connection.execute(statement).one_or_none()
    if renewed is None:
        raise lost(lease.scope, lease.fence)
    return _lease(renewed)


def release(connection: Connection, lease: Lease) -> None:
    """Ends the lease now. One that is no longer ours is left alone: releasing twice is harmless."""
    connection.execute(update(leases).where(_is_live(lease.scope, lease.holder, lease.fence)).values(expires_at=current()))


def is_live(connection: Connection, authorization: Authorization) -> bool:
    return connection.execute(_fence_of(authorization)).one_or_none() is not None


def hold_fence(connection: Connection, authorization: Authorization) -> None:
    """`LeaseLost` unless the fence is the newest and unexpired; it stays so until this transaction ends (a shared row lock)."""
    if connection.execute(_fence_of(authorization).with_for_update(read=True)).one_or_none() is None:
        raise lost(authorization.scope, authorization.fence)


def lost(scope: str, fence: int) -> LeaseLost:
    return LeaseLost(
        f"the lease on {scope} with fence {fence} is over: another run may be writing. Nothing more was written; "
        "report again, and look at what this run was writing last"
    )


def _fence_of(authorization: Authorization) -> Select[tuple[int]]:
    return select(leases.c.fence).where(_is_live(authorization.scope, authorization.holder, authorization.fence))


def _is_live(scope: str, holder: str, fence: int) -> ColumnElement[bool]:
    live: ColumnElement[bool] = (
        (leases.c.scope == scope) & (leases.c.holder == holder) & (leases.c.fence == fence) & (leases.c.expires_at > current())
    )
    return live


def _seconds(count: int) -> Any:
    return cast(literal(f"{count} seconds"), INTERVAL)


_COLUMNS: Final = (leases.c.scope, leases.c.holder, leases.c.fence, leases.c.expires_at)


def _lease(row: Row[Any]) -> Lease:
    expires_at: datetime = row.expires_at
    return Lease(scope=row.scope, holder=row.holder, fence=row.fence, expires_at=expires_at)

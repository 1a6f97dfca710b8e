"""The journal of external writes: a durable intent before each, a durable outcome after it. Both are append-only.

An intent without an outcome is a write that may or may not have happened; the next run observes, and records what it found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from guards.canonical import Json, canonical_json
from guards.gate import Authorization
from resources.state.clock import current
from resources.state.leases import hold_fence
from resources.state.tables import journal, journal_outcomes


@dataclass(frozen=True, slots=True)
class JournalRow:
    """`outcome` None: nobody knows yet what became of it."""

    intent_id: int
    guard: str
    watch: str
    subject: str
    step: str
    detail: Mapping[str, Json]
    plan_digest: str
    approval_id: int
    run_id: str
    fence: int
    intended_at: datetime
    outcome: Mapping[str, Json] | None = None
    outcome_at: datetime | None = None
    outcome_run_id: str = ""

    @property
    def is_open(self) -> bool:
        return self.outcome is None


def intend(connection: Connection, authorization: Authorization, *, subject: str, step: str, detail: Mapping[str, Json]) -> int:
    """The number of the intent; `LeaseLost` when the fence is no longer the newest."""
    hold_fence(connection, authorization)
    guard, _, watch = authorization.scope.partition("/")
    number: int = connection.execute(
        insert(journal)
        .values(
            guard=guard,
            watch=watch,
            plan_digest=authorization.plan_digest,
            approval_id=authorization.approval_id,
            run_id=authorization.holder,
            fence=authorization.fence,
            subject=subject,
            step=step,
            detail=detail,
            intended_at=current(),
        )
        .returning(journal.c.id)
    ).scalar_one()
    return number


def outcome(connection: Connection, authorization: Authorization, intent_id: int, detail: Mapping[str, Json]) -> None:
    """What became of an intent of this scope (a later run may say it for a dead one). Saying the same again is fine."""
    hold_fence(connection, authorization)
    guard, _, watch = authorization.scope.partition("/")
    owned = select(journal.c.id).where(journal.c.id == intent_id, journal.c.guard == guard, journal.c.watch == watch)
    if connection.execute(owned).one_or_none() is None:
        raise ValueError(f"{authorization.scope} has no intent {intent_id}")
    connection.execute(
        insert(journal_outcomes)
        .values(
            intent_id=intent_id,
            run_id=authorization.holder,
            fence=authorization.fence,
            detail=detail,
            recorded_at=current(),
        )
        .on_conflict_do_nothing(index_elements=[journal_outcomes.c.intent_id])
    )
    stored = connection.execute(select(journal_outcomes.c.detail).where(journal_outcomes.c.intent_id == intent_id)).scalar_one()
    if canonical_json(stored) != canonical_json(detail):
        raise ValueError(f"intent {intent_id} of {authorization.scope} has another outcome already")


def rows(
    connection: Connection,
    *,
    guard: str,
    watch: str,
    subject: str | None,
    open_only: bool,
    step: str | None = None,
    run_id: str | None = None,
    newest: int | None = None,
) -> list[JournalRow]:
    """Oldest first. `run_id`: what this run intended, or said of an earlier run's intent. `newest`: only so many, the latest."""
    statement = (
        select(
            journal,
            journal_outcomes.c.detail.label("outcome"),
            journal_outcomes.c.recorded_at.label("outcome_at"),
            journal_outcomes.c.run_id.label("outcome_run_id"),
        )
        .join_from(journal, journal_outcomes, journal_outcomes.c.intent_id == journal.c.id, isouter=True)
        .where(journal.c.guard == guard, journal.c.watch == watch)
        .order_by(journal.c.id.desc())
        .limit(newest)
    )
    if step is not None:
        statement = statement.where(journal.c.step == step)
    if run_id is not None:
        statement = statement.where((journal.c.run_id == run_id) | (journal_outcomes.c.run_id == run_id))
    if subject is not None:
        statement = statement.where(journal.c.subject == subject)
    if open_only:
        statement = statement.where(journal_outcomes.c.intent_id.is_(None))
    return [
        JournalRow(
            intent_id=row.id,
            guard=row.guard,
            watch=row.watch,
            subject=row.subject,
            step=row.step,
            detail=row.detail,
            plan_digest=row.plan_digest,
            approval_id=row.approval_id,
            run_id=row.run_id,
            fence=row.fence,
            intended_at=row.intended_at,
            outcome=row.outcome,
            outcome_at=row.outcome_at,
            outcome_run_id=row.outcome_run_id or "",
        )
        for row in reversed(connection.execute(statement).all())
    ]

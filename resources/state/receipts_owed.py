"""Receipts that a run could not write any more: of calls it recorded an intent for. What became of the call, the caller knows."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine, exists, select

from guards.receipt import Receipt
from resources.state.engine import reading, writing
from resources.state.receipts import keep
from resources.state.tables import decisions, journal, receipts

MOST: Final = 20_000
"""The newest. Calls that were refused or stay in doubt have no receipt either, and never will."""


@dataclass(frozen=True, slots=True)
class Unreceipted:
    """An intent of `run_id` under an approval, without a receipt for its subject. `detail` as the run recorded it."""

    subject: str
    plan_digest: str
    approval_id: int
    approved_by: str
    run_id: str
    detail: dict[str, object]


def unreceipted(engine: Engine, *, guard: str, watch: str, step: str, action: str) -> tuple[Unreceipted, ...]:
    """Oldest first."""
    has_one = exists().where(
        receipts.c.approval_id == journal.c.approval_id,
        receipts.c.action == action,
        receipts.c.subject == journal.c.subject,
    )
    statement = (
        select(journal, decisions.c.decided_by)
        .join_from(journal, decisions, decisions.c.id == journal.c.approval_id)
        .where(journal.c.guard == guard, journal.c.watch == watch, journal.c.step == step, ~has_one)
        .order_by(journal.c.id.desc())
        .limit(MOST)
    )
    rows = reading(engine, lambda connection: connection.execute(statement).all())
    return tuple(
        Unreceipted(row.subject, row.plan_digest, row.approval_id, row.decided_by, row.run_id, dict(row.detail))
        for row in reversed(rows)
    )


def add_owed(engine: Engine, receipt: Receipt) -> Receipt:
    """Without a lease, for a run that is gone: only for an approval, subject and run that an intent was recorded for, else `ValueError`."""
    intended = select(journal.c.id).where(
        journal.c.guard == receipt.guard,
        journal.c.watch == receipt.watch,
        journal.c.plan_digest == receipt.plan_digest,
        journal.c.approval_id == receipt.approval_id,
        journal.c.run_id == receipt.run_id,
        journal.c.subject == receipt.subject,
    )
    if reading(engine, lambda connection: connection.execute(intended).first()) is None:
        raise ValueError(f"run {receipt.run_id} recorded no intent for {receipt.subject!r}")
    return writing(engine, "the receipt", lambda connection: keep(connection, receipt))

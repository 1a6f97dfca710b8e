"""Receipts: durable evidence of each write. One per approval, action and subject; append-only."""

import hashlib
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, Row, select
from sqlalchemy.dialects.postgresql import insert

from guards.gate import Authorization
from guards.receipt import Receipt
from resources.state.clock import current
from resources.state.columns import escape
from resources.state.leases import hold_fence
from resources.state.tables import receipts

_AT_ONCE: Final = 10_000


def add(connection: Connection, authorization: Authorization, receipt: Receipt) -> Receipt:
    """As recorded, with the database's time. The same receipt again (after a lost answer) is the one already recorded."""
    claims = (f"{receipt.guard}/{receipt.watch}", receipt.plan_digest, receipt.approval_id, receipt.approved_by)
    if claims != (authorization.scope, authorization.plan_digest, authorization.approval_id, authorization.approved_by):
        raise ValueError(f"a receipt for {claims[0]} does not belong to {authorization!r}")
    hold_fence(connection, authorization)
    return keep(connection, receipt)


def keep(connection: Connection, receipt: Receipt) -> Receipt:
    """The caller has made sure that its run may, or might."""
    subject_sha256 = hashlib.sha256(escape(receipt.subject).encode()).digest()
    connection.execute(
        insert(receipts)
        .values(
            guard=receipt.guard,
            watch=receipt.watch,
            plan_digest=receipt.plan_digest,
            approval_id=receipt.approval_id,
            approved_by=receipt.approved_by,
            run_id=receipt.run_id,
            subject=receipt.subject,
            subject_sha256=subject_sha256,
            action=receipt.action,
            size_bytes=receipt.size_bytes,
            sha256=receipt.sha256,
            evidence=receipt.evidence,
            recorded_at=current(),
        )
        .on_conflict_do_nothing(constraint="receipts_once")
    )
    stored = _receipt(
        connection.execute(
            select(receipts).where(
                receipts.c.approval_id == receipt.approval_id,
                receipts.c.action == receipt.action,
                receipts.c.subject_sha256 == subject_sha256,
            )
        ).one()
    )
    if (stored.size_bytes, stored.sha256) != (receipt.size_bytes, receipt.sha256):
        raise ValueError(
            f"approval {receipt.approval_id} has another receipt for this subject already: {stored.size_bytes} bytes"
        )
    return stored


def newest_first(
    connection: Connection, *, guard: str | None, watch: str | None, plan_digest: str | None, limit: int
) -> list[Receipt]:
    statement = select(receipts).order_by(receipts.c.id.desc()).limit(limit)
    for column, wanted in ((receipts.c.guard, guard), (receipts.c.watch, watch), (receipts.c.plan_digest, plan_digest)):
        if wanted is not None:
            statement = statement.where(column == wanted)
    return [_receipt(row) for row in connection.execute(statement)]


def written(connection: Connection, *, guard: str, watch: str, action: str, subjects: Collection[str]) -> dict[str, Receipt]:
    """By subject, the newest receipt for this action; subjects without one are left out."""
    found: dict[str, Receipt] = {}
    digests = [hashlib.sha256(escape(subject).encode()).digest() for subject in sorted(set(subjects))]
    for start in range(0, len(digests), _AT_ONCE):
        statement = (
            select(receipts)
            .where(
                receipts.c.guard == guard,
                receipts.c.watch == watch,
                receipts.c.action == action,
                receipts.c.subject_sha256.in_(digests[start : start + _AT_ONCE]),
            )
            .order_by(receipts.c.id)
        )
        found |= {receipt.subject: receipt for receipt in map(_receipt, connection.execute(statement))}
    return found


def _receipt(row: Row[Any]) -> Receipt:
    return replace(
        Receipt(
            guard=row.guard,
            watch=row.watch,
            plan_digest=row.plan_digest,
            approval_id=row.approval_id,
            approved_by=row.approved_by,
            run_id=row.run_id,
            subject=row.subject,
            action=row.action,
            size_bytes=row.size_bytes,
            sha256=row.sha256,
            evidence=row.evidence,
        ),
        recorded_at=row.recorded_at,
    )

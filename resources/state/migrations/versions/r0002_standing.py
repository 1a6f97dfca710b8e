"""Standing approvals with their revocations, and the heads of ledgers that were published."""

import json
from pathlib import Path

from alembic import op
from sqlalchemy import Connection, text

from guards.canonical import canonical_json
from guards.delivery.entry import digest_of

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    statements = Path(__file__).with_name("r0002_standing.sql").read_text(encoding="utf-8")
    connection = op.get_bind()
    connection.exec_driver_sql(statements, execution_options={"no_parameters": True})
    _name_the_database(connection)
    _carry_used_approvals(connection)


def _name_the_database(connection: Connection) -> None:
    """A ledger is known by server, timeline and, from now on, database: the one that it is in did not change over night."""
    connection.exec_driver_sql(
        "UPDATE opsguard.ledger_head SET server = server || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "WHERE server ~ '^[0-9]+/[0-9]+$'"
    )


def _carry_used_approvals(connection: Connection) -> None:
    """Each answer holds, from now on, the approvals that opened an attempt at its slot so far."""
    stored = connection.exec_driver_sql(
        "SELECT reservation, customer, period, kind, body FROM opsguard.ledger_reservations ORDER BY customer, period, kind, attempt"
    ).all()
    slot: tuple[str, str, str] | None = None
    used: list[str] = []
    for row in stored:
        if slot != (row.customer, row.period, row.kind):
            slot, used = (row.customer, row.period, row.kind), []
        body = json.loads(row.body)
        used = [*used, *([digest_of(body["opened_under"])] if body["opened_under"] else [])]
        connection.execute(
            text("UPDATE opsguard.ledger_reservations SET body = :body WHERE reservation = :reservation"),
            {"body": canonical_json({**body, "used": used}).decode("ascii"), "reservation": row.reservation},
        )


def downgrade() -> None:
    raise NotImplementedError("evidence is never taken away: restore a backup into an empty database instead")

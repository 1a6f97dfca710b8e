"""The foundation: plans, reports, decisions, leases, journal, receipts, first-seen times, outbox and ledger."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    statements = Path(__file__).with_name("r0001_foundation.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})


def downgrade() -> None:
    raise NotImplementedError("evidence is never taken away: restore a backup into an empty database instead")

"""Standing approvals with their revocations, and the heads of ledgers that were published."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    statements = Path(__file__).with_name("r0002_standing.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})


def downgrade() -> None:
    raise NotImplementedError("evidence is never taken away: restore a backup into an empty database instead")

"""The tables of schema `opsguard`. The migrations make them; here they are named for queries.

Append-only (a trigger refuses UPDATE, DELETE and TRUNCATE): decisions, approval_uses, receipts, journal, journal_outcomes,
ledger_rows, standing_approvals, standing_revocations, published_heads. Plans are never updated, and deleted only while nobody has decided on them.
"""

from datetime import datetime
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from resources.state.columns import CanonicalJson, ExactText

SCHEMA: Final = "opsguard"
metadata: Final = MetaData(schema=SCHEMA)


def _at(name: str, *, nullable: bool = False) -> Column[datetime]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def _number(name: str = "id") -> Column[int]:
    return Column(name, BigInteger, Identity(always=False), primary_key=True)


plans: Final = Table(
    "plans",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("guard", Text, nullable=False),
    Column("watch", Text, nullable=False),
    Column("scope", CanonicalJson, nullable=False),
    Column("policy", CanonicalJson, nullable=False),
    Column("targets", CanonicalJson, nullable=False),
    Column("target_count", Integer, nullable=False),
    _at("recorded_at"),
)

reports: Final = Table(
    "reports",
    metadata,
    _number(),
    Column("plan_digest", Text, ForeignKey(plans.c.digest), nullable=False),
    Column("guard", Text, nullable=False),
    Column("watch", Text, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("overrides", CanonicalJson, nullable=False),
    Column("observation", ExactText, nullable=False),
    Column("counts", CanonicalJson, nullable=False),
    Column("gaps", Integer, nullable=False),
    Column("findings", CanonicalJson, nullable=False),
    _at("reported_at"),
)

decisions: Final = Table(
    "decisions",
    metadata,
    _number(),
    Column("plan_digest", Text, ForeignKey(plans.c.digest), nullable=False),
    Column("kind", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
    Column("comment", ExactText, nullable=False),
    Column("channel", Text, nullable=False),
    Column("run_id", ExactText, nullable=False),
    _at("decided_at"),
    _at("valid_until"),
    Column("digest", Text, nullable=False),
)

approval_uses: Final = Table(
    "approval_uses",
    metadata,
    Column("decision_id", BigInteger, ForeignKey(decisions.c.id), primary_key=True, autoincrement=False),
    Column("used_by", ExactText, nullable=False),
    Column("fence", BigInteger, nullable=False),
    _at("used_at"),
)

leases: Final = Table(
    "leases",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("fence", BigInteger, nullable=False),
    Column("holder", ExactText, nullable=False),
    Column("ttl_seconds", Integer, nullable=False),
    _at("acquired_at"),
    _at("expires_at"),
)

journal: Final = Table(
    "journal",
    metadata,
    _number(),
    Column("guard", Text, nullable=False),
    Column("watch", Text, nullable=False),
    Column("plan_digest", Text, ForeignKey(plans.c.digest), nullable=False),
    Column("approval_id", BigInteger, ForeignKey(decisions.c.id), nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("subject", ExactText, nullable=False),
    Column("step", Text, nullable=False),
    Column("detail", CanonicalJson, nullable=False),
    _at("intended_at"),
)

journal_outcomes: Final = Table(
    "journal_outcomes",
    metadata,
    Column("intent_id", BigInteger, ForeignKey(journal.c.id), primary_key=True, autoincrement=False),
    Column("run_id", ExactText, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("detail", CanonicalJson, nullable=False),
    _at("recorded_at"),
)

receipts: Final = Table(
    "receipts",
    metadata,
    _number(),
    Column("guard", Text, nullable=False),
    Column("watch", Text, nullable=False),
    Column("plan_digest", Text, ForeignKey(plans.c.digest), nullable=False),
    Column("approval_id", BigInteger, ForeignKey(decisions.c.id), nullable=False),
    Column("approved_by", Text, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("subject", ExactText, nullable=False),
    Column("subject_sha256", LargeBinary, nullable=False),
    Column("action", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("evidence", CanonicalJson, nullable=False),
    _at("recorded_at"),
    UniqueConstraint("approval_id", "action", "subject_sha256", name="receipts_once"),
)

first_seen: Final = Table(
    "first_seen",
    metadata,
    Column("guard", Text, primary_key=True),
    Column("watch", Text, primary_key=True),
    Column("name_sha256", LargeBinary, primary_key=True),  # a name may be longer than an index row
    Column("name", ExactText, nullable=False),
    _at("seen_at"),
    _at("asked_at"),
)

outbox: Final = Table(
    "outbox",
    metadata,
    _number(),
    Column("key", ExactText, nullable=False, unique=True),
    Column("payload", CanonicalJson, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("why", ExactText, nullable=False),
    Column("sent_ts", ExactText, nullable=False),
    _at("queued_at"),
    _at("next_attempt_at"),
    _at("claimed_at", nullable=True),
    _at("settled_at", nullable=True),
)

ledger_slots: Final = Table(
    "ledger_slots",
    metadata,
    Column("customer", Text(collation="C"), primary_key=True),
    Column("period", Text(collation="C"), primary_key=True),
    Column("kind", Text(collation="C"), primary_key=True),
    Column("reservation", Text, nullable=False, unique=True),
    Column("attempt", Integer, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("holder", ExactText, nullable=False),
    _at("lease_expires_at", nullable=True),
    Column("lease_scope", Text),  # set when the lease is that of a writer's scope: it ends when another takes the scope
    Column("lease_fence", BigInteger),
)

ledger_reservations: Final = Table(
    "ledger_reservations",
    metadata,
    Column("reservation", Text, primary_key=True),
    Column("customer", Text(collation="C"), nullable=False),
    Column("period", Text(collation="C"), nullable=False),
    Column("kind", Text(collation="C"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("row_sequence", BigInteger, nullable=False),
    Column("body", CanonicalJson, nullable=False),
    _at("since"),
    UniqueConstraint("customer", "period", "kind", "attempt", name="ledger_reservations_attempt"),
)

ledger_rows: Final = Table(
    "ledger_rows",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("reservation", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("row", Text, nullable=False),  # canonical JSON: these bytes are what the digest is over
)

ledger_head: Final = Table(
    "ledger_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("server", Text, nullable=False),  # system identifier, timeline and database where the chain was accepted
    _at("accepted_at", nullable=True),
)

standing_approvals: Final = Table(
    "standing_approvals",
    metadata,
    _number(),
    Column("watch", Text, nullable=False),
    Column("customers", CanonicalJson, nullable=False),
    Column("kinds", CanonicalJson, nullable=False),
    Column("approved_by", Text, nullable=False),
    Column("comment", ExactText, nullable=False),
    _at("until"),
    _at("recorded_at"),
)

standing_revocations: Final = Table(
    "standing_revocations",
    metadata,
    Column("approval_id", BigInteger, ForeignKey(standing_approvals.c.id), primary_key=True, autoincrement=False),
    Column("revoked_by", Text, nullable=False),
    Column("comment", ExactText, nullable=False),
    _at("recorded_at"),
)

published_heads: Final = Table(
    "published_heads",
    metadata,
    _number(),
    Column("watch", ExactText, nullable=False),
    Column("store", ExactText, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("slot_identity", ExactText, nullable=False),
    Column("run_id", ExactText, nullable=False),
    Column("accepted_by", ExactText, nullable=False),
    Column("comment", ExactText, nullable=False),
    _at("recorded_at"),
)

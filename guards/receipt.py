"""Receipts: durable evidence of one write."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from guards.canonical import Json


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was written, proven how, under whose approval, by which run. `evidence` is guard-specific JSON; never a secret."""

    guard: str
    watch: str
    plan_digest: str
    approval_id: int
    approved_by: str
    run_id: str
    subject: str
    action: str
    size_bytes: int
    sha256: str
    evidence: Mapping[str, Json]
    recorded_at: datetime | None = None
    """Database clock; None until the state store has recorded it."""

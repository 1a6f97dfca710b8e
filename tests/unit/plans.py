"""Builders for the core's tests: a plan over a world of numbers, decisions, leases. No word of any real guard."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from guards.canonical import Json
from guards.decision import Decision, DecisionKind
from guards.gate import Flags, Lease
from guards.plan import Plan
from guards.requirement import Mismatch

NOW = datetime(2026, 3, 2, 5, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
WRITE = Flags(dry_run=False, auto_remediate=True)

World = Mapping[str, int]


@dataclass(frozen=True)
class Is:
    name: str
    number: int

    def check(self, seen: World) -> Mismatch | None:
        found = seen.get(self.name)
        return None if found == self.number else Mismatch(self.name, str(self.number), str(found))

    def as_json(self) -> Mapping[str, Json]:
        return {"name": self.name, "number": self.number}


@dataclass(frozen=True)
class Change:
    subject: str
    number: int = 0
    action: str = "change"
    size_bytes: int = 5

    @property
    def requirements(self) -> tuple[Is, ...]:
        return (Is(self.subject, self.number),)

    def as_json(self) -> Mapping[str, Json]:
        return {"subject": self.subject, "number": self.number}


def plan(**changes: Any) -> Plan[World]:
    made: Plan[World] = Plan(
        guard="numbers", watch="main", scope={"host": "here"}, policy={"limit": 3}, targets=(Change("a"), Change("b"))
    )
    return replace(made, **changes)


def decision(number: int = 1, **changes: Any) -> Decision:
    """An approval of `plan()`, valid for an hour after NOW."""
    made = Decision(
        decision_id=number,
        plan_digest=plan().digest,
        kind=DecisionKind.APPROVED,
        decided_by="ada",
        comment="",
        decided_at=NOW - HOUR,
        valid_until=NOW + HOUR,
    )
    return replace(made, **changes)


def lease(**changes: Any) -> Lease:
    return replace(Lease(scope="numbers/main", holder="run-1", fence=7, expires_at=NOW + HOUR), **changes)

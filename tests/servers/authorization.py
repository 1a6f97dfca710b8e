"""An authorization for tests that write: made by the real gate from a plan with one target and an approval of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from guards.canonical import Json
from guards.decision import Decision, DecisionKind
from guards.gate import Authorization, Authorized, Flags, Fresh, Lease, gate
from guards.plan import Plan, plan_scope_key

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _OneFeed:
    subject: str = "feed.csv"
    action: str = "send"
    size_bytes: int = 1
    requirements: tuple[()] = ()

    def as_json(self) -> Mapping[str, Json]:
        return {"name": self.subject}


def authorized(watch: str = "acme") -> Authorization:
    """For the scope `spool/<watch>`."""
    plan: Plan[None] = Plan(guard="spool", watch=watch, scope={}, policy={}, targets=(_OneFeed(),))
    decision = Decision(1, plan.digest, DecisionKind.APPROVED, "tester", "", NOW, NOW + timedelta(hours=1))
    lease = Lease(scope=plan_scope_key("spool", watch), holder="run-1", fence=1, expires_at=NOW + timedelta(hours=1))
    answer = gate(
        flags=Flags(dry_run=False, auto_remediate=True),
        plan=plan,
        decision=decision,
        current=plan,
        fresh=Fresh(None),
        lease=lease,
        now=NOW,
    )
    assert isinstance(answer, Authorized)
    return answer.authorization

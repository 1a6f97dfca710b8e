"""How plans, findings and receipts are worded on a terminal, and their JSON shapes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from guards.canonical import Json
from guards.check import CheckOutcome
from guards.decision import Decision
from guards.delivery.verdict import DeliveryVerdict
from guards.finding import Verdict
from guards.plan import SHORT_DIGITS
from guards.receipt import Receipt
from guards.refusal import Refused
from guards.spool.verdict import SpoolVerdict
from resources.errors import OpsGuardError

if TYPE_CHECKING:
    from resources.state import StoredPlan

VERDICTS: Final[Mapping[str, Callable[[str], Verdict]]] = {"spool": SpoolVerdict, "delivery": DeliveryVerdict}
"""By guard: the verdict of that value, which answers for itself."""


def short(digest: str) -> str:
    return digest[:SHORT_DIGITS]


def utc(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def subject_of(target: Mapping[str, Any]) -> str:
    return str(target.get("subject") or target.get("name") or target.get("slot") or "")


def sha256_of(target: Mapping[str, Any]) -> str:
    """Of the bytes that it would write."""
    return str(target.get("sha256") or target.get("body_sha256") or "")


def size_of(target: Mapping[str, Any]) -> int:
    """Bytes that a target would write: an archiving one writes none."""
    return int(target.get("size_bytes") or 0) if target.get("action") == "send" else 0


def actions(guard: str, findings: Iterable[Mapping[str, Any]], targets: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Subject to one word: what the plan does, else who has to."""
    planned = {subject_of(target): str(target.get("action", "")) for target in targets}
    return {
        finding["subject"]: planned.get(finding["subject"]) or _without_target(guard, finding["verdict"]) for finding in findings
    }


def is_gap(guard: str, verdict: str) -> bool:
    return VERDICTS[guard](verdict).is_gap


def _without_target(guard: str, verdict: str) -> str:
    known = VERDICTS[guard](verdict)
    if known.needs_person:
        return "a person"
    return "next run" if known.is_gap else "-"


def count_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) or "no entries"


def refusal_json(refused: Refused | None) -> dict[str, Json] | None:
    return None if refused is None else {"code": refused.code.value, "message": refused.message}


def error_code(error: OpsGuardError) -> str:
    """For scripts: what an exit code means, in one word."""
    return {2: "configuration", 4: "unproven", 5: "unreachable"}.get(error.exit_code, "failed")


def next_step(plan: "StoredPlan", decision: Decision | None) -> str:
    """What a person can do with this plan now, "" when nothing; `decision` is the governing one."""
    digest = short(plan.digest)
    match str(plan.state):
        case "waiting" | "expired" if plan.targets:
            return f"next: opsguard approve {digest} --by YOU   (then: opsguard apply {digest})"
        case "approved":
            return f"next: opsguard apply {digest}"
        case "declined" if decision is not None:
            return (
                f"declined by {decision.decided_by} until {utc(decision.valid_until)}: it cannot be approved before then; "
                f"after that, opsguard approve {digest}"
            )
        case _:
            return ""


def check_json(check: CheckOutcome) -> dict[str, Json]:
    return {"name": check.name, "passed": check.passed, "severity": check.severity.value, "message": check.message}


def check_rows(checks: Sequence[CheckOutcome]) -> list[tuple[str, str, str]]:
    return [("ok" if check.passed else check.severity.value.upper(), check.name, check.message) for check in checks]


def in_order(receipts: Iterable[Receipt]) -> list[Receipt]:
    """As they were written, oldest first."""
    return sorted(receipts, key=lambda receipt: receipt.recorded_at or datetime.max.replace(tzinfo=UTC))


def receipt_json(receipt: Receipt) -> dict[str, Json]:
    return {
        "guard": receipt.guard,
        "watch": receipt.watch,
        "subject": receipt.subject,
        "action": receipt.action,
        "size_bytes": receipt.size_bytes,
        "sha256": receipt.sha256,
        "plan_digest": receipt.plan_digest,
        "approval_id": receipt.approval_id,
        "approved_by": receipt.approved_by,
        "run_id": receipt.run_id,
        "evidence": dict(receipt.evidence),
        "recorded_at": receipt.recorded_at.isoformat() if receipt.recorded_at else None,
    }


def decision_json(decision: Decision) -> dict[str, Json]:
    return {
        "decision_id": decision.decision_id,
        "plan_digest": decision.plan_digest,
        "kind": decision.kind.value,
        "by": decision.decided_by,
        "comment": decision.comment,
        "decided_at": decision.decided_at.isoformat(),
        "valid_until": decision.valid_until.isoformat(),
        "channel": decision.channel,
        "used_by": decision.used_by,
        "used_at": decision.used_at.isoformat() if decision.used_at else None,
    }


def plan_json(plan: "StoredPlan") -> dict[str, Any]:
    """The head of a plan, for lists."""
    return {
        "digest": plan.digest,
        "guard": plan.guard,
        "watch": plan.watch,
        "state": str(plan.state),
        "gaps": plan.gaps,
        "targets": list(plan.targets),
        "counts": dict(plan.counts),
        "observation": plan.observation,
        "first_reported_at": plan.first_reported_at.isoformat(),
        "last_reported_at": plan.last_reported_at.isoformat(),
        "run_id": plan.run_id,
    }

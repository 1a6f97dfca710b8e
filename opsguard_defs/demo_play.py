"""What the demos of all guards share: reports, decisions and runs on one watch, each checked as it is made, and the steps told."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final

from guards.decision import DecisionKind
from guards.refusal import RefusalCode, Refused
from resources.errors import OpsGuardError
from resources.progress import silent

if TYPE_CHECKING:
    from opsguard_defs.runs import ApplyResult, ReportResult
    from opsguard_defs.settings import Settings, Watch
    from resources.state import StoredPlan

APPROVER: Final = "the demo"


class NotAsDescribed(OpsGuardError):
    """The demo saw something else than it promises."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened: its letter, the command that does it, what was seen, and rows worth showing."""

    letter: str
    title: str
    command: str
    seen: str
    rows: tuple[tuple[str, str, str], ...] = ()
    """(entry, verdict, why), for a report."""


class Play:
    """One watch of the sandbox. `tell` is called with each step as soon as it has been checked. Raises `NotAsDescribed`."""

    def __init__(self, settings: "Settings", watch: "Watch", *, tell: Callable[[Step], None]) -> None:
        self.settings, self._played, self._tell = settings, watch, tell
        self.steps: list[Step] = []

    def report(self) -> "ReportResult":
        from opsguard_defs import runs

        report = runs.report(self.settings, self._played, overrides={}, progress=silent)
        must(not report.stored.observation, f"could not observe completely: {report.stored.observation}")
        return report

    def approved(self, plan: "StoredPlan", letter: str) -> None:
        from resources.state import StateStore, state_url

        with StateStore.open(state_url(self.settings.home)) as store:
            decision = store.decide(
                plan.digest,
                kind=DecisionKind.APPROVED,
                by=APPROVER,
                comment="seen in the demo",
                valid_for=timedelta(hours=1),
                channel="cli",
            )
        if isinstance(decision, Refused):
            raise NotAsDescribed(f"the approval was refused: {decision.message}")
        seen = f"approved by {decision.decided_by} until {decision.valid_until:%H:%M} UTC, for exactly this plan, once"
        self.done(letter, "a person approves the plan", f'{typed("approve", plan)} --by "{APPROVER}"', seen)

    def apply(self, plan: "StoredPlan") -> "ApplyResult":
        from opsguard_defs import runs

        return runs.apply(self.settings, plan.digest, progress=silent)

    def done(self, letter: str, title: str, command: str, seen: str, rows: Iterable[tuple[str, str, str]] = ()) -> None:
        step = Step(letter, title, command, seen, tuple(rows))
        self.steps.append(step)
        self._tell(step)


def compare(report: "ReportResult", expected: Mapping[str, str]) -> None:
    """`expected`: verdict by subject."""
    found = {str(finding["subject"]): str(finding["verdict"]) for finding in report.findings}
    wrong = {subject: (verdict, found.get(subject)) for subject, verdict in expected.items() if found.get(subject) != verdict}
    must(not wrong, f"verdicts differ (expected, found): {wrong}")
    must(all(finding["note"] for finding in report.findings), "a finding does not say why")


def rows(report: "ReportResult") -> tuple[tuple[str, str, str], ...]:
    return tuple((str(f["subject"]), str(f["verdict"]), str(f["note"])) for f in report.findings)


def typed(command: str, plan: "StoredPlan") -> str:
    return f"opsguard {command} {plan.digest[:12]}"


def refused(result: "ApplyResult", code: RefusalCode) -> None:
    as_expected = str(result.outcome) == "refused" and result.refusal is not None and result.refusal.code is code
    must(as_expected and not result.receipts, f"expected a refusal {code}, got {result.outcome}: {words(result)}")


def words(result: "ApplyResult") -> str:
    return (
        f"{result.refusal.code}"
        if result.refusal
        else result.failure or ", ".join(c.message for c in result.checks if not c.passed)
    )


def must(condition: bool, otherwise: str) -> None:
    if not condition:
        raise NotAsDescribed(f"the demo is not as described: {otherwise[:1000]}")

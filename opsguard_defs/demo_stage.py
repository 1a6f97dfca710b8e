"""What both acts of the demo of messages share: reports, decisions, runs and commands, each checked as it is made.

The oracle is the providers' own records: the files that were handed off, and what the webhooks took.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from guards.decision import DecisionKind
from guards.delivery.message import key_for
from guards.delivery.slot import Slot
from guards.delivery.verdict import DeliveryVerdict
from guards.refusal import RefusalCode, Refused
from opsguard_defs.demo import APPROVER, NotAsDescribed, Step, must
from opsguard_defs.demo_records import Records
from opsguard_defs.processes import module_command, module_environment
from opsguard_defs.sandbox.customers import Owing
from opsguard_defs.sandbox.places import customer_places
from opsguard_defs.sandbox.roster import CUSTOMERS
from resources.progress import silent

if TYPE_CHECKING:
    from opsguard_defs.runs import ApplyResult, ReportResult
    from opsguard_defs.sandbox import Sandbox
    from opsguard_defs.settings import DeliveryWatch, Settings
    from resources.state import StoredPlan

WATCH: Final = f"delivery/{CUSTOMERS}"
CHILD_SECONDS: Final = 120.0
"""An apply run of its own starts Dagster first: 5 to 10 s on idle cores."""
KILLED_LEASE_SECONDS: Final = 30
"""Of the run that is killed: longer than the 20 s that a webhook is waited for, and short, since nobody gives a dead run's lease back."""


@dataclass(frozen=True, slots=True)
class Message:
    """One slot at the end. `taken` is how often a provider's own records hold it."""

    slot: str
    route: str
    was: str
    became: str
    taken: int


class Stage:
    """`tell` is called with each step as soon as it has been checked. Raises `NotAsDescribed`."""

    def __init__(self, sandbox: "Sandbox", settings: "Settings", *, tell: Callable[[Step], None]) -> None:
        self.sandbox, self.settings, self._tell = sandbox, settings, tell
        self.watch = cast("DeliveryWatch", settings.watch("delivery", CUSTOMERS))
        self.places = customer_places(sandbox.layout)
        self.steps: list[Step] = []

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

    def resolve(self, slot: Slot, evidence: str) -> str:
        (said,) = self.command("ledger", "resolve", slot.key, "--sent", "--by", APPROVER, "--comment", evidence, "--yes")
        must(said["refusal"] is None and said["resolved"]["state"] == "resolved_sent", f"it was not resolved: {said}")
        return f'opsguard ledger resolve {slot.key} --sent --by "{APPROVER}" --comment "..." --yes'

    def command(self, *arguments: str) -> list[Any]:
        """The command itself, as a person types it, with --json: what it printed, one object per line."""
        whole = [*arguments, *([] if arguments[1] == "resolve" else ["--store", "file"]), "--json"]
        done = subprocess.run(
            module_command("opsguard_defs", *whole),
            env=module_environment(dict(os.environ)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CHILD_SECONDS,
            check=False,
        )
        must(done.returncode == 0, f"`opsguard {' '.join(arguments)}` ended with {done.returncode}: {done.stderr[-500:]}")
        return [json.loads(text) for text in done.stdout.splitlines()]

    def report(self) -> "ReportResult":
        from opsguard_defs import runs

        report = runs.report(self.settings, self.watch, overrides={}, progress=silent)
        must(not report.stored.observation, f"could not observe completely: {report.stored.observation}")
        return report

    def apply(self, plan: "StoredPlan") -> "ApplyResult":
        from opsguard_defs import runs

        return runs.apply(self.settings, plan.digest, progress=silent)

    def apply_when_free(self, plan: "StoredPlan") -> "ApplyResult":
        """The run that a demo before this one killed keeps its place until its lease ends."""
        deadline = time.monotonic() + 2 * KILLED_LEASE_SECONDS
        while True:
            result = self.apply(plan)
            busy = result.refusal is not None and result.refusal.code is RefusalCode.BUSY
            if not busy or time.monotonic() > deadline:
                return result
            time.sleep(1)

    def compare(self, report: "ReportResult", expected: Mapping[Slot, DeliveryVerdict]) -> None:
        found = {str(finding["subject"]): str(finding["verdict"]) for finding in report.findings}
        wrong = {slot.key: (verdict.value, found.get(slot.key)) for slot, verdict in expected.items()}
        wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
        must(not wrong, f"verdicts differ (expected, found): {wrong}")
        must(all(finding["note"] for finding in report.findings), "a finding does not say why")

    def taken_since(self, before: Records) -> Mapping[str, Any]:
        try:
            return Records.of(self.places).since(before)
        except ValueError as problem:
            raise NotAsDescribed(f"the demo is not as described: {problem}") from None

    def nothing_taken(self, before: Records, otherwise: str) -> None:
        must(not self.taken_since(before), otherwise)

    def messages(self, owing: Owing) -> Iterable[Message]:
        from opsguard_defs.cli.ledger_store import Place, opened

        records = Records.of(self.places)
        with opened(self.settings, Place(self.watch.route().ledger_dir)) as ledger:
            for slot, verdict in owing.expected.items():
                attempts = ledger.of(slot)
                became = attempts[-1].state.value if attempts else "not sent"
                yield Message(slot.key, owing.route[slot], verdict.value, became, records.times(provider_key(slot)))

    def done(self, letter: str, title: str, command: str, seen: str, rows: Iterable[tuple[str, str, str]] = ()) -> None:
        step = Step(letter, title, command, seen, tuple(rows))
        self.steps.append(step)
        self._tell(step)


def provider_key(slot: Slot) -> str:
    """Of the first attempt at it, in the sandbox's watch."""
    return key_for(CUSTOMERS, slot.reservation_id(1))


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

"""A morning of messages, from what is owed to the proof; then the same with the sending process killed in the middle of its call.

Every step is checked against the providers' own records: the files that were handed off, and what the webhooks took.
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
from guards.delivery.slot import Slot
from guards.delivery.verdict import DeliveryVerdict
from guards.refusal import RefusalCode, Refused
from opsguard_defs.demo import APPROVER, NotAsDescribed, Step, must
from opsguard_defs.demo_records import Records
from opsguard_defs.processes import module_command, module_environment
from opsguard_defs.sandbox.customers import Owing, owe_messages
from opsguard_defs.sandbox.places import customer_places
from opsguard_defs.sandbox.roster import CUSTOMERS
from resources.progress import silent

if TYPE_CHECKING:
    from opsguard_defs.runs import ApplyResult, ReportResult
    from opsguard_defs.sandbox import Sandbox
    from opsguard_defs.settings import DeliveryWatch, Settings
    from resources.state import StoredPlan

WATCH: Final = f"delivery/{CUSTOMERS}"
_CHILD_SECONDS: Final = 120.0
"""An apply run of its own starts Dagster first: 5 to 10 s on idle cores."""
_POLL_SECONDS: Final = 0.05
_KILLED_LEASE_SECONDS: Final = 30
"""Of the run that is killed: longer than the 20 s that a webhook is waited for, and short, since nobody gives a dead run's lease back."""


@dataclass(frozen=True, slots=True)
class Message:
    """One slot at the end. `taken` is how often a provider's own records hold it."""

    slot: str
    route: str
    was: str
    became: str
    taken: int


@dataclass(frozen=True, slots=True)
class PlayedMessages:
    watch: str
    steps: tuple[Step, ...]
    messages: tuple[Message, ...]
    plan_digest: str
    run_id: str


class DeliveryDemo:
    """`tell` is called with each step as soon as it has been checked. Raises `NotAsDescribed`."""

    def __init__(self, sandbox: "Sandbox", settings: "Settings", *, tell: Callable[[Step], None]) -> None:
        self._sandbox, self._settings, self._tell = sandbox, settings, tell
        self._watch = cast("DeliveryWatch", settings.watch("delivery", CUSTOMERS))
        self._places = customer_places(sandbox.layout)
        self._steps: list[Step] = []
        self._began = Records.of(self._places)

    def play(self) -> PlayedMessages:
        anchor = self._anchored()
        owing = self._owed()
        plan = self._found(owing).stored
        self._unapproved_is_refused(plan)
        self._approved(plan, "d")
        applied = self._sent(plan, owing)
        self._reported(owing)
        self._used_is_refused(plan)
        self._resolved(owing)
        self._nothing_left_to_send()
        self._proven(anchor)
        killed = self._killed_in_the_middle()
        messages = (*self._messages(owing), *self._messages(killed))
        return PlayedMessages(CUSTOMERS, tuple(self._steps), messages, plan.digest, applied.run_id)

    # A morning

    def _anchored(self) -> str:
        """Kept outside the ledger, so that a ledger cut back meanwhile would be noticed."""
        return json.dumps(self._command("ledger", "anchor")[0])

    def _owed(self) -> Owing:
        owing = owe_messages(self._sandbox)
        kinds = sorted({slot.kind for slot in owing.due})
        must(kinds == ["cutoff", "daily", "monthly", "reminder", "weekly"], f"the kinds that are due are {kinds}")
        customers = len({slot.customer for slot in owing.expected})
        seen = (
            f"{customers} customers in Seoul and Berlin; {len(owing.due)} messages are due now, one of each kind and more. One "
            "customer's provider will say no, one's will take the message and hang up, and one customer has checked in already"
        )
        self._done("a", "a morning of messages", f"opsguard sandbox incident {CUSTOMERS}", seen)
        return owing

    def _found(self, owing: Owing) -> "ReportResult":
        report = self._report()
        self._compare(report, owing.expected)
        targets = {str(target["slot"]) for target in report.stored.targets}
        must(targets == {slot.key for slot in owing.due}, f"the plan would send {sorted(targets)}")
        self._nothing_taken(self._began, "a report sent something")
        seen = f"{len(targets)} messages are due; plan {report.stored.digest[:12]} would send those and nothing else"
        self._done("b", "the report says what is owed", f"opsguard report {WATCH} --all", seen, _rows(report))
        return report

    def _unapproved_is_refused(self, plan: "StoredPlan") -> None:
        result = self._apply(plan)
        _refused(result, RefusalCode.NOT_APPROVED)
        self._nothing_taken(self._began, "a refused apply sent something")
        self._done("c", "not approved, so refused", _typed("apply", plan), f"{_words(result)}; no provider was called")

    def _approved(self, plan: "StoredPlan", letter: str) -> None:
        from resources.state import StateStore, state_url

        with StateStore.open(state_url(self._settings.home)) as store:
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
        self._done(letter, "a person approves the plan", f'{_typed("approve", plan)} --by "{APPROVER}"', seen)

    def _sent(self, plan: "StoredPlan", owing: Owing) -> "ApplyResult":
        result = self._apply_when_free(plan)
        must(str(result.outcome) != "refused", f"apply was refused: {_words(result)}")
        taken = self._taken_since(self._began)
        expected = {_reservation(slot): owing.bodies[slot] for slot in (*owing.by("file"), *owing.by("dies"))}
        must({key: one.body for key, one in taken.items()} == expected, "the providers took other messages than those planned")
        sent, died, said_no = (len(owing.by(route)) for route in ("file", "dies", "rejects"))
        must(len(result.receipts) == sent, f"{len(result.receipts)} receipts for {sent} messages that were answered")
        seen = (
            f"{sent} messages handed off, byte for byte; {said_no} provider said no before it took anything; {died} took the message "
            "and hung up: whether it went out, only a person can find out"
        )
        self._done("e", "each is sent once", _typed("apply", plan), seen)
        return result

    def _reported(self, owing: Owing) -> None:
        """Doubt stays doubt, and says what would end it."""
        report = self._report()
        became = {
            **dict.fromkeys(owing.by("file"), DeliveryVerdict.SENT),
            **dict.fromkeys(owing.by("dies"), DeliveryVerdict.IN_DOUBT),
            **dict.fromkeys(owing.by("rejects"), DeliveryVerdict.FAILED),
        }
        self._compare(report, {**owing.expected, **became})
        must(not report.stored.targets, "a report after sending plans something")
        (doubtful,) = owing.by("dies")
        note = next(str(finding["note"]) for finding in report.findings if finding["subject"] == doubtful.key)
        must("opsguard ledger resolve" in note, f"the doubt does not ask for evidence: {note}")
        seen = "sent is sent, no is no, and the doubt stays: it asks for evidence, and no plan contains it"
        self._done("f", "a new report", f"opsguard report {WATCH} --all", seen, _rows(report))

    def _used_is_refused(self, plan: "StoredPlan") -> None:
        before = Records.of(self._places)
        result = self._apply(plan)
        _refused(result, RefusalCode.ALREADY_USED)
        self._nothing_taken(before, "a refused apply sent something")
        self._done("g", "the same plan again", _typed("apply", plan), f"{_words(result)}; nothing is sent twice")

    def _resolved(self, owing: Owing) -> None:
        """The person looks where only a person can look: into the customer's own system."""
        (doubtful,) = owing.by("dies")
        times = Records.of(self._places).times(_reservation(doubtful))
        must(times == 1, f"the provider took it {times} times")
        command = self._resolve(doubtful, f"looked in their system: it holds {_reservation(doubtful)}")
        self._done("h", "a person looks and says so", command, "their system holds it, once: resolved as sent, never sent again")

    def _nothing_left_to_send(self) -> None:
        before = Records.of(self._places)
        report = self._report()
        must(not report.stored.targets, f"a second run would send {len(report.stored.targets)} messages")
        must(DeliveryVerdict.IN_DOUBT.value not in report.counts, "a doubt is left")
        refused = self._apply(report.stored)
        must(str(refused.outcome) != "applied" or not refused.receipts, "a second run sent something")
        self._nothing_taken(before, "a second run sent something")
        self._done("i", "a second run", f"opsguard report {WATCH}", "nothing is due, nothing is in doubt, nothing is sent")

    def _proven(self, anchor: str) -> None:
        (found,) = self._command("ledger", "verify", "--against", anchor)
        must(not found["faults"] and found["extends_anchor"] is True, f"the chain does not hold: {found}")
        seen = f"{found['rows']} rows, each with the digest of the one before; it extends the anchor kept before (a)"
        self._done("j", "the ledger proves its chain", "opsguard ledger verify --against ANCHOR", seen)

    # The same, and the process is killed between the grant and the answer

    def _killed_in_the_middle(self) -> Owing:
        owing = owe_messages(self._sandbox, slow=True)
        (slot,) = owing.due
        report = self._report()
        must([str(target["slot"]) for target in report.stored.targets] == [slot.key], "the slow message is not the plan")
        seen = f"one more customer, whose provider takes a message and answers half a minute later: plan {report.stored.short}"
        self._done("k", "another morning", f"opsguard report {WATCH}", seen)
        self._approved(report.stored, "l")
        before = Records.of(self._places)
        pid = self._kill_while_sending(report.stored, slot)
        must(list(self._taken_since(before)) == [_reservation(slot)], "the provider did not take exactly this message")
        (status,) = self._command("ledger", "status")
        must(status["stale_sending"] == [slot.key], f"the ledger does not know that its holder is gone: {status}")
        seen = (
            f"the provider had taken it, process {pid} died before the answer; the ledger says: sending, and its holder is gone"
        )
        self._done("m", "kill -9 in the middle of the call", f"{_typed('apply', report.stored)} & kill -9 $!", seen)
        self._expired(slot)
        self._never_again(report.stored, slot, before)
        self._ended(slot)
        return owing

    def _kill_while_sending(self, plan: "StoredPlan", slot: Slot) -> int:
        child = subprocess.Popen(
            module_command("opsguard_defs", "apply", plan.digest),
            env=module_environment({**os.environ, "OPSGUARD_LEASE_SECONDS": str(_KILLED_LEASE_SECONDS)}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + _CHILD_SECONDS
            while not Records.of(self._places).times(_reservation(slot)):
                must(
                    child.poll() is None and time.monotonic() < deadline, "the apply run ended before the provider took anything"
                )
                time.sleep(_POLL_SECONDS)
        finally:
            child.kill()
            child.wait()
        must(child.returncode == -9, f"the apply run ended by itself with {child.returncode}")
        return child.pid

    def _expired(self, slot: Slot) -> None:
        """What the sensor does every minute in the background, once."""
        from opsguard_defs.cli.ledger_store import Place, opened
        from resources.delivery.recover import recover
        from resources.providers.chosen import open_providers
        from resources.state import StateStore, state_url

        route = self._watch.route()
        with StateStore.open(state_url(self._settings.home)) as state, opened(self._settings, Place(route.ledger_dir)) as ledger:
            recover(route, state, ledger, open_providers(route.providers))
            (attempt,) = ledger.of(slot)
        must(attempt.state.value == "unknown", f"the attempt is {attempt.state}, not unknown")
        seen = "the attempt whose holder is gone became doubt; its provider was asked and could not tell; nothing was sent"
        self._done(
            "n", "the attempt is ended", f"opsguard dev  # its sensor delivery_{CUSTOMERS}_expire does this every minute", seen
        )

    def _never_again(self, plan: "StoredPlan", slot: Slot, before: Records) -> None:
        report = self._report()
        found = {str(finding["subject"]): str(finding["verdict"]) for finding in report.findings}
        must(found.get(slot.key) == DeliveryVerdict.IN_DOUBT.value, f"{slot.key} is {found.get(slot.key)}, not in doubt")
        must(not report.stored.targets, "a message in doubt is planned again")
        _refused(self._apply(plan), RefusalCode.ALREADY_USED)
        times = Records.of(self._places).times(_reservation(slot))
        must(times == 1 and list(self._taken_since(before)) == [_reservation(slot)], f"the provider took it {times} times")
        self._done("o", "never sent twice", _typed("apply", plan), "in doubt, in no plan, refused; the provider holds it once")

    def _ended(self, slot: Slot) -> None:
        command = self._resolve(slot, f"looked in their system: it holds {_reservation(slot)}")
        (found,) = self._command("ledger", "verify")
        must(not found["faults"], f"the chain does not hold: {found}")
        must(not found["counts"].get("unknown") and not found["counts"].get("sending"), "something is left in doubt")
        self._done(
            "p", "and the doubt is ended", command, f"resolved as sent; {found['rows']} rows verified, nothing is in doubt"
        )

    # How it is done and checked

    def _resolve(self, slot: Slot, evidence: str) -> str:
        (said,) = self._command("ledger", "resolve", slot.key, "--sent", "--by", APPROVER, "--comment", evidence, "--yes")
        must(said["refusal"] is None and said["resolved"]["state"] == "resolved_sent", f"it was not resolved: {said}")
        return f'opsguard ledger resolve {slot.key} --sent --by "{APPROVER}" --comment "..." --yes'

    def _command(self, *arguments: str) -> list[Any]:
        """The command itself, as a person types it, with --json: what it printed, one object per line."""
        typed = [*arguments, *([] if arguments[1] == "resolve" else ["--store", "file"]), "--json"]
        done = subprocess.run(
            module_command("opsguard_defs", *typed),
            env=module_environment(dict(os.environ)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_CHILD_SECONDS,
            check=False,
        )
        must(done.returncode == 0, f"`opsguard {' '.join(arguments)}` ended with {done.returncode}: {done.stderr[-500:]}")
        return [json.loads(text) for text in done.stdout.splitlines()]

    def _report(self) -> "ReportResult":
        from opsguard_defs import runs

        report = runs.report(self._settings, self._watch, overrides={}, progress=silent)
        must(not report.stored.observation, f"could not observe completely: {report.stored.observation}")
        return report

    def _apply(self, plan: "StoredPlan") -> "ApplyResult":
        from opsguard_defs import runs

        return runs.apply(self._settings, plan.digest, progress=silent)

    def _apply_when_free(self, plan: "StoredPlan") -> "ApplyResult":
        """The run that a demo before this one killed keeps its place until its lease ends."""
        deadline = time.monotonic() + 2 * _KILLED_LEASE_SECONDS
        while True:
            result = self._apply(plan)
            busy = result.refusal is not None and result.refusal.code is RefusalCode.BUSY
            if not busy or time.monotonic() > deadline:
                return result
            time.sleep(1)

    def _compare(self, report: "ReportResult", expected: Mapping[Slot, DeliveryVerdict]) -> None:
        found = {str(finding["subject"]): str(finding["verdict"]) for finding in report.findings}
        wrong = {slot.key: (verdict.value, found.get(slot.key)) for slot, verdict in expected.items()}
        wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
        must(not wrong, f"verdicts differ (expected, found): {wrong}")
        must(all(finding["note"] for finding in report.findings), "a finding does not say why")

    def _taken_since(self, before: Records) -> Mapping[str, Any]:
        try:
            return Records.of(self._places).since(before)
        except ValueError as problem:
            raise NotAsDescribed(f"the demo is not as described: {problem}") from None

    def _nothing_taken(self, before: Records, otherwise: str) -> None:
        must(not self._taken_since(before), otherwise)

    def _messages(self, owing: Owing) -> Iterable[Message]:
        from opsguard_defs.cli.ledger_store import Place, opened

        records = Records.of(self._places)
        with opened(self._settings, Place(self._watch.route().ledger_dir)) as ledger:
            for slot, verdict in owing.expected.items():
                attempts = ledger.of(slot)
                became = attempts[-1].state.value if attempts else "not sent"
                yield Message(slot.key, owing.route[slot], verdict.value, became, records.times(_reservation(slot)))

    def _done(self, letter: str, title: str, command: str, seen: str, rows: Iterable[tuple[str, str, str]] = ()) -> None:
        step = Step(letter, title, command, seen, tuple(rows))
        self._steps.append(step)
        self._tell(step)


def _reservation(slot: Slot) -> str:
    return slot.reservation_id(1)


def _rows(report: "ReportResult") -> tuple[tuple[str, str, str], ...]:
    return tuple((str(f["subject"]), str(f["verdict"]), str(f["note"])) for f in report.findings)


def _typed(command: str, plan: "StoredPlan") -> str:
    return f"opsguard {command} {plan.digest[:12]}"


def _refused(result: "ApplyResult", code: RefusalCode) -> None:
    refused = str(result.outcome) == "refused" and result.refusal is not None and result.refusal.code is code
    must(refused and not result.receipts, f"expected a refusal {code}, got {result.outcome}: {_words(result)}")


def _words(result: "ApplyResult") -> str:
    return (
        f"{result.refusal.code}"
        if result.refusal
        else result.failure or ", ".join(c.message for c in result.checks if not c.passed)
    )

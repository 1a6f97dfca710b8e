"""A morning of messages, from what is owed to the proof; then the same with the sending process killed in the middle of its call."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from guards.delivery.verdict import DeliveryVerdict
from guards.refusal import RefusalCode
from opsguard_defs.demo_killed import KilledDemo
from opsguard_defs.demo_play import Step, must, refused, rows, typed, words
from opsguard_defs.demo_records import Records
from opsguard_defs.demo_stage import WATCH, Message, Stage, provider_key
from opsguard_defs.sandbox.customers import Owing, owe_messages
from opsguard_defs.sandbox.roster import CUSTOMERS

if TYPE_CHECKING:
    from opsguard_defs.runs import ApplyResult, ReportResult
    from opsguard_defs.sandbox import Sandbox
    from opsguard_defs.settings import Settings
    from resources.state import StoredPlan


@dataclass(frozen=True, slots=True)
class PlayedMessages:
    watch: str
    steps: tuple[Step, ...]
    messages: tuple[Message, ...]
    plan_digest: str
    run_id: str


class DeliveryDemo:
    """Plays (a) to (p). `tell` is called with each step as soon as it has been checked. Raises `NotAsDescribed`."""

    def __init__(self, sandbox: "Sandbox", settings: "Settings", *, tell: Callable[[Step], None]) -> None:
        self._stage = Stage(sandbox, settings, tell=tell)
        self._began = Records.of(self._stage.places)

    def play(self) -> PlayedMessages:
        owing = self._owed()
        plan = self._found(owing).stored
        anchor = self._anchored()
        self._unapproved_is_refused(plan)
        self._stage.approved(plan, "d")
        applied = self._sent(plan, owing)
        self._reported(owing)
        self._used_is_refused(plan)
        self._resolved(owing)
        self._nothing_left_to_send()
        self._proven(anchor)
        killed = KilledDemo(self._stage).play()
        messages = (*self._stage.messages(owing), *self._stage.messages(killed))
        return PlayedMessages(CUSTOMERS, tuple(self._stage.steps), messages, plan.digest, applied.run_id)

    def _anchored(self) -> str:
        """Kept outside the ledger, which the report made, so that a ledger cut back meanwhile would be noticed."""
        return json.dumps(self._stage.command("ledger", "anchor")[0])

    def _owed(self) -> Owing:
        owing = owe_messages(self._stage.sandbox)
        kinds = sorted({slot.kind for slot in owing.due})
        must(kinds == ["cutoff", "daily", "monthly", "reminder", "weekly"], f"the kinds that are due are {kinds}")
        customers = len({slot.customer for slot in owing.expected})
        seen = (
            f"{customers} customers in Seoul and Berlin; {len(owing.due)} messages are due now, one of each kind and more. One "
            "customer's provider will say no, one's will take the message and hang up, and one customer has checked in already"
        )
        self._stage.done("a", "a morning of messages", f"opsguard sandbox incident {CUSTOMERS}", seen)
        return owing

    def _found(self, owing: Owing) -> "ReportResult":
        report = self._stage.report()
        self._stage.compare(report, owing.expected)
        targets = {str(target["slot"]) for target in report.stored.targets}
        must(targets == {slot.key for slot in owing.due}, f"the plan would send {sorted(targets)}")
        self._stage.nothing_taken(self._began, "a report sent something")
        seen = f"{len(targets)} messages are due; plan {report.stored.digest[:12]} would send those and nothing else"
        self._stage.done("b", "the report says what is owed", f"opsguard report {WATCH} --all", seen, rows(report))
        return report

    def _unapproved_is_refused(self, plan: "StoredPlan") -> None:
        result = self._stage.apply(plan)
        refused(result, RefusalCode.NOT_APPROVED)
        self._stage.nothing_taken(self._began, "a refused apply sent something")
        self._stage.done("c", "not approved, so refused", typed("apply", plan), f"{words(result)}; no provider was called")

    def _sent(self, plan: "StoredPlan", owing: Owing) -> "ApplyResult":
        result = self._stage.apply_when_free(plan)
        must(str(result.outcome) != "refused", f"apply was refused: {words(result)}")
        taken = self._stage.taken_since(self._began)
        expected = {provider_key(slot): owing.bodies[slot] for slot in (*owing.by("file"), *owing.by("dies"))}
        must({key: one.body for key, one in taken.items()} == expected, "the providers took other messages than those planned")
        sent, died, said_no = (len(owing.by(route)) for route in ("file", "dies", "rejects"))
        must(len(result.receipts) == sent, f"{len(result.receipts)} receipts for {sent} messages that were answered")
        seen = (
            f"{sent} messages handed off, byte for byte; {said_no} provider said no before it took anything; {died} took the message "
            "and hung up: whether it went out, only a person can find out"
        )
        self._stage.done("e", "each is sent once", typed("apply", plan), seen)
        return result

    def _reported(self, owing: Owing) -> None:
        """Doubt stays doubt, and says what would end it."""
        report = self._stage.report()
        became = {
            **dict.fromkeys(owing.by("file"), DeliveryVerdict.SENT),
            **dict.fromkeys(owing.by("dies"), DeliveryVerdict.IN_DOUBT),
            **dict.fromkeys(owing.by("rejects"), DeliveryVerdict.FAILED),
        }
        self._stage.compare(report, {**owing.expected, **became})
        must(not report.stored.targets, "a report after sending plans something")
        (doubtful,) = owing.by("dies")
        note = next(str(finding["note"]) for finding in report.findings if finding["subject"] == doubtful.key)
        must("opsguard ledger resolve" in note, f"the doubt does not ask for evidence: {note}")
        seen = "sent is sent, no is no, and the doubt stays: it asks for evidence, and no plan contains it"
        self._stage.done("f", "a new report", f"opsguard report {WATCH} --all", seen, rows(report))

    def _used_is_refused(self, plan: "StoredPlan") -> None:
        before = Records.of(self._stage.places)
        result = self._stage.apply(plan)
        refused(result, RefusalCode.ALREADY_USED)
        self._stage.nothing_taken(before, "a refused apply sent something")
        self._stage.done("g", "the same plan again", typed("apply", plan), f"{words(result)}; nothing is sent twice")

    def _resolved(self, owing: Owing) -> None:
        """The person looks where only a person can look: into the customer's own system."""
        (doubtful,) = owing.by("dies")
        times = Records.of(self._stage.places).times(provider_key(doubtful))
        must(times == 1, f"the provider took it {times} times")
        command = self._stage.resolve(doubtful, f"looked in their system: it holds {provider_key(doubtful)}")
        self._stage.done(
            "h", "a person looks and says so", command, "their system holds it, once: resolved as sent, never sent again"
        )

    def _nothing_left_to_send(self) -> None:
        before = Records.of(self._stage.places)
        report = self._stage.report()
        must(not report.stored.targets, f"a second run would send {len(report.stored.targets)} messages")
        must(DeliveryVerdict.IN_DOUBT.value not in report.counts, "a doubt is left")
        again = self._stage.apply(report.stored)
        must(str(again.outcome) != "applied" or not again.receipts, "a second run sent something")
        self._stage.nothing_taken(before, "a second run sent something")
        self._stage.done("i", "a second run", f"opsguard report {WATCH}", "nothing is due, nothing is in doubt, nothing is sent")

    def _proven(self, anchor: str) -> None:
        (found,) = self._stage.command("ledger", "verify", "--against", anchor)
        must(not found["faults"] and found["extends_anchor"] is True, f"the chain does not hold: {found}")
        seen = f"{found['rows']} rows, each with the digest of the one before; it extends the anchor kept after (b)"
        self._stage.done("j", "the ledger proves its chain", "opsguard ledger verify --against ANCHOR", seen)

"""What both acts of the demo of messages share beside `Play`: commands as they are typed, and what providers took.

The oracle is the providers' own records: the files that were handed off, and what the webhooks took.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from guards.delivery.message import key_for
from guards.delivery.slot import Slot
from guards.delivery.verdict import DeliveryVerdict
from guards.refusal import RefusalCode
from opsguard_defs.demo_play import APPROVER, NotAsDescribed, Play, Step, compare, must
from opsguard_defs.demo_records import Records
from opsguard_defs.processes import module_command, module_environment
from opsguard_defs.sandbox.customers import Owing
from opsguard_defs.sandbox.places import customer_places
from opsguard_defs.sandbox.roster import CUSTOMERS

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


class Stage(Play):
    def __init__(self, sandbox: "Sandbox", settings: "Settings", *, tell: Callable[[Step], None]) -> None:
        self.watch = cast("DeliveryWatch", settings.watch("delivery", CUSTOMERS))
        super().__init__(settings, self.watch, tell=tell)
        self.sandbox = sandbox
        self.places = customer_places(sandbox.layout)

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
        compare(report, {slot.key: verdict.value for slot, verdict in expected.items()})

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


def provider_key(slot: Slot) -> str:
    """Of the first attempt at it, in the sandbox's watch."""
    return key_for(CUSTOMERS, slot.reservation_id(1))

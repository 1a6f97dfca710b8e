"""The second act: the process that sends is killed with SIGKILL between the grant and the answer, and nothing is sent twice."""

import os
import subprocess
import time
from typing import TYPE_CHECKING, Final

from guards.delivery.slot import Slot
from guards.delivery.verdict import DeliveryVerdict
from guards.refusal import RefusalCode
from opsguard_defs.demo_play import must, refused, typed
from opsguard_defs.demo_records import Records
from opsguard_defs.demo_stage import CHILD_SECONDS, KILLED_LEASE_SECONDS, WATCH, Stage, provider_key
from opsguard_defs.processes import module_command, module_environment
from opsguard_defs.sandbox.customers import Owing, owe_messages
from opsguard_defs.sandbox.roster import CUSTOMERS

if TYPE_CHECKING:
    from resources.state import StoredPlan

_POLL_SECONDS: Final = 0.05


class KilledDemo:
    """Plays (k) to (p)."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def play(self) -> Owing:
        owing = owe_messages(self._stage.sandbox, slow=True)
        (slot,) = owing.due
        report = self._stage.report()
        must([str(target["slot"]) for target in report.stored.targets] == [slot.key], "the slow message is not the plan")
        seen = f"one more customer, whose provider takes a message and answers half a minute later: plan {report.stored.short}"
        self._stage.done("k", "another morning", f"opsguard report {WATCH}", seen)
        self._stage.approved(report.stored, "l")
        before = Records.of(self._stage.places)
        pid = self._kill_while_sending(report.stored, slot)
        must(list(self._stage.taken_since(before)) == [provider_key(slot)], "the provider did not take exactly this message")
        (status,) = self._stage.command("ledger", "status")
        must(status["stale_sending"] == [slot.key], f"the ledger does not know that its holder is gone: {status}")
        seen = (
            f"the provider had taken it, process {pid} died before the answer; the ledger says: sending, and its holder is gone"
        )
        self._stage.done("m", "kill -9 in the middle of the call", f"{typed('apply', report.stored)} & kill -9 $!", seen)
        self._expired(slot)
        self._never_again(report.stored, slot, before)
        self._ended(slot)
        return owing

    def _kill_while_sending(self, plan: "StoredPlan", slot: Slot) -> int:
        child = subprocess.Popen(
            module_command("opsguard_defs", "apply", plan.digest),
            env=module_environment({**os.environ, "OPSGUARD_LEASE_SECONDS": str(KILLED_LEASE_SECONDS)}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + CHILD_SECONDS
            while not Records.of(self._stage.places).times(provider_key(slot)):
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

        route = self._stage.watch.route()
        with (
            StateStore.open(state_url(self._stage.settings.home)) as state,
            opened(self._stage.settings, Place(route.ledger_dir)) as ledger,
        ):
            recover(route, state, ledger, open_providers(route.providers))
            (attempt,) = ledger.of(slot)
        must(attempt.state.value == "unknown", f"the attempt is {attempt.state}, not unknown")
        seen = "the attempt whose holder is gone became doubt; its provider was asked and could not tell; nothing was sent"
        self._stage.done(
            "n", "the attempt is ended", f"opsguard dev  # its sensor delivery_{CUSTOMERS}_expire does this every minute", seen
        )

    def _never_again(self, plan: "StoredPlan", slot: Slot, before: Records) -> None:
        report = self._stage.report()
        found = {str(finding["subject"]): str(finding["verdict"]) for finding in report.findings}
        must(found.get(slot.key) == DeliveryVerdict.IN_DOUBT.value, f"{slot.key} is {found.get(slot.key)}, not in doubt")
        must(not report.stored.targets, "a message in doubt is planned again")
        refused(self._stage.apply(plan), RefusalCode.ALREADY_USED)
        times = Records.of(self._stage.places).times(provider_key(slot))
        must(times == 1 and list(self._stage.taken_since(before)) == [provider_key(slot)], f"the provider took it {times} times")
        self._stage.done(
            "o", "never sent twice", typed("apply", plan), "in doubt, in no plan, refused; the provider holds it once"
        )

    def _ended(self, slot: Slot) -> None:
        command = self._stage.resolve(slot, f"looked in their system: it holds {provider_key(slot)}")
        (found,) = self._stage.command("ledger", "verify")
        must(not found["faults"], f"the chain does not hold: {found}")
        must(not found["counts"].get("unknown") and not found["counts"].get("sending"), "something is left in doubt")
        self._stage.done(
            "p", "and the doubt is ended", command, f"resolved as sent; {found['rows']} rows verified, nothing is in doubt"
        )

"""Delivery watches on real files, a real database and real providers. Judged by what the other side recorded, never by our own word.

`Watch` reports, approves and applies through the product's own code without Dagster.
"""

import hashlib
import json
import os
import signal
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from sqlalchemy import text

from guards.decision import Decision, DecisionKind
from guards.delivery.entry import Reservation
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Provider
from guards.delivery.slot import Slot
from guards.gate import Flags
from guards.refusal import Refused
from resources.delivery.apply import DeliveryApply
from resources.delivery.audit import look_once_more
from resources.delivery.ledger import open_ledger
from resources.delivery.recover import Recovered, recover
from resources.delivery.report import Observed, look
from resources.delivery.route import CheckInFile, CheckInSource, DeliveryRoute
from resources.delivery.sent import Sent
from resources.delivery.steps import Moment, Step, Watcher, nobody
from resources.providers.chosen import open_providers
from resources.providers.interface import Provider as Opened
from resources.providers.settings import ProviderSettings
from resources.state import StateStore
from resources.state.plans import StoredPlan
from tests.patience import ended, forked, until

LEASE_SECONDS = 300
WRITE = Flags(dry_run=False, auto_remediate=True)
TEMPLATE = "missing-checkin-v1"
TEXT = "Dear {{display_name}}, nobody checked in on {{local_date}}.\n"
DAILY = 'daily: {at: "00:00"}'
WEEKLY = 'weekly: {weekday: mon, at: "00:00", catch_up: until_week_end}'
MONTHLY = 'monthly: {day: 1, at: "00:00", catch_up: until_month_end}'
CUTOFF = 'cutoff: {at: "00:00"}'
REMINDER = f'reminder: {{not_before: "00:00", not_after: "23:59", template: {TEMPLATE}}}'


def noon_zone(now: datetime) -> str:
    """A zone where it is about noon now, so that no test runs over a midnight. POSIX turns the sign round."""
    ahead = 12 - now.astimezone(UTC).hour
    return f"Etc/GMT{-ahead:+d}" if ahead else "Etc/UTC"


@dataclass(frozen=True)
class Watch:
    root: Path
    state: StateStore
    route: DeliveryRoute
    zone: str
    customers: dict[str, str] = field(default_factory=dict)
    """Key to the lines of its entry."""

    # The world outside

    def customer(self, key: str, *rules: str, route: str = "{provider: file, directory: acme}", more: str = "") -> None:
        lines = [f"  - key: {key}", f"    zone: {self.zone}", f"    route: {route}", *(f"    {rule}" for rule in rules)]
        self.customers[key] = "\n".join([*lines, *([f"    {more}"] if more else [])])
        self._write_registry()

    def _write_registry(self) -> None:
        text = "version: 1\ncustomers:\n" + "\n".join(self.customers.values()) + "\n"
        self.route.registry.write_text(text)

    def drop(self, slot: Slot | str, text: str | bytes = "# Hello\n\nAll is well.\n") -> None:
        """As an upstream job does: written beside, published by rename."""
        customer, period, kind = (slot if isinstance(slot, str) else slot.key).split(":")
        directory = self.route.outbox / customer / period
        directory.mkdir(parents=True, exist_ok=True)
        temporary = directory / f".{kind}.tmp"
        temporary.write_bytes(text.encode() if isinstance(text, str) else text)
        temporary.rename(directory / f"{kind}.md")

    def approve_template(self, text: str = TEXT, *, approved: str | None = None) -> None:
        self.route.templates.mkdir(exist_ok=True)
        (self.route.templates / f"{TEMPLATE}.md").write_text(text)
        digest = hashlib.sha256((text if approved is None else approved).encode()).hexdigest()
        (self.route.templates / "approved.yaml").write_text(
            f"version: 1\ntemplates:\n  {TEMPLATE}: {{sha256: {digest}, approved_by: jane}}\n"
        )

    def check_in(self, customer: str, *, at: datetime | None = None) -> None:
        assert isinstance(self.route.check_ins, CheckInFile)
        with self.route.check_ins.path.open("a") as file:
            file.write(json.dumps({"customer": customer, "at": (at or datetime.now(UTC)).isoformat(), "source": "app"}) + "\n")

    def sent_files(self) -> list[dict[str, object]]:
        """What the file provider has published, by destination and name."""
        published = sorted((self.root / "sent").glob("*/*.json"))
        return [json.loads(path.read_text()) for path in published]

    # The product

    def report(self, *, at: datetime | None = None) -> Observed:
        with open_ledger(self.route, self.state) as ledger:
            return look(self.route, self.state, ledger, policy=self.route.policy, at=at)

    def verdicts(self, *, at: datetime | None = None) -> dict[str, str]:
        return {finding.subject: finding.verdict.value for finding in self.report(at=at).plan.findings}

    def propose(self) -> StoredPlan:
        return self.state.record_report(self.report().plan, run_id=f"report-{uuid.uuid4().hex[:8]}", overrides={})

    def approve(self, stored: StoredPlan, *, by: str = "Kim") -> Decision:
        decision = self.state.decide(
            stored.digest, kind=DecisionKind.APPROVED, by=by, comment="", valid_for=timedelta(hours=1), channel="test"
        )
        assert isinstance(decision, Decision), decision
        return decision

    def approved(self) -> StoredPlan:
        stored = self.propose()
        self.approve(stored)
        return stored

    def apply(
        self,
        stored: StoredPlan,
        *,
        run_id: str = "",
        watcher: Watcher = nobody,
        flags: Flags = WRITE,
        lease_seconds: int = LEASE_SECONDS,
        providers: Mapping[Provider, Opened] | None = None,
    ) -> dict[str, Sent] | Refused:
        """By slot key."""
        apply = DeliveryApply(
            self.route,
            self.state,
            stored,
            flags=flags,
            run_id=run_id or f"run-{uuid.uuid4().hex[:8]}",
            lease_seconds=lease_seconds,
            watcher=watcher,
            providers=providers,
        )
        with open_ledger(self.route, self.state) as ledger:
            sent = apply.send(ledger)
        return sent if isinstance(sent, Refused) else {one.name: one for one in sent}

    def send(self, **more: object) -> dict[str, Sent]:
        """Report, approve, apply: nothing is refused."""
        sent = self.apply(self.approved(), **more)  # type: ignore[arg-type]
        assert not isinstance(sent, Refused), sent
        return sent

    def recover(self) -> tuple[Recovered, ...]:
        with open_ledger(self.route, self.state) as ledger:
            return recover(self.route, self.state, ledger, open_providers(self.route.providers))

    def look_once_more(self, providers: Mapping[Provider, Opened] | None = None) -> tuple[Recovered, ...]:
        with open_ledger(self.route, self.state) as ledger:
            return look_once_more(self.route, ledger, providers or open_providers(self.route.providers))

    def held(self, key: str) -> Reservation | None:
        with open_ledger(self.route, self.state) as ledger:
            attempts = ledger.of(Slot(*key.split(":")))
        return attempts[-1] if attempts else None

    def state_of(self, key: str) -> str:
        held = self.held(key)
        return held.state.value if held else "free"

    # Crashes

    def killed_at(self, stored: StoredPlan, step: Step, moment: Moment, *, run_id: str = "killed") -> None:
        """An apply run in a process of its own that gets SIGKILL from itself at that moment. Its leases are over at once."""

        def kill(at_step: Step, at_moment: Moment, _: str) -> None:
            if (at_step, at_moment) == (step, moment):
                os.kill(os.getpid(), signal.SIGKILL)

        assert ended(self.forked(lambda mine: mine.apply(stored, run_id=run_id, watcher=kill))) == -signal.SIGKILL
        self.time_passes()

    def time_passes(self) -> None:
        """Every lease of a dead run ends, as it would by waiting: a lease that is short enough to wait for ends on a busy disk too."""
        with self.state.engine.begin() as connection:
            connection.execute(
                text("UPDATE opsguard.leases SET expires_at = clock_timestamp() WHERE expires_at > clock_timestamp()")
            )

    def outlast_the_lease(self) -> None:
        """The lease of a run is about to end, and this is over when a heartbeat has prolonged it."""
        with self.state.engine.begin() as connection:
            ends = connection.execute(
                text("UPDATE opsguard.leases SET expires_at = clock_timestamp() + interval '2 minutes' RETURNING expires_at")
            ).scalar_one()
        until(lambda: self._lease_ends() > ends + timedelta(minutes=1), "a heartbeat")

    def _lease_ends(self) -> datetime:
        with self.state.engine.connect() as connection:
            ends: datetime = connection.execute(text("SELECT expires_at FROM opsguard.leases")).scalar_one()
        return ends

    def forked(self, work: Callable[["Watch"], object]) -> int:
        """The child's process number. It opens a database connection of its own and never comes back."""
        url = self.state.engine.url.render_as_string(hide_password=False)

        def with_its_own_connection() -> None:
            with StateStore.open(url) as state:
                work(replace(self, state=state))

        return forked(with_its_own_connection)


def watch(
    root: Path,
    state: StateStore,
    ledger: Literal["file", "postgres"] = "file",
    *,
    policy: DeliveryPolicy | None = None,
    check_ins: CheckInSource | Literal["file"] = "file",
    providers: ProviderSettings | None = None,
    auto_send: bool = False,
) -> Watch:
    """A watch with nobody in its registry yet. An empty file of check-ins: readable, and nobody has checked in."""
    (root / "check_ins.jsonl").touch()
    (root / "outbox").mkdir()
    route = DeliveryRoute(
        name="customers",
        registry=root / "customers.yaml",
        ledger=ledger,
        ledger_dir=root / "ledger",
        templates=root / "templates",
        outbox=root / "outbox",
        check_ins=CheckInFile(root / "check_ins.jsonl") if check_ins == "file" else check_ins,
        providers=providers or ProviderSettings(file_provider_dir=root / "sent"),
        policy=policy or DeliveryPolicy(),
        owners=("team:operations",),
        auto_send=auto_send,
    )
    return Watch(root=root, state=state, route=route, zone=noon_zone(state.now()))

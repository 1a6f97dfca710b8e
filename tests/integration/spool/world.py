"""Worlds of the spool guard on real servers: spool, archive and inbox are directories behind them, the state is a real database.

`Place` reports, approves and applies through the product's own code without Dagster, and is judged by the disks and by the servers' own
logs of uploads and renames, never by what a call returned.
"""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

from assets.spool_report import SpoolReport, make_report
from guards.check import CheckOutcome
from guards.decision import Decision, DecisionKind
from guards.finding import Finding
from guards.gate import Flags
from guards.refusal import Refused
from guards.spool.policy import SpoolPolicy
from resources.file_servers import open_server
from resources.file_servers.connect import Patience
from resources.file_servers.endpoint import Endpoint, Profile
from resources.spool.apply import SpoolApply
from resources.spool.prove_delivered import prove_delivered
from resources.spool.route import SpoolRoute
from resources.spool.sent import Archived, ArchiveOutcome, Outcome, Sent
from resources.spool.sides import Sides
from resources.spool.steps import Watcher, nobody
from resources.state import StateStore
from tests.patience import PATIENCE_SECONDS
from tests.servers.peer import Folder, Peer

OLD_MINUTES = 180
"""Older than the SLA of an hour."""
BRISK = Patience(
    connect_seconds=PATIENCE_SECONDS,
    stall_seconds=PATIENCE_SECONDS,
    settle_seconds=PATIENCE_SECONDS,
    first_pause_seconds=0.01,
)
"""A loaded machine may be slow, but there is nothing to wait for between attempts."""
IMPATIENT = replace(BRISK, stall_seconds=1, settle_seconds=1)
"""Only where a server is meant to say nothing."""
LEASE_SECONDS = 300
"""Longer than a disk stands still."""
WRITE = Flags(dry_run=False, auto_remediate=True)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Applied:
    """`refused` when nothing may have happened at all, `proof` of the blocking check between sending and archiving."""

    sent: dict[str, Sent] = field(default_factory=dict)
    proof: CheckOutcome | None = None
    archived: dict[str, Archived] = field(default_factory=dict)
    refused: Refused | None = None

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return {name: one.outcome for name, one in self.sent.items()}

    @property
    def archive_outcomes(self) -> dict[str, ArchiveOutcome]:
        return {name: one.outcome for name, one in self.archived.items()}


@dataclass(frozen=True)
class Place:
    """One watch. `spool`, `archive` and `inbox` are the disks behind its servers."""

    store: StateStore
    route: SpoolRoute
    spool: Folder
    archive: Folder
    inbox: Folder
    partner_log: Path | None
    source_log: Path | None
    sides: Sides

    # What the world does

    def feed(self, name: str, content: bytes = b"one,two\n" * 64, *, minutes_old: float = OLD_MINUTES) -> bytes:
        self.spool.put(name, content, at=_ago(minutes_old))
        return content

    def partner_has(self, name: str, content: bytes, *, minutes_old: float = OLD_MINUTES) -> bytes:
        self.inbox.put(name, content, at=_ago(minutes_old))
        return content

    def archive_has(self, name: str, content: bytes) -> bytes:
        self.archive.put(name, content, at=_ago(OLD_MINUTES))
        return content

    # What OpsGuard does

    def report(self, **policy: object) -> SpoolReport:
        changed = SpoolPolicy.model_validate({**self.route.policy.model_dump(), **policy})
        return make_report(self.route, self.store, policy=changed, run_id=new_run_id(), sides=self.sides)

    def verdicts(self, **policy: object) -> dict[str, str]:
        return {one.subject: str(one.verdict) for one in self.report(**policy).plan.findings}

    def finding(self, name: str, **policy: object) -> Finding:
        (found,) = [one for one in self.report(**policy).plan.findings if one.subject == name]
        return found

    def approve(self, report: SpoolReport) -> Decision:
        decision = self.store.decide(
            report.plan.digest,
            kind=DecisionKind.APPROVED,
            by="tester",
            comment="",
            valid_for=timedelta(hours=1),
            channel="cli",
        )
        assert isinstance(decision, Decision), decision
        return decision

    def engine(
        self, report: SpoolReport, *, run_id: str = "", watcher: Watcher = nobody, lease_seconds: int = LEASE_SECONDS, **more: Any
    ) -> SpoolApply:
        stored = self.store.find_plan(report.plan.digest)
        assert not isinstance(stored, Refused), stored
        return SpoolApply(
            self.route,
            self.store,
            stored,
            flags=WRITE,
            run_id=run_id or new_run_id(),
            lease_seconds=lease_seconds,
            watcher=watcher,
            sides=self.sides,
            **more,
        )

    def apply(self, report: SpoolReport, **engine: Any) -> Applied:
        """As the ops of a run do it: send, look at the partner on fresh connections, archive what is proven."""
        run = self.engine(report, **engine)
        sent = run.send()
        if isinstance(sent, Refused):
            return Applied(refused=sent)
        by_name = {one.name: one for one in sent}
        proven = {one.name for one in sent if one.outcome.is_proven}
        proof = prove_delivered(self.route, self.store, plan=report.plan.digest, names=proven)
        if not proof.passed:
            return Applied(by_name, proof)
        archived = run.archive()
        if isinstance(archived, Refused):
            return Applied(by_name, proof, refused=archived)
        return Applied(by_name, proof, {one.name: one for one in archived})

    def repair(self, **policy: object) -> Applied:
        """Report, approve, apply."""
        report = self.report(**policy)
        self.approve(report)
        return self.apply(report)

    def repair_until_done(self, *, most: int = 6) -> int:
        """Rounds that wrote something; ends when a report has no target. A plan that never ends is a failure."""
        for rounds in range(most):
            report = self.report()
            if not report.plan.targets:
                return rounds
            self.approve(report)
            self.apply(report)
        raise AssertionError(f"still targets after {most} rounds: {self.report().plan.targets}")

    def time_passes(self) -> None:
        """Every lease of a dead run ends, as it would by waiting: the database clock is the only one that counts."""
        with self.store.engine.begin() as connection:
            connection.execute(
                text("UPDATE opsguard.leases SET expires_at = clock_timestamp() WHERE expires_at > clock_timestamp()")
            )

    # What is there

    def held(self) -> tuple[dict[str, bytes], dict[str, bytes], dict[str, bytes]]:
        """(spool, archive, inbox): name to bytes."""
        return contents(self.spool), contents(self.archive), contents(self.inbox)

    def uploads(self) -> list[str]:
        return [Path(one["path"]).name for one in self.partner_events("upload")]

    def placed(self, name: str) -> int:
        """How often the partner's server renamed something of another name onto this one that was no copy of its own put back."""
        return sum(
            1
            for one in self.partner_events("rename")
            if Path(one["to"]).name == name and Path(one["path"]).name.endswith(".part")
        )

    def partner_events(self, event: str) -> list[dict[str, Any]]:
        return [one for one in events(self.partner_log) if one["event"] == event and self._is_mine(one, self.inbox)]

    def _is_mine(self, event: dict[str, Any], folder: Folder) -> bool:
        return str(event["path"]).startswith(f"{folder.path}/")


def contents(folder: Folder) -> dict[str, bytes]:
    return {
        os.fsencode(path.name).decode("utf-8", "surrogateescape"): path.read_bytes()
        for path in folder.disk.iterdir()
        if path.is_file()
    }


def events(log: Path | None) -> Iterator[dict[str, Any]]:
    if log is not None and log.exists():
        yield from (json.loads(line) for line in log.read_text().splitlines())


def place(
    store: StateStore,
    source: Peer,
    partner: Peer,
    *,
    name: str = "acme",
    policy: SpoolPolicy | None = None,
    **profile: object,
) -> Place:
    """A new watch with directories of its own on both servers. `profile`: fields of the partner's."""
    mark = uuid.uuid4().hex[:8]
    spool, archive, inbox = source.folder(f"spool-{mark}"), source.folder(f"archive-{mark}"), partner.folder(f"inbox-{mark}")
    route = SpoolRoute(
        name=name,
        source=source.at(side="source", directory=spool.path),
        archive=archive.path,
        partner=with_profile(partner.at(side="partner", directory=inbox.path), **profile),
        policy=policy or SpoolPolicy(),
        owners=("team:data-platform",),
        nightly_cron="30 5 * * *",
    )
    sides = Sides(route, open_server(route.source, patience=BRISK), open_server(route.partner, patience=BRISK), BRISK)
    return Place(store, route, spool, archive, inbox, partner.log, source.log, sides)


def at_partner(world: Place, endpoint: Endpoint, *, patience: Patience = BRISK) -> Place:
    """The same watch with another partner."""
    route = replace(world.route, partner=endpoint)
    partner = open_server(endpoint, patience=patience)
    return replace(world, route=route, sides=Sides(route, open_server(route.source, patience=BRISK), partner, BRISK))


def with_profile(endpoint: Endpoint, **profile: object) -> Endpoint:
    return replace(endpoint, profile=Profile.model_validate({**endpoint.profile.model_dump(), **profile}))


def new_run_id() -> str:
    return uuid.uuid4().hex


def _ago(minutes: float) -> int:
    return int(time.time() - minutes * 60)

"""A delivery watch as an installation has it: settings in a file, customers who are owed messages today, runs in a Dagster instance.

The judges are the directory that the file provider hands over (what really left) and the servers' own logs, never our records alone.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import yaml
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from guards.decision import Decision, DecisionKind
from opsguard_defs import runs
from opsguard_defs.settings import DeliveryWatch, Settings, load_settings
from resources.state import StateStore

BODY = "Your feed has arrived: 12 files.\n"


def zone_at_noon() -> str:
    """A zone without daylight saving where it is about noon now: today's slots are due, and midnight is hours away."""
    ahead = (12 - datetime.now(UTC).hour) % 24
    ahead = ahead - 24 if ahead > 12 else ahead
    return f"Etc/GMT{-ahead:+d}" if ahead else "UTC"


@dataclass(frozen=True)
class Installed:
    settings: Settings
    home: Path
    store: StateStore
    zone: str
    name: str = "customers"

    @property
    def watch(self) -> DeliveryWatch:
        found = self.settings.watch("delivery", self.name)
        assert isinstance(found, DeliveryWatch)
        return found

    @property
    def today(self) -> date:
        return self.store.now().astimezone(ZoneInfo(self.zone)).date()

    # What the world does

    def customers(self, *entries: Mapping[str, Any]) -> None:
        """Replaces the registry. An entry without a kind is owed a daily message since midnight."""
        made = [
            {
                "key": "acme-1",
                "route": {"provider": "file", "directory": "acme"},
                **({} if {"daily", "weekly", "monthly", "cutoff", "reminder"} & set(entry) else {"daily": {"at": "00:00"}}),
                **entry,
            }
            for entry in (entries or ({},))
        ]
        registry = {"version": 1, "defaults": {"zone": self.zone}, "customers": made}
        (self.home / "customers.yaml").write_text(yaml.safe_dump(registry, sort_keys=False))

    def body(self, customer: str = "acme-1", text: str = BODY, *, kind: str = "daily") -> None:
        """As an upstream job drops it for today: published by rename."""
        directory = self.home / "outbox" / customer / self.today.isoformat()
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f".{kind}").write_text(text)
        (directory / f".{kind}").rename(directory / f"{kind}.md")

    def slot(self, customer: str = "acme-1", *, kind: str = "daily") -> str:
        return f"{customer}:{self.today.isoformat()}:{kind}"

    def left(self) -> list[dict[str, Any]]:
        """What really left by the file provider: one object per accepted message."""
        return [json.loads(path.read_text()) for path in sorted((self.home / "sent").rglob("*.json"))]

    # What OpsGuard does

    def report(self, **overrides: str) -> runs.ReportResult:
        return runs.report(self.settings, self.watch, overrides=overrides)

    def verdicts(self, **overrides: str) -> dict[str, str]:
        return {str(one["subject"]): str(one["verdict"]) for one in self.report(**overrides).findings}

    def approve(self, digest: str, *, kind: DecisionKind = DecisionKind.APPROVED, by: str = "Kim", seconds: float = 3600) -> None:
        decided = self.store.decide(digest, kind=kind, by=by, comment="", valid_for=timedelta(seconds=seconds), channel="cli")
        assert isinstance(decided, Decision), decided

    def send(self) -> runs.ApplyResult:
        """Report, approve, apply."""
        digest = self.report().stored.digest
        self.approve(digest)
        return runs.apply(self.settings, digest)

    def launch(self, job: str, config: Mapping[str, Any]) -> ExecuteInProcessResult:
        with runs._instance(self.settings) as instance:
            return runs._execute(self.settings, instance, f"delivery_{self.name}_{job}", config)

    def refusal_of(self, result: ExecuteInProcessResult) -> str:
        """The code that the asset `decision` shows; the run itself is green."""
        assert result.success, runs._failure(result)
        (event,) = [one for one in materialized(result) if one.asset_key == dg.AssetKey(["delivery", self.name, "decision"])]
        return str(event.metadata["refusal"].value)

    def latest(self, thing: str, partition: str = "") -> dg.AssetMaterialization | None:
        key = dg.AssetKey(["delivery", self.name, thing])
        wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
        with runs._instance(self.settings) as instance:
            records = instance.fetch_materializations(wanted, limit=1).records
        return records[0].asset_materialization if records else None

    def check(self, thing: str, name: str) -> bool | None:
        """The latest word of one check."""
        key = dg.AssetCheckKey(dg.AssetKey(["delivery", self.name, thing]), name)
        with runs._instance(self.settings) as instance:
            found = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])
        evaluation = found[key].evaluation if key in found else None
        return None if evaluation is None else evaluation.passed

    def other(self, **keys: Any) -> "Installed":
        """The same installation with other keys of the watch."""
        watch = self.watch.model_copy(update=keys)
        return replace(self, settings=self.settings.model_copy(update={"watches": (watch,)}))


def materialized(result: ExecuteInProcessResult) -> list[dg.AssetMaterialization]:
    return [event.materialization for event in result.get_asset_materialization_events()]


@contextmanager
def installed(home: Path, url: str, store: StateStore, *keys: str, **environ: str) -> Iterator[Installed]:
    """`keys` are more lines of the watch's block. The environment is as before afterwards."""
    before = dict(os.environ)
    home.mkdir(exist_ok=True)
    for name in ("templates", "outbox"):
        (home / name).mkdir(exist_ok=True)
    file = home / "opsguard.toml"
    lines = ["[[watch]]", 'guard = "delivery"', 'name = "customers"', 'registry = "customers.yaml"']
    lines += ['templates = "templates"', 'outbox = "outbox"', 'file_provider_dir = "sent"', *keys]
    file.write_text("\n".join([f'home = "{home}"', *lines]) + "\n")
    os.environ.update(
        {**environ, "OPSGUARD_STATE_URL": url, "OPSGUARD_CONFIG": str(file), "OPSGUARD_HOME": str(home)},
    )
    try:
        made = Installed(load_settings(file), home, store, zone_at_noon())
        made.customers()
        yield made
    finally:
        os.environ.clear()
        os.environ.update(before)

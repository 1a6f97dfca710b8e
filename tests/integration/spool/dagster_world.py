"""A spool watch as an installation has it: settings in a file, secrets in the environment, runs in a Dagster instance."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from opsguard_defs import runs
from opsguard_defs.settings import Settings, SpoolWatch, load_settings
from resources.file_servers.endpoint import Endpoint
from tests.integration.spool.world import Place


@dataclass(frozen=True)
class Installed:
    """`place` is the same watch as the engine's tests have it: its disks and logs are the judges."""

    settings: Settings
    place: Place
    name: str

    @property
    def watch(self) -> SpoolWatch:
        return self.settings.watch("spool", self.name)

    def report(self, **overrides: str) -> runs.ReportResult:
        return runs.report(self.settings, self.watch, overrides=overrides)

    def launch(self, job: str, config: Mapping[str, Any]) -> ExecuteInProcessResult:
        with runs._instance(self.settings) as instance:
            return runs._execute(self.settings, instance, f"spool_{self.name}_{job}", config)

    def refusal_of(self, result: ExecuteInProcessResult) -> str:
        """The code that the asset `decision` shows; the run itself is green."""
        assert result.success, runs._failure(result)
        (event,) = [
            one.materialization
            for one in result.get_asset_materialization_events()
            if one.asset_key == dg.AssetKey(["spool", self.name, "decision"])
        ]
        return str(event.metadata["refusal"].value)

    def plan_check_passed(self) -> bool | None:
        """The latest word of the check that people decide on."""
        key = dg.AssetCheckKey(dg.AssetKey(["spool", self.name, "plan"]), "plan_needs_a_decision")
        with runs._instance(self.settings) as instance:
            latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
        evaluation = latest.evaluation
        return None if evaluation is None else evaluation.passed

    def other(self, **keys: Any) -> "Installed":
        """The same installation with other settings."""
        return replace(self, settings=self.settings.model_copy(update=keys))


@contextmanager
def installed(home: Path, url: str, *places: Place, extra: str = "") -> Iterator[list[Installed]]:
    """One file, one block per place. The environment is as before afterwards."""
    before = dict(os.environ)
    lines = [f'home = "{home}"', extra]
    secrets = {}
    for place in places:
        route = place.route
        lines += ["[[watch]]", 'guard = "spool"', f'name = "{route.name}"', f'archive = "{route.archive}"']
        for side, endpoint in (("source", route.source), ("partner", route.partner)):
            lines += _side(side, endpoint)
            secrets[f"OPSGUARD_SPOOL_{route.name}_{side}_PASSWORD".upper()] = endpoint.password.get_secret_value()
    home.mkdir(exist_ok=True)
    file = home / "opsguard.toml"
    file.write_text("\n".join(lines) + "\n")
    os.environ.update({**secrets, "OPSGUARD_STATE_URL": url, "OPSGUARD_CONFIG": str(file), "OPSGUARD_HOME": str(home)})
    try:
        settings = load_settings(file)
        yield [Installed(settings, place, place.route.name) for place in places]
    finally:
        os.environ.clear()
        os.environ.update(before)


def _side(side: str, endpoint: Endpoint) -> list[str]:
    profile = [f"allow_cleartext = {str(endpoint.profile.allow_cleartext).lower()}"]
    profile += ["consumes_on_arrival = true"] if endpoint.profile.consumes_on_arrival else []
    lines = [
        f'{side} = "{endpoint.scheme}://{endpoint.user}@{endpoint.host}:{endpoint.port}{endpoint.directory}"',
        f"{side}_profile = {{{', '.join(profile)}}}",
    ]
    return [*lines, f'{side}_host_key = "{endpoint.host_key.strip()}"'] if endpoint.host_key else lines

"""`opsguard dev`: one command, everything up with an incident to look at, and one signal ends all of it."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from opsguard_defs.cli.init import watch_block
from opsguard_defs.ports import held_port
from opsguard_defs.processes import PROJECT_ROOT
from tests.integration.sandbox_processes import wait_until_gone
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.timeout(600)


def ask(port: int, query: str) -> Any:
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)["data"]


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def dev(home: Path, *arguments: str, **environ: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """(the program, the UI's port), once it says that it is up. Started as nohup and `cmd &` in a script do, with SIGINT ignored:
    `dagster dev` could then not be stopped at all."""
    with held_port() as port:
        kept = ("OPSGUARD_", "DAGSTER_")
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(kept) or name == "OPSGUARD_REQUIRE_ALL"
        }
        program = subprocess.Popen(
            [sys.executable, "-m", "opsguard_defs", "dev", "--port", str(port), *arguments],
            cwd=PROJECT_ROOT,
            env={**variables, "OPSGUARD_HOME": str(home), "OPSGUARD_POSTGRES_GRACE_SECONDS": "0.5", **environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=ignore_interrupts,
        )
        try:
            assert program.stderr is not None
            said = []
            for line in program.stderr:
                said.append(line)
                if "Ctrl-C ends all of it" in line:
                    break
            assert program.poll() is None, "".join(said)
            yield program, port
        finally:
            program.kill()
            program.communicate()
    wait_until_gone(home)


def ended_by_sigterm(program: "subprocess.Popen[str]") -> str:
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE_SECONDS) == 0
    assert program.stderr is not None
    return program.stderr.read()


def sensor_states(port: int) -> dict[str, str]:
    answer = ask(port, '{ sensorsOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "opsguard"}) { ... on Sensors { results { name sensorState { status } } } } }')  # fmt: skip
    return {sensor["name"]: sensor["sensorState"]["status"] for sensor in answer["sensorsOrError"]["results"]}


def test_everything_comes_up_with_a_plan_to_read_and_sigterm_ends_it_all(tmp_path: Path) -> None:
    with dev(tmp_path / "home") as (program, port):
        plan = ask(port, '{ assetNodeOrError(assetKey: {path: ["spool", "ftp_demo", "plan"]}) { ... on AssetNode { assetMaterializations(limit: 5) { metadataEntries { label ... on IntMetadataEntry { intValue } } } } } }')  # fmt: skip
        oldest = plan["assetNodeOrError"]["assetMaterializations"][-1]["metadataEntries"]
        numbers = {entry["label"]: entry.get("intValue") for entry in oldest}
        assert numbers["targets"] == 3
        assert numbers["gaps"] == 4

        states = sensor_states(port)
        assert {state for name, state in states.items() if "arrival" in name} == {"RUNNING"}, states
        assert "Ended: UI, daemon and sandbox." in ended_by_sigterm(program)


def test_ones_own_watches_are_served_with_everything_stopped_and_no_sandbox(tmp_path: Path, empty_database_url: str) -> None:
    """`opsguard dev` served only the sandbox: for their own watches people put webserver and daemon together by hand, unguarded."""
    home, config = tmp_path / "home", tmp_path / "opsguard.toml"
    config.write_text(watch_block("spool", "acme"))
    with dev(home, "--no-sandbox", OPSGUARD_CONFIG=str(config), OPSGUARD_STATE_URL=empty_database_url) as (program, port):
        states = sensor_states(port)
        assert set(states) == {"spool_acme_arrival", "spool_acme_approved_plans", "failed_runs", "alerts_outbox"}
        assert set(states.values()) == {"STOPPED"}
        assert not (home / "sandbox").exists()
        assert "Ended: UI and daemon." in ended_by_sigterm(program)

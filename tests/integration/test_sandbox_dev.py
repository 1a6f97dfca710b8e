"""`opsguard dev`: one command, everything up with an incident to look at, and one signal ends all of it."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from opsguard_defs.processes import PROJECT_ROOT
from opsguard_defs.services import free_port
from tests.integration.sandbox_processes import wait_until_gone

pytestmark = pytest.mark.timeout(600)


def ask(port: int, query: str) -> Any:
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return json.load(answer)["data"]


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_everything_comes_up_with_a_plan_to_read_and_sigterm_ends_it_all(tmp_path: Path) -> None:
    """Started as nohup and `cmd &` in a script do, with SIGINT ignored: `dagster dev` could then not be stopped at all."""
    home, port = tmp_path / "home", free_port()
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("OPSGUARD_") or name == "OPSGUARD_REQUIRE_ALL"
    }
    dev = subprocess.Popen(
        [sys.executable, "-m", "opsguard_defs", "dev", "--port", str(port)],
        cwd=PROJECT_ROOT,
        env={**variables, "OPSGUARD_HOME": str(home), "OPSGUARD_POSTGRES_GRACE_SECONDS": "0.5"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore_interrupts,
    )
    try:
        assert dev.stderr is not None
        said = []
        for line in dev.stderr:
            said.append(line)
            if "Ctrl-C ends all of it" in line:
                break
        assert dev.poll() is None, "".join(said)

        plan = ask(port, '{ assetNodeOrError(assetKey: {path: ["spool", "ftp_demo", "plan"]}) { ... on AssetNode { assetMaterializations(limit: 5) { metadataEntries { label ... on IntMetadataEntry { intValue } } } } } }')  # fmt: skip
        oldest = plan["assetNodeOrError"]["assetMaterializations"][-1]["metadataEntries"]
        numbers = {entry["label"]: entry.get("intValue") for entry in oldest}
        assert numbers["targets"] == 3
        assert numbers["gaps"] == 4

        sensors = ask(port, '{ sensorsOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "opsguard"}) { ... on Sensors { results { name sensorState { status } } } } }')  # fmt: skip
        states = {sensor["name"]: sensor["sensorState"]["status"] for sensor in sensors["sensorsOrError"]["results"]}
        arrivals = {state for name, state in states.items() if "arrival" in name}
        assert arrivals == {"RUNNING"}, states

        dev.send_signal(signal.SIGTERM)
        assert dev.wait(120) == 0
        assert "Ended: UI, daemon and sandbox." in dev.stderr.read()
    finally:
        dev.kill()
        dev.communicate()
    wait_until_gone(home)

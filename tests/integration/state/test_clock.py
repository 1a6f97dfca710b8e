"""A host whose clock is an hour off: leases, expiry, first-seen times and the ledger go by the database's clock alone."""

import ast
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import resources.state
from tests.contract.state.worlds import decide, leased, plan, report
from tests.need import unavailable

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAM = """
import json, sys, time
from resources.state import StateStore
from tests.contract.state.worlds import SCOPE, authorize, plan
from guards.gate import Lease
from guards.delivery.pins import Pins
from guards.delivery.slot import Slot
with StateStore.open(sys.argv[1]) as store:
    busy = store.acquire_lease("shelf/held", holder="shifted", ttl_seconds=60)
    lease = store.acquire_lease(SCOPE, holder="shifted", ttl_seconds=600)
    authorization = authorize(store, plan("a"), lease)
    held = store.ledger.reserve(Slot("partner-1", "p-1", "feed"), Pins({"a": 1}), key="k")
    print(json.dumps({
        "host": time.time(),
        "now": store.now().isoformat(),
        "busy": not isinstance(busy, Lease),
        "lease": lease.expires_at.isoformat(),
        "used": store.use_approval(authorization) is None,
        "seen": store.first_seen("shelf", "one", ["x"])["x"].isoformat(),
        "reserved": held.opened_at.isoformat(),
        "state": store.find_plan(plan("b").digest).state,
    }))
"""


@pytest.fixture(scope="module")
def shifted_clock(tmp_path_factory):
    compiler = shutil.which("cc") or unavailable("a C compiler", "apt-get install gcc libc6-dev")
    library = tmp_path_factory.mktemp("clock") / "shifted_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, HERE / "shifted_clock.c", "-ldl"], check=True)
    return library


@pytest.mark.parametrize("shift_seconds", [-3600, 3600, 86_400 * 400])
def test_a_host_clock_that_is_off_changes_nothing(state_store, database_url, shifted_clock, shift_seconds):
    for name in ("a", "b"):
        report(state_store, plan(name, watch="one" if name == "a" else "two"))
    b = plan("b", watch="two")
    decide(state_store, plan("a").digest, valid_for=timedelta(minutes=10))
    decide(state_store, b.digest, valid_for=timedelta(minutes=10))
    leased(state_store, holder="other", scope="shelf/held")
    before = state_store.now()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace('plan("b")', 'plan("b", watch="two")'), database_url],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(shifted_clock), "SHIFT_SECONDS": str(shift_seconds)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    after = state_store.now()
    told = json.loads(done.stdout)
    assert abs(told["host"] - before.timestamp() - shift_seconds) < 300, "the host's clock really was off"
    for name in ("now", "seen", "reserved"):
        assert before <= datetime.fromisoformat(told[name]) <= after
    assert before <= datetime.fromisoformat(told["lease"]) - timedelta(seconds=600) <= after
    assert (told["busy"], told["used"], told["state"]) == (True, True, "approved")


def test_no_module_of_the_store_reads_the_hosts_calendar():
    for module in Path(next(iter(resources.state.__path__))).rglob("*.py"):
        read = {node.attr for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Attribute)}
        assert read & {"utcnow", "today", "time_ns", "localtime", "gmtime"} == set(), module
        called = {ast.unparse(node.func) for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)}
        assert called & {"time.time", "datetime.now", "datetime.datetime.now"} == set(), module

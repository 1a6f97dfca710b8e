"""Processes of a test's own that act on one database at the same moment.

    python -m tests.integration.state.children ACTION DATABASE_URL NUMBER

Each prepares, says `ready`, waits for a line, acts, and prints one line of JSON.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from guards.decision import DecisionKind
from guards.delivery.pins import Pins
from guards.delivery.slot import Grant, Slot
from guards.gate import Lease
from guards.refusal import Refused
from resources.state import StateStore
from tests.contract.state.worlds import SCOPE, authorize, plan, report

ROOT = Path(__file__).resolve().parents[3]
SLOT = Slot("partner-1", "2026", "feed")


def together(action: str, database_url: str, count: int) -> list[object]:
    """What `count` processes answer that were let go at once."""
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.state.children", action, database_url, str(number)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [json.loads(child.communicate(timeout=120)[0]) for child in children]
    assert [child.returncode for child in children] == [0] * count
    return answers


def acting(action: str, url: str, number: int) -> Callable[[], object]:
    """The prepared action: what is returned is called after the signal."""
    if action == "open":
        return lambda: _opened(url)
    store = StateStore.open(url)
    me = f"run-{number}"
    match action:
        case "lease":
            return lambda: isinstance(store.acquire_lease(SCOPE, holder=me, ttl_seconds=600), Lease)
        case "enqueue":
            return lambda: store.outbox.enqueue("the-one-key", {"from": me})
        case "claim":
            return lambda: [row.key for row in store.outbox.claim(3)]
        case "decide":
            return lambda: (
                store.decide(
                    plan("a").digest,
                    kind=DecisionKind.APPROVED,
                    by="Kim",
                    comment=me,
                    valid_for=timedelta(hours=1),
                    channel="cli",
                ).decision_id
            )
        case "report":
            return lambda: report(store, plan("a"), run_id=me).digest
        case "seen":
            names = [f"{name}" for name in range(number, number + 2000)]
            return lambda: len(store.first_seen("shelf", "one", names))
        case "send":
            return lambda: _send(store, me)
        case "use":
            return _using(store, me)
        case _:
            raise AssertionError(action)


def _opened(url: str) -> str:
    with StateStore.open(url) as store:
        return report(store, plan("a")).digest


def _send(store: StateStore, me: str) -> bool:
    held = store.ledger.reserve(SLOT, Pins({"name": "a"}), key=me)
    return isinstance(store.ledger.grant(held.reservation_id, holder=me), Grant)


def _using(store: StateStore, me: str) -> Callable[[], object]:
    """Every process holds a decision read before anybody used it; the lease passes from hand to hand."""
    before = store.decision(plan("a").digest)

    class AsOfBefore:
        def decision(self, _digest: str):
            return before

        def now(self):
            return store.now()

    def use() -> bool:
        while isinstance(lease := store.acquire_lease(SCOPE, holder=me, ttl_seconds=600), Refused):
            pass
        used = store.use_approval(authorize(AsOfBefore(), plan("a"), lease))
        store.release(lease)
        return used is None

    return use


if __name__ == "__main__":
    act = acting(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(act()), flush=True)

"""Processes of a test's own that act on one ledger at the same moment.

    python -m tests.ledgers.children ACTION STORE WHERE NUMBER

Each opens the ledger, says `ready`, waits for a line, acts, and prints one line of JSON. `together` starts and collects them.
"""

import json
import subprocess
import sys
from pathlib import Path

from guards.delivery.outcome import delivered
from guards.delivery.refusal import LedgerRefused
from guards.delivery.slot import Grant
from resources.ledger.interface import Ledger
from tests.ledgers.builders import PINS, feed
from tests.ledgers.worlds import FileWorld, PostgresWorld, World
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
SLOTS = 15


class Child:
    """One that is ready to act."""

    def __init__(self, action: str, world: World, number: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.ledgers.children", action, world.kind, world.where, str(number)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def line(self) -> object:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def answer(self) -> object:
        said, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0
        return json.loads(said)

    def kill(self) -> None:
        """SIGKILL, and gone when this returns."""
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_SECONDS)


def together(action: str, world: World, count: int) -> list[object]:
    children = [Child(action, world, number) for number in range(count)]
    for child in children:
        child.wait_until_ready()
    for child in children:
        child.go()
    return [child.answer() for child in children]


def act(ledger: Ledger, action: str, me: str) -> object:
    match action:
        case "send_one":
            return _send(ledger, "race", me)
        case "send_many":
            return [number for number in range(SLOTS) if _send(ledger, number, me)]
        case "append":
            return [_send(ledger, f"{me}-{number}", me) for number in range(SLOTS)]
        case "expire":
            return not isinstance(ledger.expire(feed("race").reservation_id(1)), LedgerRefused)
        case _:
            raise AssertionError(action)


def _send(ledger: Ledger, number: object, me: str) -> bool:
    """Whether the one call was ours to make."""
    held = ledger.reserve(feed(number), PINS, key=me)
    assert not isinstance(held, LedgerRefused), held
    grant = ledger.grant(held.reservation_id, holder=me)
    if not isinstance(grant, Grant):
        return False
    assert not isinstance(ledger.settle(grant, delivered({"by": me})), LedgerRefused)
    return True


def main(action: str, kind: str, where: str, number: str) -> None:
    world = FileWorld(Path(where)) if kind == "file" else PostgresWorld(where)
    ledger = world.open()
    if action == "hold":
        grant = ledger.grant(feed("race").reservation_id(1), holder=f"run-{number}")
        assert isinstance(grant, Grant), grant
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(act(ledger, action, f"run-{number}")), flush=True)
    world.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

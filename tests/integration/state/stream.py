"""A process that records and says so: one line per acknowledged row, however often the server dies under it.

python -m tests.integration.state.stream HOME
"""

import sys
import time
from pathlib import Path

from guards.delivery.pins import Pins
from guards.delivery.slot import Slot
from resources.errors import OutcomeUnknown, Unreachable
from resources.state import StateStore
from resources.state.embedded import open_embedded
from tests.patience import PATIENCE_SECONDS


def record(store: StateStore, number: int) -> None:
    """Until it is acknowledged: not recorded is asked again, unknown is looked up by asking again (both calls are idempotent)."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            store.outbox.enqueue(f"key-{number}", number)
            store.ledger.reserve(Slot("partner-1", f"p-{number}", "feed"), Pins({"number": number}), key="stream")
            return
        except (Unreachable, OutcomeUnknown):
            if time.monotonic() > deadline:
                raise


if __name__ == "__main__":
    with StateStore.open(open_embedded(Path(sys.argv[1]))) as opened:
        for count in range(100_000):
            record(opened, count)
            print(count, flush=True)

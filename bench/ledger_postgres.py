"""The PostgreSQL ledger beside bare transactions on the same server, and how fast it is verified.

    python -m bench.ledger_postgres [--json] [--only ROW] [--rounds N]

The server is an embedded one of this run's own, with fsync and synchronous_commit on, below `/var/tmp`.
"""

import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psycopg

from bench.harness import Limited, NotHere, Pair, Paired, main, timed
from guards.canonical import Json
from guards.delivery import transition
from guards.delivery.entry import Reservation, advance
from guards.delivery.outcome import delivered
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerRefused
from guards.delivery.row import Head, append
from guards.delivery.slot import Grant, Slot
from guards.delivery.transition import Ruling
from resources.ledger.interface import StoredRow
from resources.state import StateStore
from resources.state.embedded import leave, open_embedded

PER_ROUND: Final = 100
ROWS_VERIFIED: Final = 30_000
RECEIPT: Final[dict[str, Json]] = {"provider": "slack", "ts": "1234.5678", "channel": "C0123456", "sha256": "b" * 64}


def pins_of(slot: Slot) -> Pins:
    """What a reminder pins: about 800 bytes."""
    digests: dict[str, Json] = {f"{name}_sha256": "a" * 64 for name in ("destination", "body", "template", "registry", "config")}
    text: dict[str, Json] = {
        "kind": slot.kind,
        "customer": slot.customer,
        "destination": "C0123456",
        "body": "Please check in. " * 12,
    }
    return Pins({**text, **digests, "template": "missing-checkin-v1"})


@contextmanager
def server() -> Iterator[str]:
    try:
        with tempfile.TemporaryDirectory(prefix="opsguard-bench-", dir="/var/tmp") as home:
            url = open_embedded(Path(home))
            try:
                yield url
            finally:
                leave(Path(home))
    except ImportError as missing:
        raise NotHere(f"the embedded PostgreSQL: {missing}") from None


class Bare:
    """The peer: one psycopg connection, one table of identity and text with a primary key. Each of the three transactions of a message
    is BEGIN, one INSERT of as many bytes as a row of the ledger has, COMMIT; the statement is prepared."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, prepare_threshold=0)
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS public.bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text)"
        )
        self._connection.commit()
        self._body = "x" * 830

    def three(self) -> None:
        for _ in range(3):
            self._connection.execute("INSERT INTO public.bare (body) VALUES (%s)", (self._body,))
            self._connection.commit()

    def close(self) -> None:
        self._connection.close()


@contextmanager
def three_transitions() -> Iterator[Pair]:
    with server() as url, StateStore.open(url) as store:
        bare, ledger, run = Bare(url), store.ledger, secrets.token_hex(4)
        numbers = iter(range(10_000_000))

        def message() -> None:
            slot = Slot("acme-1", f"{run}-{next(numbers)}", "reminder")
            held = ledger.reserve(slot, pins_of(slot), key="run-1")
            assert not isinstance(held, LedgerRefused), held
            grant = ledger.grant(held.reservation_id, holder="run-1")
            assert isinstance(grant, Grant), grant
            assert not isinstance(ledger.settle(grant, delivered(RECEIPT)), LedgerRefused)

        def repeated(work: Callable[[], None]) -> None:
            for _ in range(PER_ROUND):
                work()

        yield Pair(ours=lambda: timed(lambda: repeated(message)), peer=lambda: timed(lambda: repeated(bare.three)))
        bare.close()


class Chain:
    """Rows of messages that were reserved, granted and delivered."""

    def __init__(self) -> None:
        self._head = Head()
        self._at = datetime(2026, 11, 30, tzinfo=UTC)

    def rows(self, count: int) -> Iterator[StoredRow]:
        for number in range(count // 3):
            slot = Slot(f"acme-{number % 500}", f"p-{number}", "reminder")
            yield from self._message(slot)

    def _message(self, slot: Slot) -> Iterator[StoredRow]:
        reserved = transition.reserve(None, slot=slot, pins=pins_of(slot), key="run-1", now=self._at)
        held, row = self._written(None, reserved)
        yield row
        held, row = self._written(held, transition.grant(held, holder="run-1"))
        yield row
        grant = Grant(slot, held.reservation_id, held.attempt, held.fence, held.holder)
        held, row = self._written(held, transition.settle(held, grant=grant, outcome=delivered(RECEIPT)))
        yield row

    def _written(self, held: Reservation | None, ruling: Ruling) -> tuple[Reservation, StoredRow]:
        (row,) = append(self._head, ruling.entries, at=self._at)
        after = advance(held, row.entry, at=self._at)
        assert isinstance(after, Reservation)
        self._head = row.head
        return after, StoredRow(row.sequence, row.digest, row.bytes)


@contextmanager
def verification() -> Iterator[Callable[[], float]]:
    with server() as url, StateStore.open(url) as store:
        assert not isinstance(store.ledger.adopt(Chain().rows(ROWS_VERIFIED)), LedgerRefused)

        def measure() -> float:
            seconds = timed(lambda: _sound(store))
            return seconds / ROWS_VERIFIED * 15_000

        yield measure


def _sound(store: StateStore) -> None:
    found = store.ledger.verify()
    assert (found.rows, found.faults) == (ROWS_VERIFIED, ())


ROWS: Final = (
    Paired(
        "postgres-transition",
        f"PostgreSQL: {PER_ROUND} messages reserved, granted and settled",
        "three bare single-row transactions each (BEGIN, INSERT, COMMIT; psycopg, prepared, same server)",
        0.5,
        three_transitions,
    ),
    Limited("postgres-verify", "PostgreSQL verify with answers and claims, per 15,000 rows", "s", 1, verification),
)

if __name__ == "__main__":
    sys.exit(main("bench.ledger_postgres", ROWS))

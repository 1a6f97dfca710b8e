"""One small world per store: handles on one ledger (each a process's view), a holder that is gone, and all that is durable.

world = MemoryWorld()
holder, ledger = world.open(), world.open()
grant = holder.grant(...)
world.gone(holder)                  # as if the process had been killed
before = world.content()            # everything durable, to be compared
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import psycopg

from guards.decision import Decision, DecisionKind
from guards.delivery.slot import Grant
from guards.gate import Authorization, Authorized, Flags, Fresh, Lease, gate
from resources.ledger.file.store import FileLedger
from resources.ledger.interface import Ledger
from resources.ledger.memory import Kept, MemoryLedger
from resources.state import StateStore
from resources.state.engine import open_engine
from tests.contract.state.worlds import SCOPE, approved_and_leased, plan

STORES = ("memory", "file", "postgres")


class World(Protocol):
    kind: str
    where: str
    """What a child process needs to open the same ledger: a directory or a URL."""

    def open(self) -> Ledger: ...

    def gone(self, handle: Ledger, *grants: Grant) -> None:
        """The process that held this handle is gone, and its leases with it: those of `grants`, or all."""
        ...

    def content(self) -> object: ...

    def authorization(self, holder: str) -> Authorization: ...

    def close(self) -> None: ...


class MemoryWorld:
    kind = "memory"
    where = ""

    def __init__(self) -> None:
        self.kept = Kept()
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def open(self) -> MemoryLedger:
        return MemoryLedger(self.kept, clock=lambda: self.clock())

    def gone(self, handle: Ledger, *grants: Grant) -> None:
        handle.close()

    def content(self) -> object:
        return tuple(self.kept.rows)

    def authorization(self, holder: str) -> Authorization:
        return authorized(holder)

    def close(self) -> None:
        self.kept = Kept()


class FileWorld:
    kind = "file"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root)
        self._open: list[Ledger] = []

    def open(self) -> Ledger:
        opened: Ledger = FileLedger.open(self.root)
        self._open.append(opened)
        return opened

    def gone(self, handle: Ledger, *grants: Grant) -> None:
        handle.close()

    def content(self) -> object:
        return tree(self.root)

    def authorization(self, holder: str) -> Authorization:
        return authorized(holder)

    def close(self) -> None:
        for each in self._open:
            each.close()


class PostgresWorld:
    kind = "postgres"

    def __init__(self, database_url: str) -> None:
        self.where = database_url
        self._stores: list[StateStore] = []

    def open(self) -> Ledger:
        store = StateStore(open_engine(self.where))  # migrated before: to look again took half of each test
        self._stores.append(store)
        ledger: Ledger = store.ledger
        return ledger

    def gone(self, handle: Ledger, *grants: Grant) -> None:
        """A server cannot see that a process is gone: its leases' time runs out."""
        if not grants:
            handle.close()
        for grant in grants:
            self.time_passes(grant.slot.period)

    def time_passes(self, period: str = "%") -> None:
        """For the leases on these slots, or for all."""
        with psycopg.connect(self.where, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(
                "UPDATE opsguard.ledger_slots SET lease_expires_at = now() - interval '1 second' WHERE period LIKE %s", (period,)
            )

    def content(self) -> object:
        with psycopg.connect(self.where) as connection:
            return [
                connection.execute(f"SELECT * FROM opsguard.{table} ORDER BY 1, 2").fetchall()
                for table in ("ledger_slots", "ledger_reservations", "ledger_rows", "ledger_head")
            ]

    def authorization(self, holder: str) -> Authorization:
        with StateStore.open(self.where) as store:
            return approved_and_leased(store, holder=holder)

    def close(self) -> None:
        for each in self._stores:
            each.close()


def tree(root: Path) -> dict[str, tuple[int, str]]:
    """Every name below `root`: its mode, and the digest of what it holds ("" for a directory)."""
    found: dict[str, tuple[int, str]] = {}
    for path in sorted(root.rglob("*")):
        held = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(root))] = (path.lstat().st_mode, held)
    return found


def authorized(holder: str) -> Authorization:
    """Through the real gate, with a lease from nowhere: for stores that do not keep leases on scopes."""
    now = datetime(2026, 11, 30, tzinfo=UTC)
    proposed = plan("a.csv")
    decision = Decision(
        decision_id=1,
        plan_digest=proposed.digest,
        kind=DecisionKind.APPROVED,
        decided_by="Kim",
        comment="",
        decided_at=now,
        valid_until=now + timedelta(hours=1),
        channel="cli",
    )
    verdict = gate(
        flags=Flags(dry_run=False, auto_remediate=True),
        plan=proposed,
        decision=decision,
        current=proposed,
        fresh=Fresh(None),
        lease=Lease(SCOPE, holder, 1, now + timedelta(hours=1)),
        now=now,
    )
    assert isinstance(verdict, Authorized), verdict
    return verdict.authorization

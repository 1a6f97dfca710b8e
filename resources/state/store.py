"""The state store as everything else sees it: one thin facade, one transaction per call.

with StateStore.open(state_url(home)) as store:
    stored = store.record_report(plan, run_id=run_id, overrides={})
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine

from guards.canonical import Json
from guards.decision import Decision, DecisionKind, governing
from guards.gate import Authorization, Lease
from guards.plan import FEWEST_DIGITS, Plan
from guards.receipt import Receipt
from guards.refusal import Refused
from resources.state import clock, decisions, first_seen, journal, leases, outbox, plans, receipts
from resources.state.backup import Backup, backup, restore
from resources.state.engine import open_engine, reading, writing
from resources.state.journal import JournalRow
from resources.state.ledger import PostgresLedger
from resources.state.migrate import migrate
from resources.state.outbox import OutboxRow
from resources.state.plans import PlanSummary, StoredPlan
from resources.state.prune import KEEP_DAYS, Pruned, prune, prune_daily
from resources.state.published import PublishedStore
from resources.state.standing import StandingStore

Result = TypeVar("Result")


class StateStore:
    """Errors of every method: `Unreachable` (nothing was recorded), and for those that record `OutcomeUnknown` (look first)."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.outbox = OutboxStore(engine)
        self.ledger = PostgresLedger(engine)
        self.standing = StandingStore(engine)
        self.published = PublishedStore(engine)

    @classmethod
    def open(cls, url: str) -> Self:
        """Connects, and brings the schema up to date; any number of processes may do so at once."""
        engine = open_engine(url)
        try:
            migrate(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        self.ledger.close()
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"StateStore({self.engine.url.render_as_string(hide_password=True)})"

    def now(self) -> datetime:
        """The database clock, aware, UTC."""
        return self._read(clock.now)

    # Plans and decisions

    def record_report(self, plan: Plan[Any], *, run_id: str, overrides: Mapping[str, Json]) -> StoredPlan:
        return self._write("the report", lambda c: plans.record(c, plan, run_id=run_id, overrides=overrides))

    def find_plan(self, prefix: str, *, fewest: int = FEWEST_DIGITS) -> StoredPlan | Refused:
        return self._read(lambda c: plans.find(c, prefix, fewest=fewest))

    def plans(self, *, guard: str | None = None, watch: str | None = None, limit: int = 50) -> list[PlanSummary]:
        """Newest report first; without findings (`find_plan` brings those of one plan)."""
        return self._read(lambda c: plans.newest_first(c, guard=guard, watch=watch, limit=limit))

    def decide(
        self,
        digest: str,
        *,
        kind: DecisionKind,
        by: str,
        comment: str,
        valid_for: timedelta,
        channel: str,
        run_id: str = "",
    ) -> Decision | Refused:
        """`digest` in full, as `find_plan` gave it. Bad words are `ConfigurationError`."""
        return self._write(
            "the decision",
            lambda c: decisions.decide(
                c, digest, kind=kind, by=by, comment=comment, valid_for=valid_for, channel=channel, run_id=run_id
            ),
        )

    def decisions(self, digest: str) -> tuple[Decision, ...]:
        return self._read(lambda c: decisions.load(c, digest))

    def decision(self, digest: str) -> Decision | None:
        """The one that counts now."""
        return governing(self.decisions(digest))

    # Leases and what they guard

    def acquire_lease(self, scope: str, *, holder: str, ttl_seconds: int) -> Lease | Refused:
        return self._write("the lease", lambda c: leases.acquire(c, scope, holder=holder, ttl_seconds=ttl_seconds))

    def heartbeat(self, lease: Lease) -> Lease:
        return self._write("the heartbeat", lambda c: leases.heartbeat(c, lease))

    def release(self, lease: Lease) -> None:
        self._write("the release of the lease", lambda c: leases.release(c, lease))

    def use_approval(self, authorization: Authorization) -> Refused | None:
        return self._write("the use of the approval", lambda c: decisions.use(c, authorization))

    def require_live(self, authorization: Authorization) -> None:
        """`LeaseLost` unless the fence is the newest and unexpired, by the database clock."""
        if not self._read(lambda c: leases.is_live(c, authorization)):
            raise leases.lost(authorization.scope, authorization.fence)

    def intend(self, authorization: Authorization, *, subject: str, step: str, detail: Mapping[str, Json]) -> int:
        return self._write("the intent", lambda c: journal.intend(c, authorization, subject=subject, step=step, detail=detail))

    def outcome(self, authorization: Authorization, intent_id: int, detail: Mapping[str, Json]) -> None:
        self._write("the outcome", lambda c: journal.outcome(c, authorization, intent_id, detail))

    def journal(
        self,
        *,
        guard: str,
        watch: str,
        subject: str | None = None,
        open_only: bool = False,
        step: str | None = None,
        run_id: str | None = None,
        newest: int | None = None,
    ) -> list[JournalRow]:
        """Oldest first; see `journal.rows` for what each argument leaves out."""
        return self._read(
            lambda c: journal.rows(
                c, guard=guard, watch=watch, subject=subject, open_only=open_only, step=step, run_id=run_id, newest=newest
            )
        )

    def add_receipt(self, authorization: Authorization, receipt: Receipt) -> Receipt:
        return self._write("the receipt", lambda c: receipts.add(c, authorization, receipt))

    def receipts(
        self, *, guard: str | None = None, watch: str | None = None, plan_digest: str | None = None, limit: int = 1_000
    ) -> list[Receipt]:
        """Newest first."""
        return self._read(lambda c: receipts.newest_first(c, guard=guard, watch=watch, plan_digest=plan_digest, limit=limit))

    def written(self, guard: str, watch: str, action: str, subjects: Collection[str]) -> dict[str, Receipt]:
        """By subject, the newest receipt for this action; subjects without one are left out."""
        return self._read(lambda c: receipts.written(c, guard=guard, watch=watch, action=action, subjects=subjects))

    # What is remembered

    def first_seen(self, guard: str, watch: str, names: Collection[str]) -> dict[str, datetime]:
        """When each name was first asked about; new ones are remembered with the database's now."""
        return self._write("the first-seen times", lambda c: first_seen.remember(c, guard, watch, names))

    # Keeping

    def prune(self, days: int = KEEP_DAYS) -> Pruned:
        """Forgets reports and plans older than `days` that nobody decided on. Decisions, receipts, journal and ledger stay."""
        return self._write("the pruning", lambda c: prune(c, days))

    def prune_daily(self, days: int, *, run_id: str) -> Pruned | None:
        """The same, when the report of `run_id` is the first one today (UTC); None when it is not."""
        return self._write("the pruning", lambda c: prune_daily(c, days, run_id=run_id))

    def backup(self, path: Path) -> Backup:
        """Every row, as of now, into a new file of JSON lines."""
        return self._read(lambda c: backup(c, path))

    def restore(self, path: Path) -> Backup:
        """Into an empty store, all or nothing. Afterwards `ledger.repair(accept_copy=True)` lets the ledger grant again."""
        return self._write("the restored backup", lambda c: restore(c, path))

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        return reading(self.engine, work)

    def _write(self, what: str, work: Callable[[Connection], Result]) -> Result:
        return writing(self.engine, what, work)


class OutboxStore:
    """The outbox as callers hold it: one transaction per call. See `resources.state.outbox`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def enqueue(self, key: str, payload: Json) -> bool:
        return writing(self._engine, "the alert", lambda c: outbox.enqueue(c, key, payload))

    def claim(self, limit: int) -> list[OutboxRow]:
        return writing(self._engine, "the claim on alerts", lambda c: outbox.claim(c, limit))

    def sent(self, outbox_id: int, ts: str) -> None:
        writing(self._engine, "the alert's delivery", lambda c: outbox.sent(c, outbox_id, ts))

    def unknown(self, outbox_id: int, why: str) -> None:
        writing(self._engine, "the alert's doubt", lambda c: outbox.unknown(c, outbox_id, why))

    def failed(self, outbox_id: int, why: str, retry_at: datetime | None) -> None:
        writing(self._engine, "the alert's failure", lambda c: outbox.failed(c, outbox_id, why, retry_at))

    def absent(self, outbox_id: int) -> None:
        writing(self._engine, "the alert's look-up", lambda c: outbox.absent(c, outbox_id))

    def pending(self, limit: int = 100) -> list[OutboxRow]:
        """Queued or being sent, oldest first."""
        return reading(self._engine, lambda c: outbox.rows(c, statuses=("queued", "sending"), limit=limit))

    def in_doubt(self, limit: int = 100) -> list[OutboxRow]:
        """Unknown or given up, oldest first: a person should look."""
        return reading(self._engine, lambda c: outbox.rows(c, statuses=("unknown", "failed"), limit=limit))

    def counts(self) -> dict[str, int]:
        """By status."""
        return reading(self._engine, outbox.counts)

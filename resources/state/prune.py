"""Retention: what nobody decided on is forgotten after a while. Decisions, decided plans, receipts, journal and ledger never."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import Connection, Interval, TextClause, bindparam, text

from resources.errors import ConfigurationError

KEEP_DAYS: Final = 90


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows went, by kind."""

    reports: int
    plans: int
    alerts: int
    first_seen: int


def _named(statement: str) -> TextClause:
    return text(statement).bindparams(bindparam("age", type_=Interval))


# The newest report of a watch stays whatever its age: it is what the watch looks like.
_REPORTS: Final = _named("""
    DELETE FROM opsguard.reports AS report
    WHERE report.reported_at < now() - :age
      AND NOT EXISTS (SELECT 1 FROM opsguard.decisions AS decided WHERE decided.plan_digest = report.plan_digest)
      AND EXISTS (
          SELECT 1 FROM opsguard.reports AS newer
          WHERE newer.guard = report.guard AND newer.watch = report.watch AND newer.id > report.id
      )
""")

_PLANS: Final = _named("""
    DELETE FROM opsguard.plans AS plan
    WHERE plan.recorded_at < now() - :age
      AND NOT EXISTS (SELECT 1 FROM opsguard.reports AS report WHERE report.plan_digest = plan.digest)
      AND NOT EXISTS (SELECT 1 FROM opsguard.decisions AS decided WHERE decided.plan_digest = plan.digest)
      AND NOT EXISTS (SELECT 1 FROM opsguard.journal AS entry WHERE entry.plan_digest = plan.digest)
      AND NOT EXISTS (SELECT 1 FROM opsguard.receipts AS receipt WHERE receipt.plan_digest = plan.digest)
""")

# An alert in doubt, or given up, stays until a person has looked.
_ALERTS: Final = _named("DELETE FROM opsguard.outbox WHERE status = 'sent' AND settled_at < now() - :age")

_FIRST_SEEN: Final = _named("DELETE FROM opsguard.first_seen WHERE asked_at < now() - :age")


# Of the reports of one UTC day exactly one follows a report of an earlier day (or none): no row has to remember who it was.
_IS_FIRST_OF_ITS_DAY: Final = text("""
    SELECT coalesce(
        (
            SELECT earlier.reported_at < date_trunc('day', now(), 'UTC')
            FROM opsguard.reports AS earlier
            WHERE earlier.id < mine.id ORDER BY earlier.id DESC LIMIT 1
        ),
        true
    )
    FROM opsguard.reports AS mine WHERE mine.run_id = :run_id ORDER BY mine.id DESC LIMIT 1
""")


def prune_daily(connection: Connection, days: int, *, run_id: str) -> Pruned | None:
    """None unless this run's report is the first one of its day in this store: 100 reports a day prune once."""
    return prune(connection, days) if connection.execute(_IS_FIRST_OF_ITS_DAY, {"run_id": run_id}).scalar() else None


def prune(connection: Connection, days: int) -> Pruned:
    """Everything older than `days` (1 or more) that may go."""
    if days < 1:
        raise ConfigurationError("retention is 1 day or more: nothing was pruned")
    age = {"age": timedelta(days=days)}
    reports, plans, alerts, seen = (
        connection.execute(statement, age).rowcount for statement in (_REPORTS, _PLANS, _ALERTS, _FIRST_SEEN)
    )
    return Pruned(reports=reports, plans=plans, alerts=alerts, first_seen=seen)

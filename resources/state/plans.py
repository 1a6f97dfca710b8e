"""Plans by digest, and the reports that proposed them. A plan is written once; each report of it is one more row.

The 20,000 findings of a report are one value: they are written and read together, never searched.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, func, select
from sqlalchemy.dialects.postgresql import insert

from guards.canonical import Json, digest
from guards.decision import choose_digest, governing
from guards.plan import FEWEST_DIGITS, SHORT_DIGITS, Plan
from guards.refusal import RefusalCode, Refused
from resources.state import clock
from resources.state.decisions import load_many
from resources.state.errors import Altered
from resources.state.plan_state import PlanState, plan_state
from resources.state.tables import plans, reports

_ALTERED: Final = "the stored plan no longer has its digest: somebody altered the database by hand. Report again, approve nothing"
_CANDIDATES: Final = 4
"""Two matches already make a prefix ambiguous; a few more make the sentence useful."""


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """One plan as its latest report proposed it. `gaps` counts findings; `counts` is verdict to number of findings."""

    digest: str
    guard: str
    watch: str
    scope: Mapping[str, Json]
    policy: Mapping[str, Json]
    targets: tuple[Mapping[str, Json], ...]
    overrides: Mapping[str, Json]
    counts: Mapping[str, int]
    gaps: int
    observation: str
    first_reported_at: datetime
    last_reported_at: datetime
    run_id: str
    """The run that made the latest report."""
    state: PlanState

    @property
    def short(self) -> str:
        return self.digest[:SHORT_DIGITS]


@dataclass(frozen=True, slots=True)
class StoredPlan(PlanSummary):
    """`findings` are those of the latest report, as `guards.finding.Finding.as_json` made them."""

    findings: tuple[Mapping[str, Json], ...]


def record(connection: Connection, plan: Plan[Any], *, run_id: str, overrides: Mapping[str, Json]) -> StoredPlan:
    """The plan (once per digest) and one report of it. `Altered` when what is stored under this digest is something else."""
    reported_at = clock.now(connection)
    _keep(connection, plan, reported_at)
    connection.execute(
        insert(reports).values(
            plan_digest=plan.digest,
            guard=plan.guard,
            watch=plan.watch,
            run_id=run_id,
            overrides=overrides,
            observation=plan.observation,
            counts=plan.counts,
            gaps=len(plan.gaps),
            findings=[finding.as_json() for finding in plan.findings],
            reported_at=reported_at,
        )
    )
    stored = load(connection, plan.digest)
    if isinstance(stored, Refused):
        raise Altered(stored.message)
    return stored


def _keep(connection: Connection, plan: Plan[Any], recorded_at: datetime) -> None:
    """The plan's row is there, and stays until this transaction ends: pruning may have been about to take it."""
    fresh = (
        insert(plans)
        .values(
            digest=plan.digest,
            guard=plan.guard,
            watch=plan.watch,
            scope=plan.scope,
            policy=plan.policy,
            targets=[dict(target.as_json()) for target in plan.targets],
            target_count=len(plan.targets),
            recorded_at=recorded_at,
        )
        .on_conflict_do_nothing(index_elements=[plans.c.digest])
    )
    held = select(plans.c.digest).where(plans.c.digest == plan.digest).with_for_update(read=True, key_share=True)
    connection.execute(fresh)
    if connection.execute(held).one_or_none() is None:
        connection.execute(fresh)


def find(connection: Connection, prefix: str, *, fewest: int = FEWEST_DIGITS) -> StoredPlan | Refused:
    """The one plan whose digest begins with `prefix`; refused when short, unknown, ambiguous, or altered since it was stored."""
    wanted = prefix.strip().lower()
    known: Sequence[str] = ()
    if re.fullmatch(r"[0-9a-f]{1,64}", wanted):
        statement = select(plans.c.digest).where(plans.c.digest.startswith(wanted)).order_by(plans.c.digest).limit(_CANDIDATES)
        known = connection.execute(statement).scalars().all()
    chosen = choose_digest(prefix, known, fewest=fewest)
    return chosen if isinstance(chosen, Refused) else load(connection, chosen)


def load(connection: Connection, plan_digest: str) -> StoredPlan | Refused:
    latest = select(func.max(reports.c.id)).where(reports.c.plan_digest == plan_digest).scalar_subquery()
    row = connection.execute(_joined(reports.c.findings).where(reports.c.id == latest)).one_or_none()
    if row is None:
        return Refused(RefusalCode.NOT_APPROVED, f"no recorded plan is {plan_digest[:SHORT_DIGITS]}: `opsguard plans` lists them")
    if not _is_intact(row):
        return Refused(RefusalCode.STALE, f"plan {plan_digest[:SHORT_DIGITS]}: {_ALTERED}")
    (common,) = _summaries(connection, [row])
    return StoredPlan(**common, findings=tuple(row.findings))


def newest_first(connection: Connection, *, guard: str | None, watch: str | None, limit: int) -> list[PlanSummary]:
    """By latest report. A plan that was altered by hand is shown as incomplete, with no targets."""
    latest = select(func.max(reports.c.id).label("id")).group_by(reports.c.plan_digest)
    if guard is not None:
        latest = latest.where(reports.c.guard == guard)
    if watch is not None:
        latest = latest.where(reports.c.watch == watch)
    chosen = latest.order_by(func.max(reports.c.id).desc()).limit(limit).subquery()
    rows = connection.execute(_joined().join(chosen, chosen.c.id == reports.c.id).order_by(reports.c.id.desc())).all()
    return [PlanSummary(**common) for common in _summaries(connection, rows)]


def _joined(*more: Any) -> Select[Any]:
    return select(
        plans.c.digest,
        plans.c.guard,
        plans.c.watch,
        plans.c.scope,
        plans.c.policy,
        plans.c.targets,
        plans.c.recorded_at,
        reports.c.id.label("report_id"),
        reports.c.run_id,
        reports.c.overrides,
        reports.c.observation,
        reports.c.counts,
        reports.c.gaps,
        reports.c.reported_at,
        *more,
    ).join_from(plans, reports, reports.c.plan_digest == plans.c.digest)


def _is_intact(row: Row[Any]) -> bool:
    signed = {"guard": row.guard, "watch": row.watch, "scope": row.scope, "policy": row.policy, "targets": row.targets}
    intact: bool = digest(signed) == row.digest
    return intact


def _summaries(connection: Connection, rows: Sequence[Row[Any]]) -> Iterable[dict[str, Any]]:
    now = clock.now(connection)
    decided = load_many(connection, [row.digest for row in rows])
    newest = _newest_reports(connection, {(row.guard, row.watch) for row in rows})
    for row in rows:
        intact = _is_intact(row)
        observation = row.observation if intact else _ALTERED
        targets = tuple(row.targets) if intact else ()
        yield {
            "digest": row.digest,
            "guard": row.guard,
            "watch": row.watch,
            "scope": row.scope,
            "policy": row.policy,
            "targets": targets,
            "overrides": row.overrides,
            "counts": row.counts,
            "gaps": row.gaps,
            "observation": observation,
            "first_reported_at": row.recorded_at,
            "last_reported_at": row.reported_at,
            "run_id": row.run_id,
            "state": plan_state(
                has_targets=bool(targets),
                observation=observation,
                decision=governing(decided.get(row.digest, ())),
                is_newest=newest[row.guard, row.watch] == row.report_id,
                last_reported_at=row.reported_at,
                now=now,
            ),
        }


def _newest_reports(connection: Connection, watches: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    return {
        (guard, watch): connection.execute(
            select(func.max(reports.c.id)).where(reports.c.guard == guard, reports.c.watch == watch)
        ).scalar_one()
        for guard, watch in sorted(watches)
    }

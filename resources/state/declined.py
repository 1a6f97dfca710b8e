"""What people have said no to and still stands: the targets of declined plans."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from guards.canonical import Json, digest
from guards.decision import DecisionKind
from guards.plan import SHORT_DIGITS
from resources.state import clock
from resources.state.decisions import load_many
from resources.state.errors import Altered
from resources.state.tables import decisions, plans


@dataclass(frozen=True, slots=True)
class DeclinedPlan:
    """`targets` as the plan holds them, `until` when the decline ends."""

    plan_digest: str
    targets: tuple[Mapping[str, Json], ...]
    by: str
    until: datetime


def declined(connection: Connection, *, guard: str, watch: str) -> tuple[DeclinedPlan, ...]:
    """Every decline that stands now, oldest first. `Altered` when a plan or a decision is not what was recorded: whoever asks is about
    to write, and may not take that for "nobody declined"."""
    now = clock.now(connection)
    standing = (
        select(decisions.c.plan_digest)
        .where(decisions.c.kind == DecisionKind.DECLINED.value, decisions.c.valid_until > now)
        .distinct()
    )
    rows = connection.execute(
        select(plans).where(plans.c.guard == guard, plans.c.watch == watch, plans.c.digest.in_(standing))
    ).all()
    known = load_many(connection, [row.digest for row in rows])
    found = []
    for row in rows:
        signed = {"guard": row.guard, "watch": row.watch, "scope": row.scope, "policy": row.policy, "targets": row.targets}
        if digest(signed) != row.digest:
            raise Altered(f"the declined plan {row.digest[:SHORT_DIGITS]} no longer has its digest: nothing is sent by itself")
        found += [
            (each.decision_id, DeclinedPlan(row.digest, tuple(row.targets), each.decided_by, each.valid_until))
            for each in known.get(row.digest, ())
            if each.kind is DecisionKind.DECLINED and now < each.valid_until
        ]
    return tuple(one for _, one in sorted(found, key=lambda each: each[0]))

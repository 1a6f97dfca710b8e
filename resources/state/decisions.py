"""Decisions: what people answered to plans, recorded once and never edited; and the single use of each approval."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, select
from sqlalchemy.dialects.postgresql import insert

from guards.canonical import digest
from guards.decision import Decision, DecisionKind, governing
from guards.gate import Authorization
from guards.plan import SHORT_DIGITS
from guards.refusal import RefusalCode, Refused
from resources.errors import ConfigurationError
from resources.state import clock
from resources.state.errors import Altered
from resources.state.leases import hold_fence, is_live, lost
from resources.state.plan_state import was_reported_since_use
from resources.state.tables import approval_uses, decisions, plans, reports

LONGEST_NAME: Final = 120
LONGEST_COMMENT: Final = 2_000
LONGEST_VALIDITY: Final = timedelta(days=90)


def decide(
    connection: Connection,
    plan_digest: str,
    *,
    kind: DecisionKind,
    by: str,
    comment: str,
    valid_for: timedelta,
    channel: str,
    run_id: str,
) -> Decision | Refused:
    """Recorded once: the same answer by the same person, still standing, is the one already recorded.

    Bad words (who, why, how long) are `ConfigurationError`; nothing was recorded.
    """
    _check_words(by=by, comment=comment, valid_for=valid_for)
    # The plan's row is the lock that orders decisions on it and the use of its approval.
    plan = connection.execute(
        select(plans.c.target_count).where(plans.c.digest == plan_digest).with_for_update(key_share=True)
    ).one_or_none()
    short = plan_digest[:SHORT_DIGITS]
    if plan is None:
        return Refused(RefusalCode.NOT_APPROVED, f"no recorded plan is {short}: `opsguard plans` lists them")
    if plan.target_count == 0:
        return Refused(RefusalCode.NOTHING_TO_DO, f"plan {short} has no targets: there is nothing to decide")
    now = clock.now(connection)
    known = load(connection, plan_digest)
    standing = governing(known)
    if standing is not None and _says_the_same(standing, kind=kind, by=by, now=now):
        return standing
    if kind is DecisionKind.APPROVED and (refused := _cannot_approve(connection, known, standing, plan_digest, now)):
        return refused
    signed = _signed(plan_digest, kind, by, comment, channel, run_id, now, now + valid_for)
    number = connection.execute(
        insert(decisions)
        .values(
            plan_digest=plan_digest,
            kind=kind.value,
            decided_by=by,
            comment=comment,
            channel=channel,
            run_id=run_id,
            decided_at=now,
            valid_until=now + valid_for,
            digest=signed,
        )
        .returning(decisions.c.id)
    ).scalar_one()
    return Decision(
        decision_id=number,
        plan_digest=plan_digest,
        kind=kind,
        decided_by=by,
        comment=comment,
        decided_at=now,
        valid_until=now + valid_for,
        channel=channel,
    )


def _check_words(*, by: str, comment: str, valid_for: timedelta) -> None:
    if not (1 <= len(by) <= LONGEST_NAME and by.isprintable() and by.strip()):
        raise ConfigurationError(f"say who decides, in 1 to {LONGEST_NAME} printable characters: nothing was recorded")
    if len(comment) > LONGEST_COMMENT:
        raise ConfigurationError(
            f"the comment has {len(comment)} characters, {LONGEST_COMMENT} are allowed: nothing was recorded"
        )
    if not timedelta(0) < valid_for <= LONGEST_VALIDITY:
        raise ConfigurationError(f"a decision is valid for up to {LONGEST_VALIDITY.days} days from now: nothing was recorded")


def _says_the_same(standing: Decision, *, kind: DecisionKind, by: str, now: datetime) -> bool:
    return standing.kind is kind and standing.decided_by == by and not standing.used_by and now < standing.valid_until


def _cannot_approve(
    connection: Connection, known: Sequence[Decision], standing: Decision | None, plan_digest: str, now: datetime
) -> Refused | None:
    short = plan_digest[:SHORT_DIGITS]
    latest = connection.execute(
        select(reports.c.observation, reports.c.reported_at)
        .where(reports.c.plan_digest == plan_digest)
        .order_by(reports.c.id.desc())
        .limit(1)
    ).one()
    if latest.observation:
        return Refused(
            RefusalCode.OBSERVATION_INCOMPLETE, f"plan {short} rests on an incomplete observation: {latest.observation}"
        )
    last_decline = max(
        (each for each in known if each.kind is DecisionKind.DECLINED), key=lambda each: each.valid_until, default=None
    )
    if last_decline is not None and now < last_decline.valid_until:
        return Refused(
            RefusalCode.DECLINED,
            f"plan {short} was declined by {last_decline.decided_by}, and that stands until "
            f"{last_decline.valid_until:%Y-%m-%d %H:%M} UTC",
        )
    if standing is not None and standing.used_by and not was_reported_since_use(standing, latest.reported_at):
        return Refused(
            RefusalCode.ALREADY_USED,
            f"the approval of plan {short} was used by run {standing.used_by}: report again, and approve what is still open",
        )
    return None


def use(connection: Connection, authorization: Authorization) -> Refused | None:
    """The one use of an approval, under a live fence. The same run asking again is fine; anybody else is refused."""
    used = connection.execute(
        select(approval_uses.c.used_by).where(approval_uses.c.decision_id == authorization.approval_id)
    ).scalar_one_or_none()
    if not is_live(connection, authorization):
        if used == authorization.holder:
            raise lost(authorization.scope, authorization.fence)
        return Refused(RefusalCode.BUSY, f"the lease on {authorization.scope} ended before anything was written: apply again")
    hold_fence(connection, authorization)
    connection.execute(
        select(plans.c.digest).where(plans.c.digest == authorization.plan_digest).with_for_update(key_share=True)
    ).one_or_none()
    known = load(connection, authorization.plan_digest)
    if refused := _cannot_use(known, authorization, clock.now(connection)):
        return refused
    connection.execute(
        insert(approval_uses)
        .values(
            decision_id=authorization.approval_id,
            used_by=authorization.holder,
            fence=authorization.fence,
            used_at=clock.current(),
        )
        .on_conflict_do_nothing(index_elements=[approval_uses.c.decision_id])
    )
    return None


def _cannot_use(known: Sequence[Decision], authorization: Authorization, now: datetime) -> Refused | None:
    short = authorization.plan_digest[:SHORT_DIGITS]
    mine = next((each for each in known if each.decision_id == authorization.approval_id), None)
    if mine is None or mine.kind is not DecisionKind.APPROVED:
        return Refused(RefusalCode.NOT_APPROVED, f"nobody has approved plan {short}: `opsguard approve {short} --by YOU`")
    if mine.used_by:
        if mine.used_by == authorization.holder:
            return None
        return Refused(
            RefusalCode.ALREADY_USED,
            f"the approval of plan {short} was used by run {mine.used_by}: report again, and approve what is still open",
        )
    rules = governing(known)
    if rules is not None and rules.kind is DecisionKind.DECLINED:
        return Refused(RefusalCode.DECLINED, f"plan {short} was declined by {rules.decided_by}: report again and ask again")
    if now >= mine.valid_until:
        return Refused(
            RefusalCode.EXPIRED, f"the approval of plan {short} ended at {mine.valid_until:%Y-%m-%d %H:%M} UTC: approve again"
        )
    return None


def load(connection: Connection, plan_digest: str) -> tuple[Decision, ...]:
    return load_many(connection, [plan_digest]).get(plan_digest, ())


def load_many(connection: Connection, digests: Sequence[str]) -> dict[str, tuple[Decision, ...]]:
    """By plan digest, oldest first. `Altered` when a row is not what was recorded."""
    statement = (
        select(decisions, approval_uses.c.used_by, approval_uses.c.used_at)
        .join_from(decisions, approval_uses, approval_uses.c.decision_id == decisions.c.id, isouter=True)
        .where(decisions.c.plan_digest.in_(digests))
        .order_by(decisions.c.id)
    )
    found: dict[str, tuple[Decision, ...]] = {}
    for row in connection.execute(statement):
        found[row.plan_digest] = (*found.get(row.plan_digest, ()), _decision(row))
    return found


def _decision(row: Row[Any]) -> Decision:
    kind = DecisionKind(row.kind)
    signed = _signed(row.plan_digest, kind, row.decided_by, row.comment, row.channel, row.run_id, row.decided_at, row.valid_until)
    if signed != row.digest:
        raise Altered(
            f"decision {row.id} on plan {row.plan_digest[:SHORT_DIGITS]} is not what was recorded: somebody altered the database by "
            "hand. Nothing is written for this plan; restore a backup, or report again once its world has changed"
        )
    return Decision(
        decision_id=row.id,
        plan_digest=row.plan_digest,
        kind=kind,
        decided_by=row.decided_by,
        comment=row.comment,
        decided_at=row.decided_at,
        valid_until=row.valid_until,
        channel=row.channel,
        used_by=row.used_by or "",
        used_at=row.used_at,
    )


def _signed(
    plan_digest: str,
    kind: DecisionKind,
    by: str,
    comment: str,
    channel: str,
    run_id: str,
    decided_at: datetime,
    valid_until: datetime,
) -> str:
    return digest([plan_digest, kind.value, by, comment, channel, run_id, decided_at.isoformat(), valid_until.isoformat()])

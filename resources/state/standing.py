"""Standing approvals and their revocations: recorded once, never edited. The rule on what they cover is `guards.delivery.standing`."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, insert, select

from guards.delivery.slot import Kind, NotASlot, Slot
from guards.delivery.standing import StandingApproval
from guards.refusal import RefusalCode, Refused
from resources.errors import ConfigurationError
from resources.state import clock
from resources.state.declined import DeclinedPlan, declined
from resources.state.engine import reading, writing
from resources.state.tables import standing_approvals, standing_revocations

LONGEST: Final = timedelta(days=366)
MOST_CUSTOMERS: Final = 1_000
LONGEST_NAME: Final = 120
LONGEST_COMMENT: Final = 2_000


class StandingStore:
    """One transaction per call."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def allow(
        self, watch: str, *, customers: Collection[str], kinds: Collection[str], by: str, comment: str = "", until: datetime
    ) -> StandingApproval:
        """From now (the database's) until `until`, aware and a year ahead at most. Bad words are `ConfigurationError`."""
        named = _checked(watch, customers, kinds)
        _check_words(by, comment)

        def work(connection: Connection) -> StandingApproval:
            now = clock.now(connection)
            if until.tzinfo is None or not now < until <= now + LONGEST:
                raise ConfigurationError(
                    f"a standing approval ends at a time with its zone, in {LONGEST.days} days at most: nothing was recorded"
                )
            number = connection.execute(
                insert(standing_approvals)
                .values(
                    watch=watch,
                    customers=named[0],
                    kinds=named[1],
                    approved_by=by,
                    comment=comment,
                    until=until,
                    recorded_at=now,
                )
                .returning(standing_approvals.c.id)
            ).scalar_one()
            return _load(connection, standing_approvals.c.id == number)[0]

        return writing(self._engine, "the standing approval", work)

    def declined(self, watch: str) -> tuple[DeclinedPlan, ...]:
        """What beats them: every decline of this watch's plans that stands now, with the targets it is about."""
        return reading(self._engine, lambda c: declined(c, guard="delivery", watch=watch))

    def revoke(self, approval_id: int, *, by: str, comment: str = "") -> StandingApproval | Refused:
        """Once; the same again finds who did. One that has ended by itself can be revoked too."""
        _check_words(by, comment)

        def work(connection: Connection) -> StandingApproval | Refused:
            lock = select(standing_approvals.c.id).where(standing_approvals.c.id == approval_id).with_for_update()
            if connection.execute(lock).one_or_none() is None:
                return Refused(
                    RefusalCode.NOT_APPROVED, f"there is no standing approval {approval_id}: `opsguard standing list` shows them"
                )
            (found,) = _load(connection, standing_approvals.c.id == approval_id)
            if found.revoked_at is None:
                values = {"approval_id": approval_id, "revoked_by": by, "comment": comment, "recorded_at": clock.now(connection)}
                connection.execute(insert(standing_revocations).values(values))
                (found,) = _load(connection, standing_approvals.c.id == approval_id)
            return found

        return writing(self._engine, "the revocation", work)

    def live(self, watch: str) -> tuple[StandingApproval, ...]:
        """Oldest first, judged by the database clock."""

        def work(connection: Connection) -> tuple[StandingApproval, ...]:
            found = _load(connection, standing_approvals.c.watch == watch)
            now = clock.now(connection)
            return tuple(each for each in found if each.is_live(now))

        return reading(self._engine, work)

    def all(self) -> tuple[StandingApproval, ...]:
        """Oldest first, also those that ended or were revoked."""
        return reading(self._engine, lambda connection: _load(connection))


def _load(connection: Connection, *where: Any) -> tuple[StandingApproval, ...]:
    statement = (
        select(
            standing_approvals,
            standing_revocations.c.revoked_by,
            standing_revocations.c.recorded_at.label("revoked_at"),
        )
        .join_from(standing_approvals, standing_revocations, isouter=True)
        .where(*where)
        .order_by(standing_approvals.c.id)
    )
    return tuple(_approval(row) for row in connection.execute(statement))


def _approval(row: Row[Any]) -> StandingApproval:
    return StandingApproval(
        id=row.id,
        watch=row.watch,
        customers=tuple(row.customers),
        kinds=tuple(row.kinds),
        approved_by=row.approved_by,
        comment=row.comment,
        until=row.until,
        recorded_at=row.recorded_at,
        revoked_at=row.revoked_at,
        revoked_by=row.revoked_by or "",
    )


def _checked(watch: str, customers: Collection[str], kinds: Collection[str]) -> tuple[list[str], list[str]]:
    """Sorted and each once."""
    named, allowed = sorted(set(customers)), sorted(set(kinds))
    if not (watch and watch.isprintable()):
        raise ConfigurationError("say which watch the standing approval is for: nothing was recorded")
    if not 1 <= len(named) <= MOST_CUSTOMERS or not allowed:
        raise ConfigurationError(
            f"a standing approval names 1 to {MOST_CUSTOMERS} customers and at least one kind: nothing was recorded"
        )
    try:
        for customer in named:
            Slot(customer, "any", Kind.DAILY)
        for kind in allowed:
            Slot("any", "any", kind)
    except NotASlot as problem:
        raise ConfigurationError(f"{problem}: nothing was recorded") from None
    return named, allowed


def _check_words(by: str, comment: str) -> None:
    if not (1 <= len(by) <= LONGEST_NAME and by.isprintable() and by.strip()):
        raise ConfigurationError(f"say who, in 1 to {LONGEST_NAME} printable characters: nothing was recorded")
    if len(comment) > LONGEST_COMMENT:
        raise ConfigurationError(f"a comment has {LONGEST_COMMENT} characters at most: nothing was recorded")

"""The heads of ledgers as they were published: kept apart from the ledgers, so that one that was cut back, exchanged or lost is noticed.

Keyed by watch: which ledger a watch keeps, how far it had got, and what its registry counted as one message. A person's acceptance of
another ledger is a row too.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, Engine, bindparam, insert, select, text

from guards.delivery.row import Head
from resources.state.clock import current
from resources.state.columns import ExactText
from resources.state.engine import reading, writing
from resources.state.tables import published_heads

_ONE_AT_A_TIME: Final = text("LOCK TABLE opsguard.published_heads IN SHARE ROW EXCLUSIVE MODE")
"""Before the newest is looked for: an older one that was not compared with a newer one would follow it."""

_PUBLISH: Final = text("""
    WITH latest AS (
        SELECT store, sequence, digest, slot_identity FROM opsguard.published_heads
        WHERE watch = :watch AND (:watch <> '' OR store = :store) ORDER BY id DESC LIMIT 1
    ), wanted AS (
        SELECT CASE WHEN :slot_identity <> '' THEN :slot_identity ELSE coalesce((SELECT slot_identity FROM latest), '') END AS slot_identity
    )
    INSERT INTO opsguard.published_heads (watch, store, sequence, digest, slot_identity, run_id, accepted_by, comment, recorded_at)
    SELECT :watch, :store, :sequence, :digest, wanted.slot_identity, :run_id, '', '', clock_timestamp() FROM wanted
    WHERE NOT EXISTS (
        SELECT FROM latest WHERE latest.store = :store AND latest.slot_identity = wanted.slot_identity
        AND ((latest.sequence = :sequence AND latest.digest = :digest) OR (:watch <> '' AND latest.sequence > :sequence))
    )
    AND NOT EXISTS (
        SELECT FROM latest WHERE :watch <> ''
        AND (latest.store <> :store OR (latest.slot_identity <> '' AND latest.slot_identity <> wanted.slot_identity))
    )
""").bindparams(*(bindparam(name, type_=ExactText) for name in ("watch", "store", "slot_identity", "run_id")))


@dataclass(frozen=True, slots=True)
class Published:
    """The newest row of one watch. `slot_identity` is "" while no registry was read; `accepted_by` "" when a run published it."""

    store: str
    head: Head
    slot_identity: str
    at: datetime
    accepted_by: str = ""
    comment: str = ""


class PublishedStore:
    """One transaction per call. `store` is what the ledger calls itself (`Health.store`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def publish(self, store: str, head: Head, *, run_id: str, watch: str = "", slot_identity: str = "") -> None:
        """The same head again leaves no second row, and of one watch and store neither does an older one: it was seen before the newest.
        Nor does another store or `slot_identity` than the watch's: a person accepted that one meanwhile. Without a `slot_identity` the
        watch keeps the one that is known."""

        def work(connection: Connection) -> None:
            connection.execute(_ONE_AT_A_TIME)
            connection.execute(
                _PUBLISH,
                {
                    "watch": watch,
                    "store": store,
                    "sequence": head.sequence,
                    "digest": head.digest,
                    "slot_identity": slot_identity,
                    "run_id": run_id,
                },
            )

        writing(self._engine, "the published head", work)

    def accept(self, watch: str, store: str, head: Head, *, slot_identity: str, by: str, comment: str) -> None:
        """A person says that this is the watch's ledger from now on."""

        def work(connection: Connection) -> None:
            connection.execute(
                insert(published_heads).values(
                    watch=watch,
                    store=store,
                    sequence=head.sequence,
                    digest=head.digest,
                    slot_identity=slot_identity,
                    run_id="",
                    accepted_by=by,
                    comment=comment,
                    recorded_at=current(),
                )
            )

        writing(self._engine, "the acceptance", work)

    def of_watch(self, watch: str) -> Published | None:
        """The newest that was published or accepted for it, None when nothing ever was."""

        def work(connection: Connection) -> Published | None:
            statement = (
                select(published_heads).where(published_heads.c.watch == watch).order_by(published_heads.c.id.desc()).limit(1)
            )
            row = connection.execute(statement).one_or_none()
            if row is None:
                return None
            head = Head(row.sequence, row.digest)
            return Published(row.store, head, row.slot_identity, row.recorded_at, row.accepted_by, row.comment)

        return reading(self._engine, work)

    def last(self, store: str) -> Head | None:
        """The newest one of this store, for whichever watch, None when there is none."""

        def work(connection: Connection) -> Head | None:
            statement = (
                select(published_heads.c.sequence, published_heads.c.digest)
                .where(published_heads.c.store == store)
                .order_by(published_heads.c.id.desc())
                .limit(1)
            )
            row = connection.execute(statement).one_or_none()
            return Head(row.sequence, row.digest) if row is not None else None

        return reading(self._engine, work)

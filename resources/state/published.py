"""The heads of ledgers as they were published: kept apart from the ledgers, so that one that was cut back is noticed."""

from typing import Final

from sqlalchemy import Connection, Engine, bindparam, select, text

from guards.delivery.row import Head
from resources.state.columns import ExactText
from resources.state.engine import reading, writing
from resources.state.tables import published_heads

_PUBLISH: Final = text("""
    INSERT INTO opsguard.published_heads (store, sequence, digest, run_id, recorded_at)
    SELECT :store, :sequence, :digest, :run_id, clock_timestamp()
    WHERE NOT EXISTS (
        SELECT FROM (
            SELECT sequence, digest FROM opsguard.published_heads WHERE store = :store ORDER BY id DESC LIMIT 1
        ) AS latest WHERE latest.sequence = :sequence AND latest.digest = :digest
    )
""").bindparams(bindparam("store", type_=ExactText), bindparam("run_id", type_=ExactText))


class PublishedStore:
    """One transaction per call. `store` is what the ledger calls itself (`Health.store`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def publish(self, store: str, head: Head, *, run_id: str) -> None:
        """The same head again leaves no second row."""

        def work(connection: Connection) -> None:
            connection.execute(
                _PUBLISH,
                {"store": store, "sequence": head.sequence, "digest": head.digest, "run_id": run_id},
            )

        writing(self._engine, "the published head", work)

    def last(self, store: str) -> Head | None:
        """The newest one that was published, None when there is none."""

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

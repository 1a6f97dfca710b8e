"""Migrations are applied when the store is opened; any number of processes may open it at once.

The usual open asks one question (which revision?) and does not load Alembic at all.
"""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, text, update

from resources.errors import ConfigurationError
from resources.state.engine import reading, writing
from resources.state.tables import SCHEMA

REVISION: Final = "0002"
"""The newest revision this program knows; a test compares it with the migration scripts."""
OLDEST_SERVER: Final = 130000
_LOCK: Final = 0x6F707367  # "opsg": the advisory lock that serialises migrations of one database


def migrate(engine: Engine) -> None:
    """The schema as this program needs it, or `ConfigurationError` for a database that is too old or too new."""
    if reading(engine, _revision) != REVISION:
        writing(engine, "the migration of the state database", _upgrade)


def _revision(connection: Connection) -> str | None:
    version = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if version < OLDEST_SERVER:
        raise ConfigurationError(f"PostgreSQL 13 or later is needed for the state database; this one is {version // 10000}")
    found = connection.execute(text("SELECT to_regclass(:name) IS NOT NULL"), {"name": f"{SCHEMA}.alembic_version"}).scalar_one()
    if not found:
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM opsguard.alembic_version")).scalar_one_or_none()
    if revision is not None and revision > REVISION:
        raise ConfigurationError(
            f"the state database was made by a newer OpsGuard (revision {revision}, this one knows {REVISION}): upgrade this program"
        )
    return revision


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    if _revision(connection) == REVISION:
        return
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS opsguard"))
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, REVISION)
    _name_the_place(connection)


def _name_the_place(connection: Connection) -> None:
    """Of a ledger without a row, too: what was sent since is not in a dump of it."""
    from resources.state.ledger_verify import store_and_server
    from resources.state.tables import ledger_head

    here = store_and_server(connection).here
    connection.execute(update(ledger_head).where(ledger_head.c.server == "").values(server=here))

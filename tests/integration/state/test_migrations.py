"""The schema: what the migrations make is what the queries name, and a database of another time is refused."""

from datetime import UTC, datetime

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

import resources.state.migrations as migrations
from guards.canonical import canonical_json
from guards.delivery.entry import Entry, Event, advance
from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head, append
from guards.delivery.slot import Grant
from resources.errors import ConfigurationError
from resources.state import StateStore
from resources.state.engine import open_engine
from resources.state.ledger_rows import project
from resources.state.migrate import REVISION
from resources.state.tables import SCHEMA, metadata
from tests.integration.state.children import SLOT
from tests.need import unavailable

PINS = Pins({"a": 1})


def test_the_newest_revision_is_the_one_the_program_knows():
    scripts = ScriptDirectory(str(next(iter(migrations.__path__))))
    assert scripts.get_current_head() == REVISION


def test_the_migrations_make_the_tables_that_the_queries_name(state_store):
    def ours(entry, name, kind, _reflected, _compared):
        return getattr(entry, "schema", None) == SCHEMA if kind == "table" else kind != "index"

    with state_store.engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table_schema": SCHEMA,
                "include_schemas": True,
                "include_object": ours,
                "compare_server_default": False,
            },
        )
        differences = [each for each in compare_metadata(context, metadata) if "alembic_version" not in str(each)]
    assert differences == []


def test_a_database_of_a_newer_program_is_refused(state_store, database_url):
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE opsguard.alembic_version SET version_num = '0999'")
    with pytest.raises(ConfigurationError, match="newer OpsGuard"):
        StateStore.open(database_url)


def test_dagsters_tables_in_the_same_database_are_left_alone(empty_database_url):
    """Dagster keeps its own alembic_version in schema public."""
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("CREATE TABLE public.alembic_version (version_num varchar(32) PRIMARY KEY)")
        connection.execute("INSERT INTO public.alembic_version VALUES ('dagsters')")
    with StateStore.open(empty_database_url) as store, store.engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM public.alembic_version")).scalar_one() == "dagsters"


def test_a_user_of_the_schemas_name_still_finds_dagsters_tables_in_public(empty_database_url):
    """The search path "$user", public: once schema opsguard is there, Dagster's tables would go into it, alembic_version first."""
    with psycopg.connect(empty_database_url) as admin:
        owner = admin.execute("SELECT current_user").fetchone()[0]
    if owner != "opsguard":
        unavailable("a role called opsguard", "the embedded PostgreSQL has it")
    StateStore.open(empty_database_url).close()
    with psycopg.connect(empty_database_url) as bare:
        assert bare.execute("SELECT current_schema()").fetchone() == ("public",)


def test_a_migration_that_fails_leaves_nothing_behind(empty_database_url):
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("CREATE SCHEMA opsguard")
        connection.execute("CREATE TABLE opsguard.outbox (id int)")
    with pytest.raises(Exception, match="already exists"):
        StateStore.open(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        tables = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'opsguard'").fetchall()
    assert tables == [("outbox",)]


def test_a_user_without_privileges_on_the_server_keeps_a_ledger_too(empty_database_url, postgres_url):
    """Managed servers do not let everybody ask for the system identifier: then a change of server is not noticed, all else works."""

    with psycopg.connect(empty_database_url, autocommit=True) as admin:
        admin.execute("REVOKE EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint() FROM PUBLIC")
        admin.execute("DROP ROLE IF EXISTS opsguard_plain")
        admin.execute("CREATE ROLE opsguard_plain LOGIN PASSWORD 'plain'")
        database = admin.execute("SELECT current_database()").fetchone()[0]
        admin.execute(psycopg.sql.SQL("GRANT CREATE ON DATABASE {} TO opsguard_plain").format(psycopg.sql.Identifier(database)))
    host = empty_database_url.split("@", 1)[1]
    with StateStore.open(f"postgresql://opsguard_plain:plain@{host}") as store:
        assert store.ledger.reserve(SLOT, Pins({"a": 1}), key="k").state is ReservationState.PREPARED
        assert store.ledger.verify().faults == ()
    with psycopg.connect(empty_database_url, autocommit=True) as admin:
        admin.execute("DROP OWNED BY opsguard_plain CASCADE")
        admin.execute("DROP ROLE opsguard_plain")


def test_a_ledger_of_the_first_revision_is_carried_over_as_it_is(empty_database_url):
    """Upgraded over night: what was claimed before is claimed afterwards, its chain still verifies, and it goes on where it is."""
    from resources.state import migrate

    engine = open_engine(empty_database_url)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(migrate, "REVISION", "0001")
        migrate.migrate(engine)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT version_num FROM opsguard.alembic_version")).scalar_one() == "0001"
        assert connection.execute(text("SELECT to_regclass('opsguard.standing_approvals')")).scalar_one() is None
        _two_attempts_of_the_first_revision(connection)
    engine.dispose()
    with StateStore.open(empty_database_url) as store:
        assert store.ledger.verify().faults == ()
        assert store.ledger.health().recovery == ""
        assert [one.state for one in store.ledger.of(SLOT)] == [ReservationState.KNOWN_FAILURE, ReservationState.PREPARED]
        assert isinstance(store.ledger.grant(SLOT.reservation_id(2), holder="run-9"), Grant)
        assert store.standing.all() == ()


def _two_attempts_of_the_first_revision(connection):
    """As the first release wrote them: answers without the approvals used, the head without the database."""
    opened = {"slot": SLOT, "holder": "", "pins_digest": PINS.digest, "pins": PINS, "event": Event.OPENED}
    moved = {"slot": SLOT, "attempt": 1, "fence": 1, "holder": "run-1", "pins_digest": PINS.digest, "event": Event.MOVED}
    entries = (
        Entry(**opened, attempt=1, state=ReservationState.PREPARED, fence=0, key="k", approval=_approval(1)),
        Entry(**moved, state=ReservationState.SENDING),
        Entry(**moved, state=ReservationState.KNOWN_FAILURE, reason=Reason.REJECTED),
        Entry(**opened, attempt=2, state=ReservationState.PREPARED, fence=2, key="k2", approval=_approval(2)),
    )
    current, answers = None, {}
    for row in append(Head(), entries, at=datetime(2026, 11, 1, tzinfo=UTC)):
        current = advance(current, row.entry, at=row.at)
        body = {name: value for name, value in project(current).items() if name != "used"}
        answers[current.attempt] = (current, row.sequence, body)
        connection.execute(
            text(
                'INSERT INTO opsguard.ledger_rows (sequence, reservation, digest, "row") VALUES (:sequence, :reservation, :digest, :row)'
            ),
            {"sequence": row.sequence, "reservation": current.reservation_id, "digest": row.digest, "row": row.bytes.decode()},
        )
    for held, sequence, body in answers.values():
        connection.execute(
            text(
                "INSERT INTO opsguard.ledger_reservations VALUES "
                "(:reservation, :customer, :period, :kind, :attempt, :state, :sequence, :body, :since)"
            ),
            {
                "reservation": held.reservation_id,
                "customer": held.slot.customer,
                "period": held.slot.period,
                "kind": held.slot.kind,
                "attempt": held.attempt,
                "state": held.state.value,
                "sequence": sequence,
                "body": canonical_json(body).decode(),
                "since": held.changed_at,
            },
        )
    connection.execute(
        text("INSERT INTO opsguard.ledger_slots VALUES (:customer, :period, :kind, :reservation, 2, 2, '', NULL, NULL, NULL)"),
        {
            "customer": current.slot.customer,
            "period": current.slot.period,
            "kind": current.slot.kind,
            "reservation": current.reservation_id,
        },
    )
    connection.execute(
        text(
            "UPDATE opsguard.ledger_head SET sequence = :sequence, digest = :digest, server = (SELECT system_identifier || '/' || "
            "timeline_id FROM pg_control_system(), pg_control_checkpoint())"
        ),
        {"sequence": row.sequence, "digest": row.digest},
    )


def _approval(number):
    return {"approval_id": number, "approved_by": "Kim", "plan_digest": "ab" * 32, "comment": ""}

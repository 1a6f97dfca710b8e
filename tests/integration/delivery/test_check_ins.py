"""Evidence that looks like "nobody has checked in" and is not: other types, hidden rows, misspelt keys, a file being written, a silent server."""

import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from guards.delivery.evidence import CheckIns, EvidenceUnreadable
from resources.delivery.evidence import Evidence, read_table
from resources.delivery.route import CheckInFile, CheckInTable
from resources.state import StateStore
from tests.integration.delivery.test_observe import now_of
from tests.integration.delivery.watch import REMINDER, watch


def since() -> datetime:
    return datetime.now(UTC) - timedelta(days=3)


def made(database_url: str, *statements: str) -> CheckInTable:
    with psycopg.connect(database_url, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement.encode())
    return source(database_url)


def source(database_url: str, *, port: int | None = None, user: str = "", password: str = "") -> CheckInTable:
    url = make_url(database_url)
    where = f"postgresql://{user or url.username}@{url.host if port is None else '127.0.0.1'}:{port or url.port}/{url.database}"
    return CheckInTable(
        url=f"{where}?sslmode=disable", table="check_ins", password=SecretStr(password or str(url.password or ""))
    )


TABLE = "CREATE TABLE check_ins (customer text, at timestamptz, source text)"


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (("CREATE TABLE check_ins (customer char(20), at timestamptz, source text)",), "neither text nor varchar"),
        (
            (
                "CREATE DOMAIN padded AS char(20)",
                "CREATE TABLE check_ins (customer padded, at timestamptz, source text)",
            ),
            "neither text nor varchar",
        ),
        (("CREATE TABLE check_ins (customer text, at timestamp, source text)",), "no usable time with a zone"),
        (("CREATE TABLE check_ins (customer text, at date, source text)",), "no usable time with a zone"),
        ((TABLE, "INSERT INTO check_ins VALUES ('acme-1', NULL, 'app')"), "no usable time with a zone"),
        ((TABLE, "INSERT INTO check_ins VALUES ('acme-1', '-infinity', 'app')"), "cannot be read"),
        ((TABLE, "INSERT INTO check_ins VALUES ('ACME-1', now(), 'app')"), "which no customer's key can be"),
        ((TABLE, "INSERT INTO check_ins VALUES ('acme-1 ', now(), 'app')"), "which no customer's key can be"),
    ],
    ids=["char", "domain", "timestamp", "date", "no time", "before all time", "upper case", "a blank"],
)
def test_a_check_in_that_the_table_hides_behind_its_types_makes_it_unreadable(
    database_url: str, statements: tuple[str, ...], why: str
) -> None:
    """Each of these read as an empty table, and the customer who had checked in was reminded."""
    found = read_table(made(database_url, *statements), since=since())

    assert isinstance(found, EvidenceUnreadable)
    assert why in found.why


def test_how_a_database_spells_its_dates_hides_no_check_in(database_url: str) -> None:
    """The report ended with a NotImplementedError of the driver."""
    name = make_url(database_url).database
    table = made(database_url, TABLE, "INSERT INTO check_ins VALUES ('acme-1', now(), 'app')")
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE \"{name}\" SET DateStyle = 'German, DMY'".encode())
        try:
            found = read_table(table, since=since())
        finally:
            admin.execute(f'ALTER DATABASE "{name}" RESET DateStyle'.encode())

    assert isinstance(found, CheckIns)
    assert list(found.rows) == ["acme-1"]


@pytest.mark.parametrize("customer", ["text", "varchar(64)", "a_domain"], ids=["text", "varchar", "a domain of text"])
def test_text_by_any_name_is_read(database_url: str, customer: str) -> None:
    table = made(
        database_url,
        "CREATE DOMAIN a_domain AS text",
        f"CREATE TABLE check_ins (customer {customer}, at timestamptz, source varchar)",
        "INSERT INTO check_ins VALUES ('acme-1', now(), 'app')",
    )

    found = read_table(table, since=since())

    assert isinstance(found, CheckIns)
    assert set(found.rows) == {"acme-1"}


def test_rows_that_row_level_security_hides_make_the_table_unreadable(database_url: str) -> None:
    reader = "reader_of_check_ins"
    made(
        database_url,
        f"CREATE ROLE {reader} LOGIN PASSWORD 'hunter2'",
        TABLE,
        "INSERT INTO check_ins VALUES ('acme-1', now(), 'app')",
        "ALTER TABLE check_ins ENABLE ROW LEVEL SECURITY",
        f"GRANT SELECT ON check_ins TO {reader}",
    )
    try:
        found = read_table(source(database_url, user=reader, password="hunter2"), since=since())
    finally:
        made(database_url, f"DROP OWNED BY {reader}", f"DROP ROLE {reader}")

    assert isinstance(found, EvidenceUnreadable)
    assert "row-level security" in found.why


def test_check_ins_of_nobody_in_the_registry_are_named_in_the_finding_of_a_reminder(
    tmp_path: Path, state_store: StateStore
) -> None:
    made_ = watch(tmp_path, state_store, "postgres")
    made_.approve_template()
    made_.customer("acme-1", REMINDER)
    made_.check_in("acme-l")

    (finding,) = (one for one in made_.report().plan.findings if one.verdict.value == "due")

    assert now_of(made_) == ["due"]
    assert "check-ins of nobody in the registry (acme-l)" in finding.note


def line(customer: str) -> str:
    return json.dumps({"customer": customer, "at": datetime.now(UTC).isoformat(), "source": "app"}) + "\n"


def test_a_file_that_became_shorter_in_a_run_is_unreadable_until_it_is_as_long_again(tmp_path: Path) -> None:
    """A job emptied the file and wrote it anew, and the run looked in between."""
    path = tmp_path / "check_ins.jsonl"
    evidence = Evidence(CheckInFile(path))
    path.write_text(line("acme-1") + line("beta-2"))
    assert isinstance(evidence.read(since=since()), CheckIns)

    path.write_text(line("beta-2"))
    between = evidence.read(since=since())
    path.write_text(line("acme-1") + line("beta-2") + line("gamma-3"))
    after = evidence.read(since=since())

    assert isinstance(between, EvidenceUnreadable)
    assert "earlier in this run" in between.why
    assert isinstance(after, CheckIns)
    assert set(after.rows) == {"acme-1", "beta-2", "gamma-3"}


@contextmanager
def falling_silent(database_url: str) -> Iterator[tuple[int, list[int]]]:
    """A port that passes everything on to the database until it is asked for check-ins, and nothing after. And who connected."""
    url = make_url(database_url)
    listener = socket.create_server(("127.0.0.1", 0))
    callers: list[int] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                callers.append(caller.fileno())
                threading.Thread(target=pump, args=(caller,), daemon=True).start()

    def pump(caller: socket.socket) -> None:
        with caller, socket.create_connection((str(url.host), int(url.port or 5432))) as server:
            while True:
                ready, _, _ = select.select([caller, server], [], [])
                for one in ready:
                    data = one.recv(65_536)
                    if not data:
                        return
                    if b"SELECT customer" not in data:
                        (server if one is caller else caller).sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1], callers
    finally:
        listener.close()


def test_a_server_that_falls_silent_ends_the_reading_at_our_own_deadline(database_url: str) -> None:
    """It let us in and then said nothing more: the report hung without end."""
    made(database_url, TABLE)
    with falling_silent(database_url) as (port, _):
        found = read_table(source(database_url, port=port), since=since(), deadline_seconds=0.5)

    assert isinstance(found, EvidenceUnreadable)
    assert "gave no answer" in found.why


def test_a_server_that_fell_silent_is_not_asked_again_in_the_same_run(
    database_url: str,
) -> None:
    """Each of 500 reminders would have waited for it."""
    made(database_url, TABLE)
    with falling_silent(database_url) as (port, callers):
        evidence = Evidence(source(database_url, port=port), deadline_seconds=0.5)
        first, second = evidence.read(since=since()), evidence.read(since=since())

    assert isinstance(first, EvidenceUnreadable)
    assert second == first
    assert len(callers) == 1

"""Reading check-ins: a JSONL file, or a PostgreSQL table. Nothing here ever takes "could not read" for "nobody has checked in"."""

import hashlib
from datetime import datetime
from typing import Any, Final, assert_never

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from guards.delivery.evidence import (
    MOST_EVIDENCE_BYTES,
    MOST_EVIDENCE_ROWS,
    CheckIn,
    CheckIns,
    EvidenceUnreadable,
    check_in_of,
    parse_check_ins,
)
from guards.text import one_line
from resources.delivery.reading import read_file, said
from resources.delivery.route import CheckInFile, CheckInSource, CheckInTable

CONNECT_SECONDS: Final = 10
STATEMENT_SECONDS: Final = 30
"""The rows of a few days; longer means a table without an index on `at`, or a server that is drowning."""


class Evidence:
    """Reads afresh at every call; a file with the bytes of the last reading is not parsed again. Not shared between threads."""

    def __init__(self, source: CheckInSource) -> None:
        self._source = source
        self._held: tuple[str, datetime, CheckIns | EvidenceUnreadable] | None = None

    def read(self, *, since: datetime) -> CheckIns | EvidenceUnreadable:
        """Check-ins from `since` on. Never raises for what a file or a server can do."""
        match self._source:
            case None:
                return EvidenceUnreadable("no check-ins are configured (check_ins)")
            case CheckInFile():
                return self._read_file(self._source, since)
            case CheckInTable():
                return read_table(self._source, since=since)
            case _:
                assert_never(self._source)

    def _read_file(self, source: CheckInFile, since: datetime) -> CheckIns | EvidenceUnreadable:
        try:
            data = read_file(source.path, most_bytes=MOST_EVIDENCE_BYTES)
        except OSError as error:
            return EvidenceUnreadable(f"the check-ins {source.path.name} cannot be read: {said(error)}")
        found = hashlib.sha256(data).hexdigest()
        if self._held is None or self._held[0] != found or self._held[1] > since:
            self._held = (found, since, parse_check_ins(data, since=since))
        return self._held[2]


def read_table(source: CheckInTable, *, since: datetime) -> CheckIns | EvidenceUnreadable:
    """In one read-only transaction on a connection of its own."""
    try:
        connection_info = _connection_of(source)
    except (ArgumentError, ValueError):
        return EvidenceUnreadable("the address of the check-ins' database is not a PostgreSQL URL")
    statement = sql.SQL("SELECT customer, at, source FROM {} WHERE at >= %s ORDER BY at LIMIT %s").format(
        sql.Identifier(*source.table.split(".", 1))
    )
    try:
        with psycopg.connect(**connection_info) as connection:
            connection.read_only = True
            connection.execute("SELECT set_config('statement_timeout', %s, true)", (f"{STATEMENT_SECONDS}s",))
            rows = connection.execute(statement, (since, MOST_EVIDENCE_ROWS + 1)).fetchall()
            connection.rollback()
    except (psycopg.Error, OverflowError, UnicodeError) as error:
        return EvidenceUnreadable(f"the check-ins in {one_line(source.table)} cannot be read: {_cause(error)}")
    if len(rows) > MOST_EVIDENCE_ROWS:
        return EvidenceUnreadable(
            f"{one_line(source.table)} has more than {MOST_EVIDENCE_ROWS:,} check-ins since {since:%Y-%m-%d}"
        )
    read: list[CheckIn] = []
    for customer, at, told_by in rows:
        row = check_in_of(customer, at, told_by)
        if isinstance(row, str):
            return EvidenceUnreadable(f"a row of {one_line(source.table)} {row}: correct it")
        read.append(row)
    return CheckIns.of(read)


def _connection_of(source: CheckInTable) -> dict[str, Any]:
    url: URL = make_url(source.url)
    if url.drivername.partition("+")[0] not in {"postgresql", "postgres"}:
        raise ValueError("another kind of database")
    password = source.password.get_secret_value()
    return {
        "host": url.host,
        "port": url.port or 5432,
        "dbname": url.database,
        "user": url.username,
        **({"password": password} if password else {}),
        **{name: value for name, value in url.query.items() if name in ("sslmode", "sslrootcert")},
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "opsguard",
    }


def _cause(error: Exception) -> str:
    """One line; libpq never repeats a password."""
    diagnosed = getattr(getattr(error, "diag", None), "message_primary", None)
    words = (str(line).strip() for line in (diagnosed or str(error) or type(error).__name__).splitlines())
    return one_line(next((line for line in words if line), type(error).__name__), limit=200)

"""Reading check-ins: a JSONL file, or a PostgreSQL table. Nothing here ever takes "could not read" for "nobody has checked in"."""

import hashlib
import threading
from dataclasses import dataclass
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
from resources.delivery.deadline import hung_up_after
from resources.delivery.reading import read_file, said
from resources.delivery.route import CheckInFile, CheckInSource, CheckInTable

CONNECT_SECONDS: Final = 10
STATEMENT_SECONDS: Final = 30
"""The rows of a few days; longer means a table without an index on `at`, or a server that is drowning."""
DEADLINE_SECONDS: Final = 45
"""By our clock, for a server that says nothing at all."""
_TEXTS: Final = frozenset({25, 1043})
"""PostgreSQL's numbers of text and varchar. char(n) pads: `acme-1` would be somebody else."""
_TIMESTAMPTZ: Final = 1184


@dataclass(frozen=True, slots=True)
class _Silent(EvidenceUnreadable):
    """Nothing was said until the deadline."""


class Evidence:
    """Reads afresh at every call; a file with the bytes of the last reading is not parsed again, and a server that fell silent is not
    asked again. One per run: a file that has become shorter in it is being written. Not shared between threads."""

    def __init__(self, source: CheckInSource, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._source = source
        self._deadline_seconds = deadline_seconds
        self._held: tuple[str, datetime, CheckIns | EvidenceUnreadable] | None = None
        self._longest = 0
        self._silent: EvidenceUnreadable | None = None

    def read(self, *, since: datetime) -> CheckIns | EvidenceUnreadable:
        """Check-ins from `since` on. Never raises for what a file or a server can do."""
        match self._source:
            case None:
                return EvidenceUnreadable("no check-ins are configured (check_ins)")
            case CheckInFile():
                return self._read_file(self._source, since)
            case CheckInTable():
                return self._read_table(self._source, since)
            case _:
                assert_never(self._source)

    def _read_file(self, source: CheckInFile, since: datetime) -> CheckIns | EvidenceUnreadable:
        try:
            data = read_file(source.path, most_bytes=MOST_EVIDENCE_BYTES)
        except OSError as error:
            return EvidenceUnreadable(f"the check-ins {source.path.name} cannot be read: {said(error)}")
        if len(data) < self._longest:
            return EvidenceUnreadable(
                f"the check-ins {source.path.name} have {len(data):,} bytes, and had {self._longest:,} earlier in this run: somebody writes "
                "them in place, or took some away"
            )
        self._longest = len(data)
        found = hashlib.sha256(data).hexdigest()
        if self._held is None or self._held[0] != found or self._held[1] > since:
            self._held = (found, since, parse_check_ins(data, since=since))
        return self._held[2]

    def _read_table(self, source: CheckInTable, since: datetime) -> CheckIns | EvidenceUnreadable:
        if self._silent is not None:
            return self._silent
        found = read_table(source, since=since, deadline_seconds=self._deadline_seconds)
        self._silent = found if isinstance(found, _Silent) else None
        return found


def read_table(
    source: CheckInTable, *, since: datetime, deadline_seconds: float = DEADLINE_SECONDS
) -> CheckIns | EvidenceUnreadable:
    """In one read-only transaction on a connection of its own. Rows whose time is missing are read too, so that they are noticed; rows that
    a policy of the table hides are an error, not absent."""
    try:
        connection_info = _connection_of(source)
    except (ArgumentError, ValueError):
        return EvidenceUnreadable("the address of the check-ins' database is not a PostgreSQL URL")
    statement = sql.SQL(
        "SELECT customer, at, source FROM {} WHERE at >= %s OR at IS NULL OR at = '-infinity' ORDER BY at LIMIT %s"
    ).format(sql.Identifier(*source.table.split(".", 1)))
    was_us: threading.Event | None = None
    try:
        connection = psycopg.connect(**connection_info)
        with hung_up_after(deadline_seconds, connection.fileno()) as was_us, connection:
            connection.read_only = True
            connection.execute(
                "SELECT set_config('statement_timeout', %s, true), set_config('row_security', 'off', true), set_config('DateStyle', 'ISO', true)",
                (f"{STATEMENT_SECONDS}s",),
            )
            cursor = connection.execute(statement, (since, MOST_EVIDENCE_ROWS + 1))
            if problem := _types_of(cursor):
                return EvidenceUnreadable(f"{one_line(source.table)}: {problem}")
            rows = cursor.fetchall()
            connection.rollback()
    except (psycopg.Error, OSError, OverflowError, UnicodeError) as error:
        if was_us is not None and was_us.is_set():
            return _Silent(f"the server of {one_line(source.table)} took the question and gave no answer")
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


def _types_of(cursor: psycopg.Cursor[Any]) -> str:
    """ "" or what is wrong with the columns, also while there are no rows."""
    customer, at, _ = (column.type_code for column in cursor.description or ())
    if customer not in _TEXTS:
        return "its column customer is neither text nor varchar: other types compare otherwise"
    return "" if at == _TIMESTAMPTZ else "its column at has no usable time with a zone: it is not timestamptz"


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

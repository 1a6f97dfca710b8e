"""Backup and restore as JSON lines: one snapshot, every row, no other program.

    {"opsguard_state_backup": 1, "revision": "0002", "taken_at": "..."}
    {"row": {...}, "table": "plans"}
    ...
    {"counts": {"plans": 3, ...}, "sha256": "<of all the bytes before this line>"}

A restore goes into an empty store only, in one transaction, after the whole file was checked against its last line.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    LargeBinary,
    Table,
    Text,
    bindparam,
    func,
    insert,
    select,
    text,
    type_coerce,
    update,
)

from guards.canonical import Json, canonical_json
from resources.errors import ConfigurationError
from resources.state import clock
from resources.state.columns import CanonicalJson, ExactText
from resources.state.engine import ONE_SNAPSHOT
from resources.state.migrate import REVISION
from resources.state.tables import ledger_head, metadata

FORMAT: Final = 1
CHUNK: Final = 200
RESTORED: Final = "restored"
"""In place of a server: none is called so, and the same one that the backup was made on would be taken for itself."""
TABLES: Final[tuple[Table, ...]] = tuple(metadata.sorted_tables)
"""Referenced tables before those that refer to them."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a file holds: rows per table and the digest of its content (64 hex digits)."""

    taken_at: datetime
    counts: Mapping[str, int]
    sha256: str


def backup(connection: Connection, path: Path) -> Backup:
    """Whole or not at all, readable by the owner only; a file that exists is not replaced."""
    if path.exists():
        raise ConfigurationError(f"{path} exists: name a new file")
    connection.execute(ONE_SNAPSHOT)
    partial = path.with_name(f"{path.name}.part")
    try:
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            written = _write(connection, file)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    except OSError as error:
        raise ConfigurationError(f"{path} could not be written ({error.strerror or error}): no backup was made") from error
    return written


def _write(connection: Connection, file: BinaryIO) -> Backup:
    seen = hashlib.sha256()
    counts: Counter[str] = Counter()

    def line(content: Mapping[str, Json]) -> bytes:
        return canonical_json(content) + b"\n"

    def put(content: Mapping[str, Json]) -> None:
        written = line(content)
        seen.update(written)
        file.write(written)

    taken_at = clock.now(connection)
    put({"opsguard_state_backup": FORMAT, "revision": REVISION, "taken_at": taken_at.isoformat()})
    for table in TABLES:
        for row in _rows(connection, table):
            counts[table.name] += 1
            put({"table": table.name, "row": row})
    file.write(line({"counts": dict(counts), "sha256": seen.hexdigest()}))
    return Backup(taken_at=taken_at, counts=dict(counts), sha256=seen.hexdigest())


def _rows(connection: Connection, table: Table) -> Iterator[dict[str, Json]]:
    """As stored, not as decoded: what is signed must come back byte for byte."""
    columns = [type_coerce(column, Text).label(column.name) if _is_text(column) else column for column in table.columns]
    statement = select(*columns).order_by(*table.primary_key.columns)
    with connection.execution_options(yield_per=CHUNK).execute(statement) as result:
        for row in result.mappings():
            yield {name: _plain(value) for name, value in row.items()}


def _is_text(column: Column[Any]) -> bool:
    return isinstance(column.type, Text | ExactText | CanonicalJson)


def _plain(value: Any) -> Json:
    match value:
        case datetime():
            return value.isoformat()
        case bytes() | memoryview():
            return bytes(value).hex()
        case None | bool() | int() | str():
            return value
        case _:
            raise TypeError(f"a backup has no form for {type(value).__name__}")


def read_backup(path: Path) -> Backup:
    """Checks the whole file; `ConfigurationError` says what is wrong with it."""
    seen, counts = hashlib.sha256(), Counter[str]()
    header: Mapping[str, Any] = {}
    last: bytes = b""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if last:
                    seen.update(last)
                    if number == 2:
                        header = _object(last, 1, path)
                    else:
                        counts[str(_object(last, number - 1, path).get("table"))] += 1
                last = line
    except OSError as error:
        raise ConfigurationError(f"{path} could not be read ({error.strerror or error}): nothing was restored") from error
    if header.get("opsguard_state_backup") != FORMAT:
        raise ConfigurationError(f"{path} is not a backup that `opsguard state backup` made: nothing was restored")
    if header.get("revision") != REVISION:
        raise ConfigurationError(
            f"{path} was made at revision {header.get('revision')}, this program is at {REVISION}: restore with the OpsGuard that "
            "made it, then upgrade; nothing was restored"
        )
    end = _object(last, sum(counts.values()) + 2, path)
    if end.get("sha256") != seen.hexdigest() or end.get("counts") != dict(counts):
        raise ConfigurationError(f"{path} is cut off or was altered: its last line does not match; nothing was restored")
    return Backup(taken_at=datetime.fromisoformat(header["taken_at"]), counts=dict(counts), sha256=seen.hexdigest())


def _object(line: bytes, number: int, path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(line)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}, line {number}, is not a JSON object: nothing was restored")
    return content


def restore(connection: Connection, path: Path) -> Backup:
    """Into an empty store. The ledger grants nothing before a person accepts it: what was sent since the backup is not in it."""
    described = read_backup(path)
    _require_empty(connection)
    by_name = {table.name: table for table in TABLES}
    for table_name, rows in groupby(_stored(path), key=lambda stored: str(stored["table"])):
        table = by_name.get(table_name)
        if table is None:
            raise ConfigurationError(f"{path} holds a table {table_name!r} that this program does not know: nothing was restored")
        while chunk := [_typed(table, stored["row"]) for stored in islice(rows, CHUNK)]:
            _fill(connection, table, chunk)
    connection.execute(update(ledger_head).values(server=RESTORED))
    for table in TABLES:
        if any(column.identity for column in table.columns):
            _continue_numbers(connection, table)
    counted = _counts(connection)
    if counted != described.counts:
        raise ConfigurationError(f"{path} did not come back whole ({counted}, not {described.counts}): nothing was restored")
    return described


def _stored(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            content = json.loads(line)
            if "table" in content:
                yield content


def _require_empty(connection: Connection) -> None:
    filled = [name for name, number in _counts(connection).items() if name != ledger_head.name and number]
    if filled:
        raise ConfigurationError(
            f"the state store is not empty ({', '.join(filled)}): a backup is restored into an empty database only; nothing was restored"
        )


def _counts(connection: Connection) -> dict[str, int]:
    """Tables without rows are left out, as in a file."""
    numbers = {table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in TABLES}
    return {name: number for name, number in numbers.items() if number}


def _typed(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    if set(row) != set(table.columns.keys()):
        raise ConfigurationError(f"a row of {table.name} has other columns than this program knows: nothing was restored")
    return {name: _value(table.columns[name], value) for name, value in row.items()}


def _value(column: Column[Any], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(column.type, DateTime):
        return datetime.fromisoformat(value)
    return bytes.fromhex(value) if isinstance(column.type, LargeBinary) else value


def _fill(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """As stored: text goes in undecoded. The head of the chain is there already, and is moved."""
    values = {
        column.name: bindparam(f"v_{column.name}", type_=Text() if _is_text(column) else column.type) for column in table.columns
    }
    statement = update(table).values(values) if table is ledger_head else insert(table).values(values)
    connection.execute(statement, [{f"v_{name}": value for name, value in row.items()} for row in rows])


_CONTINUE: Final = text("SELECT setval(pg_get_serial_sequence(:table, 'id'), :last)")


def _continue_numbers(connection: Connection, table: Table) -> None:
    """The next number follows the largest that was restored, so that none is given out twice."""
    last = connection.execute(select(func.max(table.c.id))).scalar_one()
    if last is not None:
        connection.execute(_CONTINUE, {"table": f"{table.schema}.{table.name}", "last": last})

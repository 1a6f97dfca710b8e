"""A ledger as one file of JSON lines: written by `export`, taken in by `import`, the same rows and digests in whichever store.

    {"opsguard_ledger_export":1}
    {"digest":"<64 hex>","row":<canonical row>}
    ...
    {"digest":"<of the last row>","rows":812,"sequence":812,"store":"file 3f9a0c51"}

The last line is the manifest: a file without it was cut. Nothing but the rows is taken in: the claims follow from them.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from guards.canonical import Json, canonical_json
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.row import GENESIS, MOST_ROW_BYTES, Head
from resources.errors import ConfigurationError
from resources.ledger.interface import Ledger, StoredRow, Verification

FORMAT: Final = 1
_HEADER: Final = canonical_json({"opsguard_ledger_export": FORMAT}) + b"\n"
_LONGEST_LINE: Final = MOST_ROW_BYTES + 256
_ROW_LINE: Final = re.compile(rb'\{"digest":"([0-9a-f]{64})","row":(\{.*\})\}\n')
_STORE: Final = re.compile(r"[a-z]{1,20}( [0-9A-Za-z._:/-]{1,100})?")


@dataclass(frozen=True, slots=True)
class Exported:
    """What a file holds, as its manifest says. `store` is where it came from."""

    rows: int
    head: Head
    store: str


@dataclass(frozen=True, slots=True)
class Export:
    """A file that was read whole and is what its manifest says. Whether the rows are a ledger is for the store that adopts them."""

    path: Path
    said: Exported

    def rows(self) -> Iterator[StoredRow]:
        """Read again: a store checks every row that it takes."""
        with self.path.open("rb") as file:
            file.readline(_LONGEST_LINE)
            for sequence in range(1, self.said.rows + 1):
                found = _ROW_LINE.fullmatch(file.readline(_LONGEST_LINE))
                if found is None:
                    raise ConfigurationError(f"{self.path} changed while it was read: nothing was imported")
                yield StoredRow(sequence, found[1].decode("ascii"), found[2])


def export_to(ledger: Ledger, path: Path, *, force: bool = False) -> Exported:
    """Every row as of one moment, whole or not at all, readable by its owner only. Replaces a file only with `force`."""
    if path.exists() and not force:
        raise ConfigurationError(f"{path} exists: name a new file")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        partial = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                written = _write(ledger, file)
                file.flush()
                os.fsync(file.fileno())
            _publish(partial, path, force=force)
        finally:
            partial.unlink(missing_ok=True)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists: name a new file") from None
    except OSError as error:
        raise ConfigurationError(f"{path} could not be written ({error.strerror or error}): nothing was exported") from error
    return written


def _publish(partial: Path, path: Path, *, force: bool) -> None:
    """A link never replaces, whoever made the file meanwhile."""
    if force:
        partial.replace(path)
    else:
        path.hardlink_to(partial)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(ledger: Ledger, file: BinaryIO) -> Exported:
    file.write(_HEADER)
    head = Head()
    for stored in ledger.rows():
        file.write(b'{"digest":"%b","row":%b}\n' % (stored.digest.encode("ascii"), stored.row))
        head = Head(stored.sequence, stored.digest)
    made = Exported(rows=head.sequence, head=head, store=ledger.health().store)
    file.write(_manifest(made))
    return made


def _manifest(said: Exported) -> bytes:
    content: dict[str, Json] = {
        "rows": said.rows,
        "sequence": said.head.sequence,
        "digest": said.head.digest,
        "store": said.store,
    }
    return canonical_json(content) + b"\n"


def read_export(path: Path) -> Export | LedgerRefused:
    """Checks every line against its digest and the whole against the manifest."""
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as error:
        raise ConfigurationError(f"{path} could not be read ({error.strerror or error}): nothing was imported") from error


def _read(path: Path, file: BinaryIO) -> Export | LedgerRefused:
    if file.readline(_LONGEST_LINE) != _HEADER:
        return _refuse(f"{path} is not a file that `opsguard ledger export` made")
    head, number, last = Head(), 1, b""
    while line := file.readline(_LONGEST_LINE):
        number += 1
        found = _ROW_LINE.fullmatch(line)
        if found is None:
            last = line
            break
        digest = found[1].decode("ascii")
        if hashlib.sha256(found[2]).hexdigest() != digest:
            return _refuse(f"{path}, line {number}: its content is not what its digest is of")
        head = Head(head.sequence + 1, digest)
    said = _parse_manifest(last)
    if said is None or file.read(1):
        return _refuse(f"{path}, line {number}: neither a row nor the last line of an export; the file was cut or altered")
    if (said.rows, said.head) != (head.sequence, head):
        return _refuse(f"{path} holds {head.sequence} rows and ends with {head.digest[:12]}, its last line says otherwise")
    return Export(path, said)


def _parse_manifest(line: bytes) -> Exported | None:
    said: object = None
    with suppress(ValueError, RecursionError):
        said = json.loads(line)
    match said:
        case {"rows": int(rows), "sequence": int(sequence), "digest": str(digest), "store": str(store)} if _STORE.fullmatch(
            store
        ) and (digest == GENESIS) == (sequence == 0):
            made = Exported(rows=rows, head=Head(sequence, digest), store=store)
            return made if _manifest(made) == line else None
        case _:
            return None


def import_from(path: Path, ledger: Ledger) -> Verification | LedgerRefused:
    """Into an empty ledger, or one that holds exactly these rows; whole or not at all."""
    export = read_export(path)
    if isinstance(export, LedgerRefused):
        return export
    found = ledger.adopt(export.rows())
    if isinstance(found, LedgerRefused) or found.head == export.said.head:
        return found
    why = f"the ledger ends with {found.head.digest[:12]}, {path} with {export.said.head.digest[:12]}: `opsguard ledger verify`"
    return LedgerRefused(LedgerCode.RECOVERY_REQUIRED, why)


def _refuse(why: str) -> LedgerRefused:
    return LedgerRefused(LedgerCode.INVALID, f"{why}: nothing was imported")

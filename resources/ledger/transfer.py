"""A ledger as one file of JSON lines: written by `export`, taken in by `import`, the same rows and digests in whichever store.

    {"opsguard_ledger_export":1}
    {"digest":"<64 hex>","row":<canonical row>}
    ...
    {"digest":"<of the last row>","recovery":"","retired":true,"rows":812,"sequence":812,"store":"file 3f9a0c51"}

The last line is the manifest: a file without it was cut. Nothing but the rows is taken in: the claims follow from them. `retired`: the
store was given up before this was written, so these are all of its rows, for good. Any other export is a copy: what was sent since is
not in it, and a person accepts it before anything is sent by it.
"""

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from guards.canonical import Json, canonical_json
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.row import GENESIS, MOST_ROW_BYTES, Head
from guards.text import one_line
from resources.errors import ConfigurationError
from resources.ledger.file.line import line_of, split_line
from resources.ledger.interface import Ledger, StoredRow, Verification
from resources.ledger.places import require_outside

FORMAT: Final = 1
_HEADER: Final = canonical_json({"opsguard_ledger_export": FORMAT}) + b"\n"
_LONGEST_LINE: Final = MOST_ROW_BYTES + 256
_STORE: Final = re.compile(r"[a-z]{1,20}( [0-9A-Za-z._:/-]{1,100})?")


@dataclass(frozen=True, slots=True)
class Exported:
    """What a file holds, as its manifest says. `store` is where it came from, `recovery` what kept that one from sending, or "", and
    `doubt_before` when a copy or a loss was last accepted there."""

    rows: int
    head: Head
    store: str
    retired: bool = False
    recovery: str = ""
    doubt_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """A file that was read whole and is what its manifest says. Whether the rows are a ledger is for the store that adopts them."""

    path: Path
    said: Exported

    def rows(self) -> Iterator[StoredRow]:
        """Read again: a store checks every row that it takes."""
        with _opened(self.path) as file:
            file.readline(_LONGEST_LINE)
            for sequence in range(1, self.said.rows + 1):
                parts = _parts(file.readline(_LONGEST_LINE))
                if parts is None:
                    raise ConfigurationError(f"{self.path} changed while it was read: nothing was imported")
                yield StoredRow(sequence, *parts)


def require_target(path: Path, *, force: bool = False) -> None:
    """`ConfigurationError` when an export cannot be written there: asked before a store is given up for it."""
    require_outside(path, "the export")
    if path.exists() and (not force or not path.is_file()):
        raise ConfigurationError(f"{path} exists: name a new file")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{path.parent} is no directory that can be written to: nothing was exported")


def export_to(ledger: Ledger, path: Path, *, force: bool = False, retired: bool = False) -> Exported:
    """Every row as of one moment, whole or not at all, readable by its owner only. Replaces a file only with `force`. `retired`: the store
    was given up before."""
    require_target(path, force=force)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        partial = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                written = _write(ledger, file, retired=retired)
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


def _write(ledger: Ledger, file: BinaryIO, *, retired: bool) -> Exported:
    file.write(_HEADER)
    head = Head()
    for stored in ledger.rows():
        file.write(line_of(stored.digest, stored.row))
        head = Head(stored.sequence, stored.digest)
    health = ledger.health()
    recovery = "" if retired else one_line(health.recovery, limit=500)
    made = Exported(
        rows=head.sequence,
        head=head,
        store=health.store,
        retired=retired,
        recovery=recovery,
        doubt_before=health.doubt_before,
    )
    file.write(_manifest(made))
    return made


def _manifest(said: Exported) -> bytes:
    content: dict[str, Json] = {
        "rows": said.rows,
        "sequence": said.head.sequence,
        "digest": said.head.digest,
        "store": said.store,
        "retired": said.retired,
        "recovery": said.recovery,
    }
    if said.doubt_before is not None:
        content["accepted_at"] = said.doubt_before.astimezone(UTC).isoformat(timespec="microseconds")
    return canonical_json(content) + b"\n"


def read_export(path: Path) -> Export | LedgerRefused:
    """Checks every line against its digest and the whole against the manifest."""
    try:
        with _opened(path) as file:
            return _read(path, file)
    except OSError as error:
        raise ConfigurationError(f"{path} could not be read ({error.strerror or error}): nothing was imported") from error


def _read(path: Path, file: BinaryIO) -> Export | LedgerRefused:
    if file.readline(_LONGEST_LINE) != _HEADER:
        return _refuse(f"{path} is not a file that `opsguard ledger export` made")
    head, number, last = Head(), 1, b""
    while line := file.readline(_LONGEST_LINE):
        number += 1
        parts = _parts(line)
        if parts is None:
            last = line
            break
        digest, row = parts
        if hashlib.sha256(row).hexdigest() != digest:
            return _refuse(f"{path}, line {number}: its content is not what its digest is of")
        head = Head(head.sequence + 1, digest)
    said = _parse_manifest(last)
    if said is None or file.read(1):
        return _refuse(f"{path}, line {number}: neither a row nor the last line of an export; the file was cut or altered")
    if (said.rows, said.head) != (head.sequence, head):
        return _refuse(f"{path} holds {head.sequence} rows and ends with {head.digest[:12]}, its last line says otherwise")
    return Export(path, said)


def _parts(line: bytes) -> tuple[str, bytes] | None:
    """Digest and row of a line that ends."""
    return split_line(line[:-1]) if line.endswith(b"\n") else None


def _parse_manifest(line: bytes) -> Exported | None:
    said: object = None
    with suppress(ValueError, RecursionError):
        said = json.loads(line)
    match said:
        case {
            "rows": int(rows),
            "sequence": int(sequence),
            "digest": str(digest),
            "store": str(store),
            "retired": bool(retired),
            "recovery": str(recovery),
            **more,
        } if _STORE.fullmatch(store) and (digest == GENESIS) == (sequence == 0) and not (retired and recovery):
            made = Exported(
                rows=rows,
                head=Head(sequence, digest),
                store=store,
                retired=retired,
                recovery=recovery,
                doubt_before=_moment(more.get("accepted_at")),
            )
            return made if _manifest(made) == line else None
        case _:
            return None


def _moment(said: object) -> datetime | None:
    """None for what is none: the manifest that is made of it is another one then."""
    with suppress(TypeError, ValueError):
        found = datetime.fromisoformat(said)  # type: ignore[arg-type]
        return found if found.tzinfo is not None else None
    return None


def require_retired(export: Export) -> LedgerRefused | None:
    """None where these are all rows of a store that sends no more, or none at all."""
    said = export.said
    if said.retired or not said.rows:
        return None
    state = f"that could not send ({said.recovery})" if said.recovery else "that was in use"
    return _refuse(
        f"{export.path} was written by a store {state}: what was sent since then is not in it, and would be sent again. Export it with "
        "--retire; or, if no other copy of it is used, --accept-copy makes doubt of what was open or due until now"
    )


def import_from(path: Path, ledger: Ledger, *, accept_copy: bool = False) -> Verification | LedgerRefused:
    """Into an empty ledger, or one that holds exactly these rows; whole or not at all. `accept_copy`: a person says that no other copy of
    it is used; then what was open is doubt, and so is what was due until now."""
    export = read_export(path)
    if isinstance(export, LedgerRefused):
        return export
    refused = require_retired(export)
    if refused is not None and not accept_copy:
        return refused
    found = ledger.adopt(export.rows(), doubt_before=export.said.doubt_before, accept_copy=refused is not None)
    if isinstance(found, LedgerRefused) or ledger.extends(export.said.head):
        return found
    why = f"the ledger ends with {found.head.digest[:12]}, {path} with {export.said.head.digest[:12]}: `opsguard ledger verify`"
    return LedgerRefused(LedgerCode.RECOVERY_REQUIRED, why)


def _opened(path: Path) -> BinaryIO:
    """Not blocking: a FIFO of that name must not hang the command."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigurationError(f"{path} is not a regular file: nothing was imported")
    return os.fdopen(descriptor, "rb")


def _refuse(why: str) -> LedgerRefused:
    return LedgerRefused(LedgerCode.INVALID, f"{why}: nothing was imported")

"""What an SFTP directory holds: READDIR by hand, so that names keep their bytes and one undecodable name hides no other.

Raises the protocol's own `StatusError` and `SessionLost`; `sftp_session` turns them into sentences.
"""

import stat as mode_bits
import struct
from collections import deque
from datetime import UTC, datetime
from typing import Final

from guards.spool.listing import Entry, EntryType, Listing, TimeSource
from resources.file_servers.names import decoded, encoded, joined, refusal
from resources.file_servers.sftp_protocol import Fields, Reply, Request, Session, SessionLost, Status, StatusError, string

_READ_AHEAD: Final = 4
"""READDIR requests on their way: a server answers about 100 names each, so a far one is not waited for once per 100 names."""

_TYPE_BITS: Final = 0o170000
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_EXTENDED = 0x1, 0x2, 0x4, 0x8, 0x80000000
_USUAL: Final = _HAS_SIZE | _HAS_OWNER | _HAS_MODE | _HAS_TIMES
_USUAL_ATTRIBUTES: Final = struct.Struct(">QQIII")
"""Size, owner and group, mode, time read, time modified: what nearly every row of a listing has, in one step."""
_TYPES: Final = {
    mode_bits.S_IFREG: EntryType.FILE,
    mode_bits.S_IFDIR: EntryType.DIRECTORY,
    mode_bits.S_IFLNK: EntryType.LINK,
}


def name_refusal(name: str) -> str:
    """As `names.refusal`; but a path is a field of known length here, so a line end in it ends nothing."""
    return refusal(name.replace("\r", "_").replace("\n", "_"))


def list_directory(session: Session, directory: str, *, limit: int) -> Listing:
    """Every row but `.` and `..`. Ends at the server's explicit EOF; any other end says so in `incomplete`."""
    handle = string(session.request(Reply.HANDLE, Request.OPENDIR, string(encoded(directory))).string())
    entries: dict[str, Entry] = {}
    incomplete = ""
    waiting: deque[int] = deque()
    try:
        while not incomplete:
            while len(waiting) < _READ_AHEAD:
                waiting.append(session.ask(Request.READDIR, handle))
            rows = session.expect(Reply.NAME, waiting.popleft())
            incomplete = _take(rows, entries, limit=limit)
    except StatusError as status:
        if status.code != Status.EOF:
            if not entries:
                session.forget(waiting)
                raise  # asyncssh opens any directory and says at the first READDIR that there is none
            incomplete = f"the server stopped after {len(entries)} rows with status {status.code}, before the end"
    session.forget(waiting)
    try:
        session.request(Reply.STATUS, Request.CLOSE, handle)
    except StatusError as status:
        incomplete = incomplete or f"the server ended the listing with status {status.code}"
    return Listing(directory, tuple(entries.values()), incomplete)


def stat_entry(session: Session, directory: str, name: str) -> Entry | None:
    """One name by LSTAT. None only when the server says "no such file" and the directory is there.

    Both questions travel together: proof of absence costs no second round trip.
    """
    asked = session.ask(Request.LSTAT, string(encoded(joined(directory, name))))
    asked_directory = session.ask(Request.STAT, string(encoded(directory)))
    try:
        found = session.expect(Reply.ATTRS, asked)
    except StatusError as status:
        if status.code != Status.NO_SUCH_FILE:
            session.forget([asked_directory])
            raise
        parent = read_attributes(session.expect(Reply.ATTRS, asked_directory), directory)
        if parent.type is not EntryType.DIRECTORY:
            raise
        return None
    session.forget([asked_directory])
    return read_attributes(found, name)


def read_attributes(fields: Fields, name: str) -> Entry:
    """ATTRS of version 3. A type that the server does not give is `OTHER`, a time of 0 is none."""
    flags = fields.uint32()
    if flags == _USUAL:
        size_bytes, _, usual_mode, _, modified = fields.unpack(_USUAL_ATTRIBUTES)
        return _entry(name, size_bytes, usual_mode, modified)
    size = fields.uint64() if flags & _HAS_SIZE else None
    if flags & _HAS_OWNER:
        fields.raw(8)
    mode = fields.uint32() if flags & _HAS_MODE else 0
    seconds = 0
    if flags & _HAS_TIMES:
        fields.raw(4)
        seconds = fields.uint32()
    if flags & _HAS_EXTENDED:
        for _ in range(fields.uint32()):
            fields.string()
            fields.string()
    return _entry(name, size, mode, seconds)


def _entry(name: str, size: int | None, mode: int, seconds: int) -> Entry:
    return Entry(
        name=name,
        type=_TYPES.get(mode & _TYPE_BITS, EntryType.OTHER),
        size_bytes=size,
        modified_at=datetime.fromtimestamp(seconds, UTC) if seconds else None,
        time_source=TimeSource.SFTP if seconds else TimeSource.NONE,
    )


def _take(rows: Fields, entries: dict[str, Entry], *, limit: int) -> str:
    """Adds one answer's rows; returns why the listing is incomplete, or ""."""
    count = rows.uint32()
    if count == 0:
        raise SessionLost("the server answered READDIR with no rows and no end")
    for _ in range(count):
        raw = rows.string()
        rows.string()
        if raw in (b".", b".."):
            read_attributes(rows, "")
            continue
        name = decoded(raw)
        entry = read_attributes(rows, name)
        if entries.setdefault(name, entry) != entry:
            return "the server listed one name twice with different facts: the directory changed while it was listed"
        if len(entries) >= limit:
            return f"the listing reached the limit of {limit} rows"
    return ""

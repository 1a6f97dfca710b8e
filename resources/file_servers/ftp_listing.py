"""One directory's listing over FTP, and every reason to doubt that it is whole.

"Not listed" is only "not there" when MLSD or LIST ended with 226, its text admits no cut, the number of rows is no server's limit, each
row was understood, and no name came twice.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from guards.spool.listing import Entry, Listing
from resources.errors import Transient
from resources.file_servers import list_rows, mlsd
from resources.file_servers.connect import shown
from resources.file_servers.ftp_control import FtpControl
from resources.file_servers.ftp_reply import Reply
from resources.file_servers.mlsd import Passed, Unparsable
from resources.file_servers.names import checked_directory, decoded

_ADMITS_A_CUT: Final = re.compile(
    r"truncat|limited to|limit (was )?(reached|exceeded)|too many|incomplete|partial|only the first|first \d+ (files|entries|matches)"
    r"|fail|denied|(?<!\b0 )(?<!\bno )error|abort|unable|could not|cannot",
    re.IGNORECASE,
)
"""pure-ftpd: "226 Output truncated to 2000 matches". vsftpd: "226 Transfer done (but failed to open directory)." and no rows."""
_SAYS_EMPTY: Final = re.compile(
    r"no (such )?(files|entries|data ?sets)( or director\w+)?( were| was)?( found)?|(director\w+|folder) is empty", re.IGNORECASE
)
"""Of a directory that CWD has just entered: 450 and 550 for "nothing in it"."""
_KNOWN_LIMITS: Final = frozenset({9_999})
_ROUND: Final = 1_000
"""Servers cut at 1000, 2000 (pure-ftpd), 5000, 10000. A directory of exactly so many files is doubted wrongly: one file more ends that."""
_ROW_BYTES: Final = 1024
"""Mean length of a row that no honest listing exceeds; bounds memory when rows have no end."""


@dataclass(frozen=True, slots=True)
class SeenListing:
    """A listing, and whether names with a leading dot would be in it."""

    listing: Listing
    shows_dot_names: bool
    broken_off: bool = False
    """We hung up in the middle: the control connection is out of step."""


def list_directory(control: FtpControl, directory: str, *, limit: int, hidden: bool = False) -> SeenListing:
    """Rows of `directory`. `hidden` asks LIST for dot names too (`-a`). Errors: `NotObserved`, `Transient`, `Unreachable`."""
    where = checked_directory(directory, side=control.endpoint.side)
    control.require(control.ask("CWD", where), f"does the directory exist, and may {control.endpoint.user} enter it?")
    machine = control.endpoint.profile.list_command == "auto" and "MLST" in control.features
    if machine:
        seen = _fetch(control, where, "MLSD", limit=limit)
        if seen is not None:
            return seen
    seen = _fetch(control, where, "LIST -a" if hidden else "LIST", limit=limit)
    assert seen is not None  # only MLSD gives None
    return seen


def _fetch(control: FtpControl, where: str, command: str, *, limit: int) -> SeenListing | None:
    """None: the server does not know MLSD after all."""
    connection, reply = control.data(command)
    try:
        if not reply.begins:
            connection.close()
            if command == "MLSD" and reply.not_understood:
                return None
            return _answered_at_once(control, where, command, reply)
        raw, overflow = _receive(control, connection.read_block, limit=limit)
        if not overflow:
            connection.finish_reading()
        ragged = connection.ragged
    finally:
        connection.close()
        control.after_listing()
    if overflow:
        return _judged(
            control, where, command, raw, said=None, limit=limit, doubt=f"it has more than {limit} rows", broken_off=True
        )
    final = control.reply()
    if not final.done:
        raise Transient(control.sentence(f'the listing ended with "{control.said(final)}": it may be cut; try again'))
    doubt = "its TLS connection ended without a close, somebody may have cut it" if ragged else ""
    return _judged(control, where, command, raw, said=final, limit=limit, doubt=doubt)


def _answered_at_once(control: FtpControl, where: str, command: str, reply: Reply) -> SeenListing:
    """A final reply where a transfer should begin. 450 and 550 of an empty directory are answers, not errors."""
    if reply.done or (
        reply.code in (450, 550) and _SAYS_EMPTY.search(reply.text) and not re.search("no such", reply.text, re.IGNORECASE)
    ):
        return _judged(control, where, command, b"", said=reply if reply.done else None, limit=1, doubt="")
    raise control.refused(reply, f"may {control.endpoint.user} list the directory?")


def _receive(control: FtpControl, read_block: Callable[[], bytes], *, limit: int) -> tuple[bytes, bool]:
    """All bytes, and whether it was given up because there were too many."""
    parts: list[bytes] = []
    rows = size = 0
    while True:
        try:
            block = read_block()
        except OSError as error:
            raise control.broken(error) from None
        if not block:
            return b"".join(parts), False
        parts.append(block)
        rows += block.count(b"\n")
        size += len(block)
        if rows > limit + 2 or size > (limit + 64) * _ROW_BYTES:
            return b"".join(parts), True


def _judged(
    control: FtpControl,
    where: str,
    command: str,
    raw: bytes,
    *,
    said: Reply | None,
    limit: int,
    doubt: str,
    broken_off: bool = False,
) -> SeenListing:
    rows = raw.split(b"\n")
    unfinished = rows.pop()
    rows = [row.removesuffix(b"\r") for row in rows]
    zone, now = ZoneInfo(control.endpoint.profile.time_zone), datetime.now(UTC)
    parsed = [mlsd.parse_row(row) if command == "MLSD" else list_rows.parse_row(row, zone=zone, now=now) for row in rows]
    entries = tuple(one for one in parsed if isinstance(one, Entry))
    unparsable = [one for one in parsed if isinstance(one, Unparsable)]
    reasons = (
        doubt,
        f'the server says "{control.said(said)}"' if said is not None and _ADMITS_A_CUT.search(said.text) else "",
        f"its last row {shown(decoded(unfinished))} has no end" if unfinished and not broken_off else "",
        _unparsable(unparsable),
        _twice(entries),
        _suspicious(len(entries), limit=limit),
    )
    incomplete = "; ".join(reason for reason in reasons if reason)
    dots = command == "MLSD" or any(
        isinstance(one, Passed) and row.endswith((b" .", b" ..")) for one, row in zip(parsed, rows, strict=True)
    )
    dots = dots or any(list_rows.is_dos(row) for row in rows) or any(entry.name.startswith(".") for entry in entries)
    return SeenListing(Listing(where, entries, incomplete), shows_dot_names=dots, broken_off=broken_off)


def _unparsable(rows: Sequence[Unparsable]) -> str:
    if not rows:
        return ""
    return (
        f"{len(rows)} row{'s' if len(rows) > 1 else ''} cannot be read, the first is: {shown(decoded(rows[0].row), longest=120)}"
    )


def _twice(entries: Sequence[Entry]) -> str:
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            return f"the name {shown(entry.name)} comes twice"
        seen.add(entry.name)
    return ""


def _suspicious(count: int, *, limit: int) -> str:
    if count >= limit:
        return f"it has {count} rows, and the limit is {limit}: raise listing_limit"
    if count in _KNOWN_LIMITS or (count >= _ROUND and count % _ROUND == 0):
        return f"it has exactly {count} rows, as if the server stopped there"
    return ""

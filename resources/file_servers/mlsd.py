"""Rows of MLSD and MLST (RFC 3659): the server's own machine-readable form, in UTC."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from guards.spool.listing import Entry, EntryType, TimeSource
from resources.file_servers.names import decoded

_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.\d{1,9})?")
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Unparsable:
    """A row that is none we know: the listing that holds it proves nothing by absence."""

    row: bytes


@dataclass(frozen=True, slots=True)
class Passed:
    """A row about no entry: the directory itself, its parent, a total."""


def parse_row(row: bytes) -> Entry | Passed | Unparsable:
    """One row of MLSD, without its line end: `type=file;size=3;modify=20260102030405; name`. Total: any bytes give a value."""
    facts_text, blank, name = row.partition(b" ")
    facts = _facts(facts_text)
    if not blank or not name or facts is None:
        return Unparsable(row)
    if facts.get("type", "").lower() in ("cdir", "pdir") or name in (b".", b".."):
        return Passed()
    return _entry(facts, decoded(name))


def parse_answer(line: bytes, name: str) -> Entry | Unparsable:
    """The one line of an MLST reply, about `name`. Its own path is not read: servers spell it in many ways."""
    facts_text, blank, _ = line.strip(b" ").partition(b" ")
    facts = _facts(facts_text)
    if not blank or not facts:
        return Unparsable(line)
    return _entry(facts, name)


def utc_time(text: str) -> datetime | None:
    """`YYYYMMDDHHMMSS[.sss]` as UTC in whole seconds (cut, not rounded); None when it is no such time. A leap second is the last of its minute."""
    found = _TIME.fullmatch(text)
    if found is None or not text.isascii():
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, 59 if second == 60 else second, tzinfo=UTC)
    except ValueError:
        return None


def count(text: str) -> int | None:
    """A size in bytes, None when it is none: unknown is never zero."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    value = int(text)
    return value if value <= _LARGEST else None


def _facts(raw: bytes) -> Mapping[str, str] | None:
    """`type=file;size=3;` by lower-case name; None when it is not of that form or holds one fact twice."""
    facts: dict[str, str] = {}
    for part in raw.decode("latin-1").split(";"):
        if not part:
            continue
        name, equals, value = part.partition("=")
        if not equals or not name or name.lower() in facts:
            return None
        facts[name.lower()] = value
    return facts


def _entry(facts: Mapping[str, str], name: str) -> Entry:
    modified_at = utc_time(facts.get("modify", ""))
    kind = _type(facts.get("type", "").lower())
    return Entry(
        name=name,
        type=kind,
        size_bytes=count(facts.get("size", "")) if kind is not EntryType.DIRECTORY else None,
        modified_at=modified_at,
        time_source=TimeSource.MLSD if modified_at else TimeSource.NONE,
    )


def _type(kind: str) -> EntryType:
    if kind == "file":
        return EntryType.FILE
    if kind in ("dir", "cdir", "pdir"):
        return EntryType.DIRECTORY
    if kind.startswith(("os.unix=slink", "os.unix=symlink")):
        return EntryType.LINK
    return EntryType.OTHER

"""What a directory on a file server holds, as far as the server would say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class EntryType(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


class TimeSource(StrEnum):
    """Where `modified_at` came from, most exact first."""

    MLSD = "mlsd"
    MDTM = "mdtm"
    SFTP = "sftp"
    LIST = "list"
    """A LIST row: minutes at best, in the zone of the profile; a year may have been inferred."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row.

    `name` is exact: undecodable bytes are lone surrogates (PEP 383), so `os.fsencode(name)` gives the server's bytes back. It is
    hostile until `guards.spool.names` has seen it.
    `size_bytes`: as the server reports it (SIZE or MLST, RFC 3659; SFTP attributes); None when it would not say, never zero.
    `modified_at`: aware UTC, whole seconds; None when the server would not say.
    """

    name: str
    type: EntryType = EntryType.FILE
    size_bytes: int | None = None
    modified_at: datetime | None = None
    time_source: TimeSource = TimeSource.NONE


@dataclass(frozen=True, slots=True)
class Listing:
    """All rows of one directory. `incomplete` is "" or one sentence that says why absence proves nothing here."""

    directory: str
    entries: tuple[Entry, ...] = ()
    incomplete: str = ""
    _by_name: Mapping[str, Entry] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {entry.name: entry for entry in self.entries})

    @property
    def is_complete(self) -> bool:
        return not self.incomplete

    def get(self, name: str) -> Entry | None:
        """None means only "no such row"; whether that proves absence is for `is_complete` to say."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

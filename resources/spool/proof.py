"""Prove what a server holds under a name: size first, then the hash ladder."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from guards.canonical import Json
from guards.spool.listing import Entry
from resources.file_servers.connect import PATIENCE, Patience
from resources.file_servers.interface import Reader
from resources.pulse import nothing_moves
from resources.spool.observe import hash_of


class ProvenBy(StrEnum):
    SERVER_HASH = "server_hash"
    """HASH, XSHA256 or check-file-name: the server read its own copy."""
    READ_BACK = "read_back"
    """Every byte was read back and hashed here."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What is under a name. `sha256` is "" when the size already disagreed and no byte was read."""

    entry: Entry | None
    sha256: str
    proven_by: ProvenBy | None

    def equals(self, *, size_bytes: int, sha256: str) -> bool:
        return self.entry is not None and self.entry.size_bytes in (size_bytes, None) and self.sha256 == sha256

    def describe(self) -> str:
        """For a sentence after "the partner holds"."""
        if self.entry is None:
            return "nothing"
        if not self.sha256:
            return f"{self.entry.size_bytes:,} bytes" if self.entry.size_bytes is not None else "a copy of unknown size"
        return f"other bytes (SHA-256 {self.sha256[:12]})"

    def as_json(self) -> dict[str, Json]:
        entry = self.entry
        return {
            "present": entry is not None,
            "size_bytes": entry.size_bytes if entry else None,
            "modified_at": entry.modified_at.isoformat() if entry and entry.modified_at else None,
            "sha256": self.sha256,
            "proven_by": self.proven_by.value if self.proven_by else None,
        }


def prove(
    reader: Reader,
    directory: str,
    name: str,
    *,
    size_bytes: int,
    moved: Callable[[], None] = nothing_moves,
    patience: Patience = PATIENCE,
) -> Proof:
    """The server's hash where it has one that works, else read back. A server that will not say the size is read back all the same."""
    entry = reader.stat(directory, name)
    if entry is None or entry.size_bytes not in (size_bytes, None):
        return Proof(entry=entry, sha256="", proven_by=None)
    told = reader.sha256(directory, name)
    if told is not None:
        return Proof(entry=entry, sha256=told, proven_by=ProvenBy.SERVER_HASH)
    read = hash_of(reader, directory, name, ceiling_bytes=size_bytes, moved=moved, patience=patience)
    return Proof(entry=entry, sha256=read, proven_by=ProvenBy.READ_BACK)

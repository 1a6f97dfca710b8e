"""A running file server as the contract suite sees it: an endpoint to talk to, the directory behind it, and what it is able to do."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from resources.file_servers.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Abilities:
    """What this server really does; the suite asks for nothing else, and for all of this. Defaults are the common case."""

    tells_seconds: bool = True
    """Modified times in the listing are exact to the second."""
    types_links: bool = True
    """Symbolic links are told from files in the listing."""
    keeps_bytes: bool = True
    """Undecodable names can be listed and addressed."""
    shows_dot_names: bool = True
    """Names with a leading dot are in a plain listing."""
    hashes: bool = False
    """The server computes SHA-256."""
    replaces: bool = True
    """A rename that asks for it replaces an existing name."""
    sends_newlines: bool = False
    """A name with a newline can be asked about (SFTP)."""
    doubts_round_counts: bool = False
    """A listing of exactly 1000 rows counts as incomplete (FTP: its end proves nothing)."""
    obeys_permissions: bool = False
    """Its processes are not root's: a directory without permissions is closed to them."""


@dataclass(frozen=True, slots=True)
class Peer:
    """`inbox` on our disk is `endpoint.directory` on the server. `owner` may write there when the server is not root."""

    name: str
    endpoint: Endpoint
    inbox: Path
    abilities: Abilities = field(default_factory=Abilities)
    owner: tuple[int, int] | None = None
    log: Path | None = None
    """JSON lines of what clients did, where the server keeps one."""

    def at(self, **changes: object) -> Endpoint:
        return replace(self.endpoint, **changes)  # type: ignore[arg-type]

    def folder(self, name: str) -> "Folder":
        """A new directory below the inbox that the server may write."""
        disk = self.inbox / name
        disk.mkdir()
        if self.owner is not None:
            os.chown(disk, *self.owner)
        return Folder(f"{self.endpoint.directory.rstrip('/')}/{name}", disk)


@dataclass(frozen=True, slots=True)
class Folder:
    """One directory, known by the server as `path` and by us as `disk`."""

    path: str
    disk: Path

    def put(self, name: str, content: bytes = b"content\n", *, at: int = 1_767_323_045) -> Path:
        """A file behind the server's back; `at` in seconds since the epoch (default 2026-01-02 03:04:05 UTC)."""
        file = self.on_disk(name)
        file.write_bytes(content)
        os.utime(file, (at, at))
        return file

    def on_disk(self, name: str) -> Path:
        return Path(os.fsdecode(os.fsencode(self.disk) + b"/" + name.encode("utf-8", "surrogateescape")))

    def names(self) -> list[str]:
        return sorted(raw.decode("utf-8", "surrogateescape") for raw in os.listdir(os.fsencode(self.disk)))

    def contents(self, names: Iterable[str]) -> dict[str, bytes]:
        return {name: self.on_disk(name).read_bytes() for name in names}

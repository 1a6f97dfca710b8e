"""Names that we make on other people's servers: recognisably ours, hidden, in the same directory."""

from datetime import datetime
from typing import Final

from guards.canonical import digest

LONGEST_NAME_BYTES: Final = 255
"""What ext4, XFS and NTFS take; a temporary name longer than that is shortened in its middle part."""


def temp_name(pattern: str, *, name: str, run_id: str) -> str:
    """The profile's pattern filled in; `run8` is 8 hex digits of the run. A name that does not fit into 255 bytes is shortened and gets
    16 digits of its digest, so that two long names with one beginning never share a temporary name."""
    run8 = run8_of(run_id)
    room = LONGEST_NAME_BYTES - len(pattern.format(name="", run8=run8).encode())
    if _bytes_of(name) > room:
        mark = f"~{digest(name)[:16]}"
        name = _shortened(name, room=room - len(mark)) + mark
    return pattern.format(name=name, run8=run8)


def aside_name(*, name: str, run_id: str) -> str:
    """Where a short copy waits, under our own name, until its replacement is proven."""
    return temp_name(".{name}.{run8}.aside", name=name, run_id=run_id)


def taken_archive_name(*, name: str, sha256: str, at: datetime) -> str:
    """The archive never replaces: a taken name gets time and content behind it."""
    behind = f".{at:%Y%m%dT%H%M%SZ}.{sha256[:8]}"
    return _shortened(name, room=LONGEST_NAME_BYTES - len(behind)) + behind


def fits(name: str) -> bool:
    """Short enough for a server to hold it."""
    return _bytes_of(name) <= LONGEST_NAME_BYTES


def _shortened(name: str, *, room: int) -> str:
    while _bytes_of(name) > room:
        name = name[:-1]
    return name


def _bytes_of(name: str) -> int:
    return len(name.encode("utf-8", "surrogateescape"))


def run8_of(run_id: str) -> str:
    """Eight characters that are safe in any file name."""
    return "".join(c for c in run_id.lower() if c in "0123456789abcdef")[:8].ljust(8, "0")

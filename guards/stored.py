"""Reading stored JSON back: a value in exactly the spelling that was written, so that its digest comes out the same, or ValueError."""

import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from guards.canonical import Json

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def is_sha256(text: str) -> bool:
    """64 lower-case hex digits."""
    return _SHA256.fullmatch(text) is not None


def stored_object(data: Json, keys: Collection[str], what: str) -> Mapping[str, Json]:
    """All of `keys` and no other."""
    if not isinstance(data, Mapping) or set(data) != set(keys):
        raise ValueError(f"{what} is stored as an object with exactly these keys: {', '.join(sorted(keys))}")
    return data


def stored_size(data: Json) -> int:
    if isinstance(data, bool) or not isinstance(data, int) or data < 0:
        raise ValueError("a stored size is not a whole number of bytes")
    return data


def stored_time(data: Json) -> datetime:
    """Aware and UTC."""
    moment = datetime.fromisoformat(data) if isinstance(data, str) else None
    if moment is None or moment.utcoffset() != timedelta() or moment.isoformat() != data:
        raise ValueError("a stored time is not UTC in ISO 8601")
    return moment

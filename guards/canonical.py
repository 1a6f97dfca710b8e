"""Canonical JSON and its SHA-256: the one spelling that every digest in this project is taken over.

Closed on purpose: objects with string keys, arrays, strings, integers, booleans and null. No floats (two programs spell
them differently), no sets, no dates. Keys sorted by code point, no blanks, ASCII only, so the bytes are the same everywhere.
Lone surrogates (an undecodable byte in a file name, PEP 383) are kept as escapes: a digest tells two such names apart.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Json: TypeAlias = bool | int | str | Sequence["Json"] | Mapping[str, "Json"] | None


class NotCanonical(TypeError):
    """A value outside the closed set above: a programming error, never an operator's."""


_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, check_circular=False).encode
_SCALARS: Final = frozenset({str, int, bool, type(None)})


def canonical_json(value: Json) -> bytes:
    """UTF-8 (in fact ASCII) bytes; equal for equal values, whatever the order the mapping was built in."""
    return plain_json(value if is_plain(value) else _closed(value))


def plain_json(value: Any) -> bytes:
    """The same of what `is_plain`, without looking: JSON that was just parsed is."""
    return _encode(value).encode("ascii")


def digest(value: Json) -> str:
    """SHA-256 over the canonical JSON: 64 lower-case hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def is_plain(value: Any) -> bool:
    """Built of the built-in types themselves, so that it needs no copy. By exact type: a seventh of what copying costs."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        for key, item in value.items():  # noqa: SIM110 - a generator takes twice as long
            if type(key) is not str or (type(item) not in _SCALARS and not is_plain(item)):
                return False
        return True
    return kind is list and all(is_plain(item) for item in value)


def _closed(value: Json) -> object:
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise NotCanonical(f"a key must be text, not {type(key).__name__}")
            return {str(key): _closed(item) for key, item in value.items()}
        case bytes() | bytearray():
            raise NotCanonical("bytes have no JSON form")
        case Sequence():
            return [_closed(item) for item in value]
        case _:
            raise NotCanonical(f"{type(value).__name__} has no canonical form")

"""Column types: what PostgreSQL's own text and JSON would refuse or change.

PostgreSQL text holds neither NUL nor a lone surrogate (an undecodable byte of a file name, PEP 383); names with either are input
like any other and have to come back as they were.
"""

import json
import re
from typing import Any, Final

from sqlalchemy import Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from guards.canonical import Json, canonical_json

_TO_ESCAPE: Final = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPED: Final = re.compile(r"\\(\\|u[0-9a-f]{4})")


def escape(text: str) -> str:
    r"""One to one: a backslash is doubled, NUL and surrogates become \uXXXX, all else stays as it is."""
    return _TO_ESCAPE.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), text)


class ExactText(TypeDecorator[str]):
    """Any Python text, unchanged; readable in psql unless it is hostile."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else unescape(value)


class CanonicalJson(TypeDecorator[Json]):
    """Canonical JSON as ASCII text, so that what is read is byte for byte what was signed; `column::json` works in psql."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Json, dialect: Dialect) -> str:
        return canonical_json(value).decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)

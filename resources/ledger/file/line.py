"""A row as a line of a segment or of an export: `{"digest":"<64 hex>","row":<canonical row>}`, and a newline."""

import re
from typing import Final

_FORM: Final = re.compile(rb'\{"digest":"([0-9a-f]{64})","row":(\{.*\})\}', re.DOTALL)
BEGINNING: Final = re.compile(rb'\{"digest":"[0-9a-f]{64}","row":\{')
BEFORE_ROW: Final = 83
"""Bytes of a line before its row begins."""


def line_of(digest: str, row: bytes) -> bytes:
    return b'{"digest":"' + digest.encode("ascii") + b'","row":' + row + b"}\n"


def split_line(line: bytes) -> tuple[str, bytes] | None:
    """Stored digest and row of a line without its newline; None when it has not the form."""
    found = _FORM.fullmatch(line)
    return (found[1].decode("ascii"), found[2]) if found else None

"""Showing what came from outside: file names, notes and comments are hostile until one of these functions has seen them.

One convention everywhere: a character that must not act is shown as an escape. An undecodable byte (a lone surrogate, PEP 383) is
`\\xNN` of that byte, an ASCII control `\\n` or `\\x1b`, anything else `\\u202e`; so a byte and a code point never look the same.
Showing a text twice changes nothing more, and what is shown is for eyes: it is never a name again.
"""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

NAME_LIMIT: Final = 120
"""Characters that a shown name takes at most: 255 undecodable bytes would otherwise be 1,020."""

SENTENCE_LIMIT: Final = 600
"""Characters that a shown sentence takes at most; a note may hold two names."""

ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"

_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Printable to Python, blank to people: fillers that make two different names look the same."""

_MARKDOWN_ACTIVE: Final = re.compile(r"([\\`*_\[\]<>|~&])")
_AUTOLINKED: Final = re.compile(r"(?:(?<=http)|(?<=https))://|(?<=www)\.|@", re.IGNORECASE)
_SLACK_ACTIVE: Final = re.compile(r"`|(?<![^\W_])[*_~@]|[*_~](?![^\W_])|(?:(?<=http)|(?<=https))://|(?<=www)\.", re.IGNORECASE)


def one_line(text: str, *, limit: int | None = NAME_LIMIT) -> str:
    """Printable, on one line, at most `limit` characters (2 or more): what is too long loses its middle, never half an escape."""
    return _shorten([_shown(character) for character in text], limit)


def terminal(text: str, *, limit: int | None = None, ascii_only: bool = False) -> str:
    """For a terminal or a log: no control sequence survives. `ascii_only` where the output cannot spell anything else."""
    parts = [_shown(character) for character in text]
    if ascii_only:
        parts = [part if part.isascii() else _code_point(part) for part in parts]
    return _shorten(parts, limit, ellipsis="..." if ascii_only else ELLIPSIS)


def code_span(text: str, *, limit: int | None = NAME_LIMIT) -> str:
    """A Markdown code span that no content can leave: the fence is longer than any run of backticks inside."""
    shown = one_line(text, limit=limit) or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    padding = " " if "`" in shown or shown.strip() not in ("", shown) else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def table_cell(text: str, *, limit: int = NAME_LIMIT) -> str:
    """A code span inside a Markdown table. A bar is shown as an escape: parsers disagree about `\\|` after a backslash."""
    return code_span(one_line(text, limit=limit).replace("|", "\\x7c"), limit=None)


def markdown_text(text: str, *, limit: int | None = SENTENCE_LIMIT) -> str:
    """A sentence inside Markdown: no markup, no image (browsers fetch those), no link, not even from a bare address."""
    shown = _AUTOLINKED.sub(_escaped, one_line(text, limit=limit))
    return _MARKDOWN_ACTIVE.sub(r"\\\1", shown)


def slack_text(text: str, *, limit: int | None = SENTENCE_LIMIT) -> str:
    """Plain words inside any Slack text: `&`, `<` and `>` are escaped, so no `<!here>` and no link; `@`, addresses and markup at a
    word's edge are shown as escapes. `orders_2026.csv` stays as it is and can be copied. The limit counts before escaping."""
    shown = _SLACK_ACTIVE.sub(_escaped, one_line(text, limit=limit))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def size_words(size_bytes: int) -> str:
    """ "178,535 bytes"."""
    return count_words(size_bytes, "byte")


def count_words(number: int, noun: str, plural: str = "") -> str:
    """ "1 feed", "1,204 feeds"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """ "a, b and 1,204 more": at most `most` of them, shown already."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration_words(minutes: int) -> str:
    """ "6 h 12 min", "3 d 4 h"; whole minutes, the two largest units, a negative one as 0."""
    hours, rest = divmod(max(minutes, 0), 60)
    days, hours_left = divmod(hours, 24)
    parts = ((days, "d"), (hours_left, "h")) if days else ((hours, "h"), (rest, "min"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 min"


def _shown(character: str) -> str:
    if character.isprintable() and character not in _INVISIBLE:
        return character
    return _SHORT_ESCAPES.get(character) or _code_point(character)


def _code_point(character: str) -> str:
    point = ord(character)
    if 0xDC80 <= point <= 0xDCFF:
        return f"\\x{point - 0xDC00:02x}"
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _escaped(found: re.Match[str]) -> str:
    return "".join(_code_point(character) for character in found[0])


def _shorten(parts: list[str], limit: int | None, *, ellipsis: str = ELLIPSIS) -> str:
    """The parts joined; when that is longer than `limit`, as many whole ones from both ends as fit around the ellipsis."""
    if limit is None or sum(map(len, parts)) <= limit:
        return "".join(parts)
    room = max(limit - len(ellipsis), 0)
    head = _fitting(parts, (room + 1) // 2)
    tail = _fitting(parts[::-1], room - len("".join(head)))[::-1]
    return "".join([*head, ellipsis, *tail])


def _fitting(parts: list[str], room: int) -> list[str]:
    return [part for part, used in zip(parts, accumulate(map(len, parts)), strict=True) if used <= room]

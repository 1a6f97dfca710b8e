"""Names from outside: which are safe to act on, which may stand for a feed, and which are look-alikes of each other."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from guards.spool.policy import SpoolPolicy

MOST_NAME_BYTES: Final = 255
"""NAME_MAX of every file system that we know of. A longer one cannot be a row of a real directory."""

_UNSAFE_CATEGORIES: Final = {
    "Cc": "a control character",
    "Cf": "an invisible or text-reversing character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
    "Cs": "bytes that are not UTF-8",
}

_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks to Unicode, nothing to the eye: two names that differ only in them look the same."""


def unsafe_reason(name: str) -> str:
    """ "" when the name can be acted on, else what is wrong with it, to be put after "the name has" or shown alone."""
    if name.isascii() and name.isprintable():
        if name in ("", ".", ".."):
            return "no name of its own: it is empty or names a directory's self or parent"
        if "/" in name:
            return "a slash: it would leave its directory"
        return "" if len(name) <= MOST_NAME_BYTES else f"more than {MOST_NAME_BYTES} bytes"
    for character in name:
        if reason := _UNSAFE_CATEGORIES.get(unicodedata.category(character)):
            return f"{reason} (U+{ord(character):04X})"
        if character in _BLANK:
            return f"a character that shows as nothing (U+{ord(character):04X})"
    if "/" in name:
        return "a slash: it would leave its directory"
    return "" if len(name.encode()) <= MOST_NAME_BYTES else f"more than {MOST_NAME_BYTES} bytes"


def is_marker(name: str, policy: SpoolPolicy) -> bool:
    """A writer's marker: the feed of the same name without the ending is still being written."""
    return name.endswith(policy.in_progress_suffixes)


def is_deliverable(name: str, policy: SpoolPolicy) -> bool:
    """The whole name matches the policy's pattern. A leading dot or dash never does, whatever the pattern says."""
    return not name.startswith((".", "-")) and _compiled(policy.deliverable_pattern).fullmatch(name) is not None


@lru_cache(maxsize=32)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def alias_key(name: str, *, case_sensitive: bool) -> str:
    """Two different names with one key may be one file to the server: equal after NFC and, when it ignores case, case folding."""
    if case_sensitive:
        return name if name.isascii() else unicodedata.normalize("NFC", name)
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@dataclass(frozen=True, slots=True)
class AliasIndex:
    """Finds another name with the same key. Holds only names that differ from their key: nearly none, nearly no memory."""

    case_sensitive: bool
    plain: frozenset[str]
    by_key: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, names: Iterable[str], *, case_sensitive: bool) -> "AliasIndex":
        plain: set[str] = set()
        by_key: dict[str, tuple[str, ...]] = {}
        for name in names:
            key = alias_key(name, case_sensitive=case_sensitive)
            if key == name:
                plain.add(name)
            else:
                # Two are enough to always have one that is not the asker; a directory of 20,000 look-alikes stays linear.
                by_key[key] = tuple(sorted({*by_key.get(key, ()), name})[:2])
        return cls(case_sensitive=case_sensitive, plain=frozenset(plain), by_key=by_key)

    def other_than(self, name: str) -> str | None:
        """The first name, in code point order, that is not `name` but has its key."""
        key = alias_key(name, case_sensitive=self.case_sensitive)
        others = {other for other in self.by_key.get(key, ()) if other != name}
        if key != name and key in self.plain:
            others.add(key)
        return min(others, default=None)

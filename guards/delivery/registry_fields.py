"""The fields of the customers' file: each text by a closed grammar, each refusal a sentence at the place where the value stands."""

import difflib
import re
import zoneinfo
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import time, timedelta
from typing import Final

from guards.delivery.marked_yaml import Items, Meant, Node, Problems, Scalar, Table
from guards.delivery.registry import LONGEST_CATCH_UP, TEMPLATE_ID, CatchUp, Provider, Route, UntilWindowEnd
from guards.text import one_line

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LONGEST_DISPLAY_NAME: Final = 120
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DURATION: Final = re.compile(
    r"(?P<sign>[+-]?)P(?=[0-9T])((?P<weeks>[0-9]{1,5})W|((?P<days>[0-9]{1,5})D)?(T(?=[0-9])((?P<hours>[0-9]{1,5})H)?((?P<minutes>[0-9]{1,5})M)?)?)"
)
_JOINERS: Final = str.maketrans("", "", "\u200c\u200d")
"""Letters of Persian and Indic names are told apart by them, and they move nothing."""
_LONGEST_GUESSED: Final = 64
"""A longer word is nobody's slip of the finger, and comparing it takes time that grows with its square."""
_NOT_PLACES: Final = re.compile(r"(posix|right)/.*|localtime|posixrules|Factory")
"""In the zone database, and not the same everywhere or counting leap seconds."""


@dataclass(frozen=True, slots=True)
class _Address:
    key: str
    form: re.Pattern[str]
    words: str


_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_MAIL_ADDRESS: Final = re.compile(rf"(?=[^@]{{1,64}}@[^@]{{1,190}}\Z)(?!.*=\?){_ATOM}(\.{_ATOM})*@{_LABEL}(\.{_LABEL})*")
"""RFC 5321's Dot-string and domain. `=?` would be read as an encoded word by some who show the header."""
_NAME_FORM: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NAME_WORDS: Final = "1 to 64 of a-z, 0-9, dash and underscore, beginning with a letter or digit"
ADDRESSES: Final = {
    Provider.SLACK: _Address("channel", re.compile(r"[CDG][A-Z0-9]{5,20}"), "a channel's id such as C0123456, not its name"),
    Provider.WEBHOOK: _Address("webhook", _NAME_FORM, f"the name of a webhook in the settings: {_NAME_WORDS}"),
    Provider.SMTP: _Address("to", _MAIL_ADDRESS, "one plain mail address: name@example.com"),
    Provider.FILE: _Address("directory", _NAME_FORM, f"a directory's name below file_provider_dir: {_NAME_WORDS}"),
}
"""Which key of a route says where, per provider."""


@dataclass(slots=True)
class Fields:
    """Reads values out of nodes. A method that returns None has said why, or a problem below was said before."""

    problems: Problems
    _zones: dict[str, str] = field(default_factory=dict)
    """Zone to what is wrong with it."""

    def table(self, node: Node, what: str, *, known: Sequence[str], required: Sequence[str] = ()) -> dict[str, Node] | None:
        """The values by key. Unknown and missing keys are said, and the others returned."""
        if not isinstance(node, Table):
            self._not(node, f"{what} must be a mapping with the keys {', '.join(known)}")
            return None
        for key in [key for key in node.pairs if key not in known]:
            self.problems.at(node.pairs[key][0], f"{what}: unknown key {one_line(key)}; {nearest(key, known)}")
        for key in required:
            if key not in node.pairs:
                self.problems.at(node, f"{what}: the key {key} is missing")
        return {key: value for key, (_, value) in node.pairs.items() if key in known}

    def items(self, node: Node, what: str) -> list[Node]:
        if isinstance(node, Items):
            return node.items
        self._not(node, f"{what} must be a list: each entry begins with a dash")
        return []

    def text(self, node: Node, what: str, form: re.Pattern[str], words: str) -> str | None:
        if not isinstance(node, Scalar) or node.meant is Meant.UNKNOWN:
            self._not(node, f"{what} must be {words}")
        elif node.meant is not Meant.TEXT and form.fullmatch(node.text):
            self.problems.at(node, f'{what}: YAML reads {node.text} as {node.meant}: write "{node.text}" with quotes')
        elif not form.fullmatch(node.text):
            self.problems.at(node, f'{what} must be {words}; "{one_line(node.text)}" is not')
        else:
            return node.text
        return None

    def one_of(self, node: Node, what: str, known: Iterable[str]) -> str | None:
        choices = list(known)
        if isinstance(node, Scalar) and node.text in choices:
            return node.text
        guess = f"; {nearest(node.text, choices)}" if isinstance(node, Scalar) and node.text else ""
        self._not(node, f"{what} must be one of {', '.join(choices)}{guess if 'did you mean' in guess else ''}")
        return None

    def number(self, node: Node, what: str, lowest: int, highest: int) -> int | None:
        allowed = f"a whole number from {lowest} to {highest}" if lowest < highest else str(lowest)
        words = f"{what} must be {allowed}, without quotes and leading zeros"
        if isinstance(node, Scalar) and node.meant is Meant.NUMBER and re.fullmatch(r"0|[1-9][0-9]{0,8}", node.text):
            if lowest <= int(node.text) <= highest:
                return int(node.text)
            words += f"; {node.text} is not"
        self._not(node, words)
        return None

    def truth(self, node: Node, what: str) -> bool | None:
        if isinstance(node, Scalar) and node.meant is Meant.TRUTH and node.text.lower() in ("true", "false"):
            return node.text.lower() == "true"
        self._not(node, f"{what} must be true or false")
        return None

    def display_name(self, node: Node, what: str) -> str | None:
        words = f"{what} must be text of 1 to {LONGEST_DISPLAY_NAME} characters on one line"
        if not isinstance(node, Scalar) or node.meant is Meant.UNKNOWN:
            self._not(node, words)
        elif node.meant is not Meant.TEXT:
            self.problems.at(node, f"{what}: YAML reads this as {node.meant}: put it between quotes")
        elif not node.text.strip() or len(node.text) > LONGEST_DISPLAY_NAME:
            self.problems.at(node, words)
        elif one_line(bare := node.text.translate(_JOINERS), limit=None) != bare:
            self.problems.at(node, f"{what}: {one_line(node.text)} holds characters that show as nothing or that act")
        else:
            return node.text
        return None

    def time_of_day(self, node: Node, what: str) -> time | None:
        """With or without quotes: YAML reads 10:00 as the number 600, people do not."""
        found = _TIME.fullmatch(node.text) if isinstance(node, Scalar) else None
        if found:
            return time(int(found[1]), int(found[2]))
        self._not(node, f'{what} must be a time from "00:00" to "23:59", hours and minutes with two digits each')
        return None

    def template(self, node: Node, what: str) -> str | None:
        return self.text(node, what, TEMPLATE_ID, "a template's id that ends with its version, such as missing-checkin-v1")

    def catch_up(self, node: Node, what: str) -> CatchUp | None:
        named = [end.value for end in UntilWindowEnd]
        text = node.text if isinstance(node, Scalar) else ""
        if text in named:
            return UntilWindowEnd(text)
        found = _DURATION.fullmatch(text)
        if found is None:
            words = f"{what} must be {', '.join(named)}, or a length of days, hours and minutes such as P2D, PT6H or P1DT12H"
            guess = difflib.get_close_matches(text[:_LONGEST_GUESSED], named, n=1)
            self._not(node, f"{words}; did you mean {guess[0]}?" if guess else words)
            return None
        parts = {unit: int(found[unit] or 0) for unit in ("weeks", "days", "hours", "minutes")}
        length = timedelta(**parts)
        if found["sign"] == "-" or not length:
            self._not(node, f"{what} must be longer than nothing: {text} is not; `none` allows only the minute that it is due in")
        elif length > LONGEST_CATCH_UP:
            self._not(node, f"{what} must be {LONGEST_CATCH_UP.days} days at most; {text} is longer")
        else:
            return length
        return None

    def zone(self, node: Node, what: str) -> str | None:
        if not isinstance(node, Scalar) or node.meant is not Meant.TEXT:
            self._not(node, f"{what} must be the name of a time zone, such as Asia/Seoul")
            return None
        if node.text not in self._zones:
            self._zones[node.text] = _wrong_zone(node.text)
        if wrong := self._zones[node.text]:
            self._not(node, f"{what}: {wrong}")
            return None
        return node.text

    def route(self, node: Node, what: str) -> Route | None:
        named = node.pairs.get("provider") if isinstance(node, Table) else None
        if named is None:
            self._not(node, f"{what} must be a mapping with provider ({', '.join(Provider)}) and where to")
            return None
        chosen = self.one_of(named[1], f"{what}: provider", Provider)
        if chosen is None:
            return None
        provider = Provider(chosen)
        wanted = ADDRESSES[provider]
        given = self.table(node, what, known=("provider", wanted.key), required=(wanted.key,)) or {}
        if wanted.key not in given:
            return None
        address = self.text(given[wanted.key], f"{what}: {wanted.key}", wanted.form, wanted.words)
        return None if address is None else Route(provider, address)

    def _not(self, node: Node, sentence: str) -> None:
        """Says it, unless what stands there was refused before."""
        if not isinstance(node, Scalar) or node.meant is not Meant.UNKNOWN:
            self.problems.at(node, sentence)


def nearest(word: str, known: Sequence[str]) -> str:
    """A half sentence with the known word that is most like it, or all of them."""
    close = difflib.get_close_matches(word[:_LONGEST_GUESSED], known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _wrong_zone(name: str) -> str:
    """ "" for a zone that this machine knows."""
    try:
        if not _NOT_PLACES.fullmatch(name):
            zoneinfo.ZoneInfo(name)
            return ""
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    known = sorted(zone for zone in zoneinfo.available_timezones() if not _NOT_PLACES.fullmatch(zone))
    if not known:
        return "this machine has no time zone database: install the system's tzdata package, or `pip install tzdata`"
    close = difflib.get_close_matches(name[:_LONGEST_GUESSED], known, n=1)
    hint = f"did you mean {close[0]}?" if close else "names are like Asia/Seoul or Europe/Berlin"
    return f"unknown time zone {one_line(name)}; {hint}"

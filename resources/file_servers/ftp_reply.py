"""Replies of an FTP server (RFC 959 4.2), and the ports in those to EPSV and PASV. Pure: lines in, values out."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from resources.file_servers.names import decoded

_FIRST_LINE: Final = re.compile(r"[1-5][0-9]{2}(?:[ -].*)?", re.DOTALL)
_EXTENDED: Final = re.compile(r"\((?P<mark>[!-/:-~])(?P=mark)(?P=mark)(?P<port>[0-9]{1,5})(?P=mark)\)")
_PASSIVE: Final = re.compile(r"(?<![0-9])(?:[0-9]{1,3},){4}(?P<high>[0-9]{1,3}),(?P<low>[0-9]{1,3})(?![0-9])")
_MOST_LINES: Final = 1000
"""FEAT has some 30, a long banner 50; a server that goes on for ever must not fill the memory."""


class NoReply(ValueError):
    """What came is no reply; the text says what it is instead."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply. `lines` hold names as exact bytes in text (PEP 383); `code` is three digits."""

    code: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(line.strip() for line in self.lines)

    @property
    def begins(self) -> bool:
        return self.code // 100 == 1

    @property
    def done(self) -> bool:
        return self.code // 100 == 2

    @property
    def passing(self) -> bool:
        """4xx: may pass by itself."""
        return self.code // 100 == 4

    @property
    def not_understood(self) -> bool:
        return self.code in (500, 501, 502, 503, 504)


def read_reply(next_line: Callable[[], str]) -> Reply:
    """`nnn text`; or `nnn-text`, any lines, `nnn text`. `next_line` gives lines without their end, one character per byte (Latin-1)."""
    first = next_line()
    if not _FIRST_LINE.fullmatch(first):
        raise NoReply(f'"{first}" is no FTP reply')
    code, lines = first[:3], [first[4:]]
    more = first[3:4] == "-"
    while more:
        if len(lines) >= _MOST_LINES:
            raise NoReply("the reply does not end")
        line = next_line()
        more = line[:3] != code or line[3:4] not in ("", " ")
        lines.append(line if more else line[4:])
    return Reply(int(code), tuple(decoded(line.encode("latin-1")) for line in lines))


def extended_port(reply: Reply) -> int | None:
    """From 229 to EPSV (RFC 2428): `(|||port|)`."""
    found = _EXTENDED.search(reply.text) if reply.code == 229 else None
    return _usable(int(found["port"])) if found else None


def passive_port(reply: Reply) -> int | None:
    """From 227 to PASV; the address in it is not even read."""
    found = _PASSIVE.search(reply.text) if reply.code == 227 else None
    return _usable(int(found["high"]) * 256 + int(found["low"])) if found and int(found["low"]) < 256 else None


def _usable(port: int) -> int | None:
    return port if 0 < port < 65536 else None

"""Options and arguments that several commands share, and how their texts are read."""

import re
from datetime import timedelta
from typing import Annotated, Final, TypeAlias

import typer

from resources.errors import ConfigurationError

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, one object per line.")]
Digest: TypeAlias = Annotated[str, typer.Argument(metavar="DIGEST", help="A plan's digest, or 8 and more of its first digits.")]
Where: TypeAlias = Annotated[str, typer.Argument(metavar="GUARD[/WATCH]", help="For example spool or spool/acme.")]
GuardOption: TypeAlias = Annotated[str, typer.Option("--guard", metavar="GUARD", help="Only of this guard.")]

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
LONGEST: Final = timedelta(days=90)


def duration(text: str) -> timedelta:
    """`90m`, `12h`, `2d`; from a minute to 90 days."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text.strip().lower())
    length = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta(0)
    if not timedelta(minutes=1) <= length <= LONGEST:
        raise ConfigurationError("--valid-for must be a number and m, h or d, from 1m to 90d: for example 12h")
    return length


def person(text: str) -> str:
    """Who decides: a claim, shown on pages, so printable and short."""
    name = text.strip()
    if not 1 <= len(name) <= 120 or not name.isprintable():
        raise ConfigurationError("--by must be 1 to 120 printable characters: say who decides")
    return name


def comment(text: str) -> str:
    if len(text) > 2000 or not all(character.isprintable() or character == "\n" for character in text):
        raise ConfigurationError("--comment may have 2000 printable characters at most")
    return text


def assignments(given: list[str]) -> dict[str, str]:
    """`FIELD=VALUE` texts as a mapping; the fields are checked against the policy elsewhere."""
    pairs: dict[str, str] = {}
    for text in given:
        field, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[a-z_]{1,60}", field):
            raise ConfigurationError(f"--set wants FIELD=VALUE, for example --set sla_minutes=30; {text[:60]!a} is not that")
        if field in pairs:
            raise ConfigurationError(f"--set names {field} twice")
        pairs[field] = value
    return pairs

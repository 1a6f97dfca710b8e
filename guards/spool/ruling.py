"""What is ruled of one entry: a verdict and a sentence, perhaps an action, perhaps facts to ask for first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto

from guards.canonical import Json
from guards.spool.case import Case
from guards.spool.verdict import SpoolVerdict


class SpoolAction(StrEnum):
    """What a plan would do about an entry."""

    SEND = "send"
    RESOLVE = "resolve"
    """Observe the partner and settle what the ledger holds in doubt; nothing is sent."""
    ARCHIVE = "archive"


class Ask(Flag):
    """Facts about one name that only its server can give."""

    NOTHING = 0
    CONFIRM_SOURCE = auto()
    CONFIRM_PARTNER = auto()
    SECOND_LOOK = auto()
    HASH_SOURCE = auto()
    HASH_PARTNER = auto()
    CONFIRM = CONFIRM_SOURCE | CONFIRM_PARTNER


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the table says of one entry. With an `action` it is a candidate: a target once confirmed and within the ceiling."""

    verdict: SpoolVerdict
    note: str
    action: SpoolAction | None = None
    asks: Ask = Ask.NOTHING
    """What the verdict waits for; never anything that was already answered."""
    facts: Mapping[str, Json] = field(default_factory=dict)


@dataclass(slots=True)
class Judged:
    """One entry on its way from the table to the report. `action` is set exactly when it holds one of the plan's places: it becomes a
    target once hashed. `asks` are this round's questions about it."""

    case: Case
    ruling: Ruling
    action: SpoolAction | None = None
    asks: Ask = Ask.NOTHING


def unanswered_confirmations(case: Case) -> Ask:
    source = Ask.CONFIRM_SOURCE if case.source_unasked else Ask.NOTHING
    partner = Ask.CONFIRM_PARTNER if case.partner_unasked else Ask.NOTHING
    return source | partner

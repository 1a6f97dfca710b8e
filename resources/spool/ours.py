"""Names that we make in a partner's inbox, and how each goes away again: only names of ours, and only while we are the writer.

Each has an intent in the journal that stays open until the name is gone, so that a later run finds what an earlier one left.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from guards.spool.planning import SpoolTarget
from resources.errors import OutcomeUnknown, Rejected, Unreachable
from resources.spool.steps import Step
from resources.spool.writing import Writing

logger = logging.getLogger(__name__)

ASIDE: Final = "aside"
"""Journal step: the copy that is replaced waits under our name until the new one is proven."""
MOST_TRIES: Final = 2
"""The second on a fresh connection: it also sees whether the first one worked although its answer was lost."""


@dataclass(frozen=True, slots=True)
class OurName:
    """A temporary copy or a copy moved aside. `intent` is the journal's."""

    name: str
    intent: int


def announce_copy(writing: Writing, target: SpoolTarget, *, temp: str, reservation_id: str) -> OurName:
    return OurName(temp, writing.intend(Step.UPLOAD, target.name, {"temp": temp, "reservation": reservation_id}))


def announce_aside(writing: Writing, target: SpoolTarget, *, aside: str, reservation_id: str) -> OurName:
    return OurName(aside, writing.intend_step(ASIDE, target.name, {"aside": aside, "reservation": reservation_id}))


def clear_away(writing: Writing, copy: OurName) -> None:
    """Removes our own temporary copy. What cannot be removed now, a later run sweeps: its intent stays open."""
    if problem := _tried(writing, lambda: _remove(writing, copy, {"temp": copy.name, "result": "removed"})):
        logger.warning("the temporary copy %r stays for now: %s", copy.name, problem)


def remove_aside(writing: Writing, aside: OurName) -> str:
    """Only after the replacement is proven. "" or a sentence that says what is left."""
    problem = _tried(writing, lambda: _remove(writing, aside, {"aside": aside.name, "result": "removed"}))
    return f"the replaced copy stays as {aside.name}: {problem}" if problem else ""


def put_back(writing: Writing, name: str, aside: OurName) -> str:
    """The copy that was moved aside gets its name again, unless something is there. "" or a sentence that says what is left."""
    problem = _tried(writing, lambda: _put_back(writing, name, aside))
    return f"the partner's earlier copy waits as {aside.name}: {problem}" if problem else ""


def _tried(writing: Writing, work: Callable[[], str]) -> str:
    """ "" or what is wrong. `work` looks before it acts, so that doing it again is harmless."""
    problem = ""
    for _ in range(MOST_TRIES):
        try:
            return work()
        except Rejected as error:
            return str(error)
        except (Unreachable, OutcomeUnknown) as error:
            problem = str(error)
            writing.sessions.partner.renew()
    return problem


def _remove(writing: Writing, ours: OurName, outcome: dict[str, str]) -> str:
    writing.state.require_live(writing.authorization)
    writing.partner.remove(writing.inbox, ours.name)
    writing.outcome(ours.intent, outcome)
    return ""


def _put_back(writing: Writing, name: str, aside: OurName) -> str:
    result = "gone"
    if writing.partner.stat(writing.inbox, aside.name) is not None:
        if writing.partner.stat(writing.inbox, name) is not None:
            return "its name is taken"
        writing.state.require_live(writing.authorization)
        writing.partner.rename(writing.inbox, aside.name, writing.inbox, name)
        result = "put_back"
    writing.outcome(aside.intent, {"aside": aside.name, "result": result})
    return ""

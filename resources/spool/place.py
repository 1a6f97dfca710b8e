"""Step 5: look at the final name once more, then one rename. From here on an error is unknown, not failed."""

import logging
from dataclasses import dataclass
from enum import StrEnum

from guards.spool.planning import SpoolTarget
from guards.spool.requirements import PartnerStateUnchanged
from resources.errors import NotObserved, OutcomeUnknown, Rejected, Unreachable
from resources.spool.steps import Step
from resources.spool.writing import Writing

logger = logging.getLogger(__name__)


class Placed(StrEnum):
    CLEAN = "clean"
    """The server said yes to the rename."""
    IN_DOUBT = "in_doubt"
    """Asked for, and no answer that can be believed."""
    REFUSED = "refused"
    """Provably not renamed: the final name holds what it held."""
    STALE = "stale"
    """Not asked for: the final name no longer holds what was planned."""


@dataclass(frozen=True, slots=True)
class Placing:
    result: Placed
    why: str = ""
    aside_used: bool = False
    """The copy that was replaced waits under our aside name until the new one is proven."""


def place(writing: Writing, target: SpoolTarget, *, temp: str, aside: str, reservation_id: str) -> Placing:
    try:
        stale = final_name_stale(writing, target)
    except Unreachable as error:
        return Placing(Placed.STALE, f"could not look at the final name: {error}")
    if stale:
        return Placing(Placed.STALE, stale)
    intent = writing.intend(Step.PLACE, target.name, {"temp": temp, "aside": aside, "reservation": reservation_id})
    placing = _rename(writing, target, temp=temp, aside=aside)
    writing.outcome(intent, {"result": placing.result.value, "why": placing.why, "aside_used": placing.aside_used})
    return placing


def final_name_stale(writing: Writing, target: SpoolTarget) -> str:
    """ "" when the final name still holds exactly what the approver saw."""
    entry = writing.partner.stat(writing.inbox, target.name)
    mismatch = PartnerStateUnchanged(name=target.name, expected=target.partner).compare(entry)
    return mismatch.sentence() if mismatch else ""


def _rename(writing: Writing, target: SpoolTarget, *, temp: str, aside: str) -> Placing:
    inbox, replaces = writing.inbox, target.partner is not None
    try:
        writing.partner.rename(inbox, temp, inbox, target.name, replace=replaces)
        return Placing(Placed.CLEAN)
    except Rejected as error:
        if not replaces:
            return Placing(Placed.REFUSED, str(error))
        logger.info("the partner does not rename onto an existing name (%s): moving the short copy aside", error)
    except (OutcomeUnknown, Unreachable) as error:
        return _doubt(writing, error)
    try:
        writing.partner.rename(inbox, target.name, inbox, aside)
    except Rejected as error:
        return Placing(Placed.REFUSED, f"the short copy can be neither replaced nor moved aside: {error}")
    except (OutcomeUnknown, Unreachable) as error:
        return _doubt(writing, error, aside_used=True)
    try:
        writing.partner.rename(inbox, temp, inbox, target.name)
        return Placing(Placed.CLEAN, aside_used=True)
    except Rejected as error:
        problem = put_back(writing, target.name, aside)
        return Placing(Placed.REFUSED, f"{error}{f'; {problem}' if problem else ''}", aside_used=bool(problem))
    except (OutcomeUnknown, Unreachable) as error:
        return _doubt(writing, error, aside_used=True)


def _doubt(writing: Writing, error: Exception, *, aside_used: bool = False) -> Placing:
    writing.sessions.partner.renew()
    return Placing(Placed.IN_DOUBT, str(error), aside_used=aside_used)


def put_back(writing: Writing, name: str, aside: str) -> str:
    """The copy that was moved aside gets its name again, unless something is there. "" or a sentence that says what is left."""
    try:
        if writing.partner.stat(writing.inbox, aside) is None:
            return ""
        if writing.partner.stat(writing.inbox, name) is not None:
            return f"the partner's earlier copy waits as {aside}"
        writing.state.require_live(writing.authorization)
        writing.partner.rename(writing.inbox, aside, writing.inbox, name)
    except (Rejected, OutcomeUnknown, NotObserved, Unreachable) as error:
        writing.sessions.partner.renew()
        return f"the partner's earlier copy waits as {aside} and could not be put back: {error}"
    return ""


def remove_aside(writing: Writing, aside: str) -> str:
    """Only after the replacement is proven. "" or a sentence that says what is left."""
    try:
        writing.state.require_live(writing.authorization)
        writing.partner.remove(writing.inbox, aside)
    except (Rejected, OutcomeUnknown, Unreachable) as error:
        writing.sessions.partner.renew()
        return f"the replaced copy stays as {aside}: {error}"
    return ""

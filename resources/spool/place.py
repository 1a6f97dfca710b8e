"""Step 5: look at the final name once more, then one rename. From here on an error is unknown, not failed."""

import logging
from dataclasses import dataclass
from enum import StrEnum

from guards.spool.planning import SpoolTarget
from guards.spool.requirements import PartnerStateUnchanged, copy_json
from resources.errors import OutcomeUnknown, Rejected, Unreachable
from resources.spool.names import aside_name
from resources.spool.ours import OurName, announce_aside, put_back
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
    """`aside`: where the copy that was replaced may be waiting until the new one is proven."""

    result: Placed
    why: str = ""
    aside: OurName | None = None


def place(writing: Writing, target: SpoolTarget, *, temp: str, reservation_id: str) -> Placing:
    try:
        stale = final_name_stale(writing, target)
    except Unreachable as error:
        return Placing(Placed.STALE, f"could not look at the final name: {error}")
    if stale:
        return Placing(Placed.STALE, stale)
    intent = writing.intend(
        Step.PLACE, target.name, {"temp": temp, "replaces": copy_json(target.partner), "reservation": reservation_id}
    )
    placing = _rename(writing, target, temp=temp, reservation_id=reservation_id)
    writing.outcome(intent, {"result": placing.result.value, "why": placing.why})
    return placing


def final_name_stale(writing: Writing, target: SpoolTarget) -> str:
    """ "" when the final name still holds exactly what the approver saw."""
    entry = writing.partner.stat(writing.inbox, target.name)
    mismatch = PartnerStateUnchanged(name=target.name, expected=target.partner).compare(entry)
    return mismatch.sentence() if mismatch else ""


def _rename(writing: Writing, target: SpoolTarget, *, temp: str, reservation_id: str) -> Placing:
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
    return _rename_by_way_of_aside(writing, target, temp=temp, reservation_id=reservation_id)


def _rename_by_way_of_aside(writing: Writing, target: SpoolTarget, *, temp: str, reservation_id: str) -> Placing:
    """The refusal may also mean that this process slept and another has delivered meanwhile: then our temporary copy is gone, and what
    has the final name is not ours to move. The intent is refused to whoever lost the lease."""
    inbox = writing.inbox
    try:
        stale = final_name_stale(writing, target)
        if not stale and writing.partner.stat(inbox, temp) is None:
            stale = "the uploaded copy is gone from its temporary name"
    except Unreachable as error:
        return Placing(Placed.REFUSED, f"could not look at the final name once more: {error}")
    if stale:
        return Placing(Placed.STALE, stale)
    name = aside_name(name=target.name, run_id=writing.run_id)
    aside = announce_aside(writing, target, aside=name, reservation_id=reservation_id)
    try:
        writing.partner.rename(inbox, target.name, inbox, name)
    except Rejected as error:
        writing.outcome(aside.intent, {"aside": name, "result": "refused"})
        return Placing(Placed.REFUSED, f"the short copy can be neither replaced nor moved aside: {error}")
    except (OutcomeUnknown, Unreachable) as error:
        return _doubt(writing, error, aside=aside)
    try:
        writing.partner.rename(inbox, temp, inbox, target.name)
        return Placing(Placed.CLEAN, aside=aside)
    except Rejected as error:
        problem = put_back(writing, target.name, aside)
        return Placing(Placed.REFUSED, f"{error}{f'; {problem}' if problem else ''}")
    except (OutcomeUnknown, Unreachable) as error:
        return _doubt(writing, error, aside=aside)


def _doubt(writing: Writing, error: Exception, *, aside: OurName | None = None) -> Placing:
    writing.sessions.partner.renew()
    return Placing(Placed.IN_DOUBT, str(error), aside=aside)

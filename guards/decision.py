"""Decisions: a person says yes or no to one plan digest. No answer is a refusal.

Rules, in the order they are asked: declined beats approved; an approval is used once; it expires by the database clock; and it
is for one watch only. A decision is recorded once and never edited: changing one's mind is another decision.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from guards.plan import FEWEST_DIGITS, SHORT_DIGITS
from guards.refusal import RefusalCode, Refused


class DecisionKind(StrEnum):
    APPROVED = "approved"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class Decision:
    """One recorded answer. Times are aware and come from the database clock.

    `decided_by` is a claim, not an identity. `used_by` is the run that consumed an approval, "" while nobody has.
    """

    decision_id: int
    plan_digest: str
    kind: DecisionKind
    decided_by: str
    comment: str
    decided_at: datetime
    valid_until: datetime
    channel: str = ""
    used_by: str = ""
    used_at: datetime | None = None


def governing(decisions: Iterable[Decision]) -> Decision | None:
    """The decision that counts among all those recorded on one digest; None when nobody answered.

    What was said before the last use of an approval is history. Since then: the newest approval that no decline beats, else the
    newest decline, else (nothing said since the use) the used approval itself, so that the gate can say `already_used`.
    """
    ordered = sorted(decisions, key=lambda decision: decision.decision_id)
    used = [index for index, decision in enumerate(ordered) if decision.used_by]
    since = ordered[used[-1] + 1 :] if used else ordered
    declines = [decision for decision in since if decision.kind is DecisionKind.DECLINED]
    unbeaten = [
        decision
        for decision in since
        if decision.kind is DecisionKind.APPROVED and not any(_beats(decline, decision) for decline in declines)
    ]
    for candidates in (unbeaten, declines, ordered):
        if candidates:
            return candidates[-1]
    return None


def _beats(decline: Decision, approval: Decision) -> bool:
    """A later decline beats for good; an earlier one beats while it stood when the approval was given."""
    return decline.decision_id > approval.decision_id or approval.decided_at < decline.valid_until


def choose_digest(prefix: str, known: Sequence[str], *, fewest: int = FEWEST_DIGITS) -> str | Refused:
    """The one full digest that `prefix` names. `known` may hold more than match; `fewest` is 12 where a link can fill in a form."""
    wanted = prefix.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{1,64}", wanted):
        return Refused(RefusalCode.NOT_APPROVED, "that is not a plan digest: 8 to 64 hex digits, as `opsguard plans` shows them")
    if len(wanted) < fewest:
        return Refused(
            RefusalCode.NOT_APPROVED, f"{len(wanted)} digits are too few to be sure: give {fewest} or more of the digest"
        )
    matching = sorted({digest for digest in known if digest.startswith(wanted)})
    if not matching:
        return Refused(RefusalCode.NOT_APPROVED, f"no recorded plan begins with {wanted}: `opsguard plans` lists them")
    if len(matching) > 1:
        shown = ", ".join(digest[:SHORT_DIGITS] for digest in matching[:3])
        return Refused(
            RefusalCode.NOT_APPROVED, f"{wanted} is ambiguous ({len(matching)} plans, for example {shown}): give more digits"
        )
    return matching[0]

"""Steps 6 and 8: look at what is there, then let the ledger and a receipt say so. What proves nothing stays unknown."""

import logging
from collections.abc import Mapping
from typing import Final

from guards.canonical import Json
from guards.delivery import outcome as settled
from guards.delivery.outcome import LONGEST_NOTE, Reason
from guards.delivery.refusal import LedgerRefused
from guards.delivery.slot import Grant
from guards.spool.planning import SpoolTarget
from guards.spool.resolution import Resolution, Traces, resolve
from resources.errors import OutcomeUnknown, Unreachable
from resources.spool.ours import OurName, clear_away, put_back, remove_aside
from resources.spool.place import Placed, Placing
from resources.spool.proof import Proof
from resources.spool.sent import Outcome, Sent, sent_of
from resources.spool.steps import Step
from resources.spool.traces import look_for_traces
from resources.spool.writing import Writing

logger = logging.getLogger(__name__)

MOST_LOOKS: Final = 3
"""Looks after an error, each on a fresh connection. A partner that cannot be seen three times leaves the delivery unknown."""


def observe_and_settle(
    writing: Writing,
    target: SpoolTarget,
    grant: Grant,
    placing: Placing,
    *,
    copy: OurName | None,
    proven: Proof | None = None,
) -> Sent:
    """`copy`: the temporary copy that was placed, and `proven` its proof; None when the feed was written under its own name.

    The copy that was moved aside is dealt with before the ledger is told: while the ledger does not know, the next run looks for it.
    """
    looked = writing.step(Step.OBSERVE, target.name, lambda: _look(writing, target, placing, copy, proven))
    if isinstance(looked, str):
        return in_doubt(writing, target, grant, f"placing was asked for, and the partner cannot be seen: {looked}")
    traces, final = looked
    resolved = resolve(traces)
    match resolved.resolution:
        case Resolution.SENT:
            outcome = Outcome.DELIVERED if final.entry is not None else Outcome.CONSUMED
            evidence: dict[str, Json] = {
                "partner_copy": final.as_json(),
                "consumed": outcome is Outcome.CONSUMED,
                "why": resolved.why,
            }
            left_copy = copy if traces.temp_present else None
            return _delivered(writing, target, grant, outcome, evidence, copy=copy, left_copy=left_copy, aside=placing.aside)
        case Resolution.NOT_SENT:
            left = put_back(writing, target.name, placing.aside) if placing.aside else ""
            why = "; ".join(part for part in (resolved.why, placing.why, left) if part)
            sent = not_delivered(writing, target, grant, f"not delivered: {why}", reason=Reason.NOT_PLACED)
            if copy is not None:
                clear_away(writing, copy)
            return sent
        case Resolution.CANNOT_TELL:
            return in_doubt(writing, target, grant, resolved.why)


def not_delivered(
    writing: Writing,
    target: SpoolTarget,
    grant: Grant,
    message: str,
    *,
    reason: Reason = Reason.NOT_PLACED,
    outcome: Outcome = Outcome.FAILED,
) -> Sent:
    """Provably: the final name is as it was. The feed stays a gap, and a new plan may send it again."""
    return writing.step(
        Step.SETTLE,
        target.name,
        lambda: (
            _settle(writing, target, grant, settled.known_failure(reason, message[:LONGEST_NOTE]))
            or sent_of(target, outcome, message)
        ),
    )


def in_doubt(writing: Writing, target: SpoolTarget, grant: Grant, message: str) -> Sent:
    """Nobody can tell: the ledger says unknown, and only evidence or a person says more."""
    return writing.step(
        Step.SETTLE,
        target.name,
        lambda: (
            _settle(writing, target, grant, settled.unknown(Reason.NO_ANSWER, message[:LONGEST_NOTE]))
            or sent_of(target, Outcome.UNKNOWN, message)
        ),
    )


def _delivered(
    writing: Writing,
    target: SpoolTarget,
    grant: Grant,
    outcome: Outcome,
    evidence: Mapping[str, Json],
    *,
    copy: OurName | None,
    left_copy: OurName | None,
    aside: OurName | None,
) -> Sent:
    """`left_copy`: somebody else put equal bytes there, and ours still has its temporary name."""

    def settle() -> Sent:
        left = remove_aside(writing, aside) if aside else ""
        receipt = {**evidence, "size_bytes": target.size_bytes, "sha256": target.sha256}
        if refused := _settle(writing, target, grant, settled.delivered(receipt)):
            return refused
        if left_copy is not None:
            clear_away(writing, left_copy)
        elif copy is not None:
            writing.outcome(copy.intent, {"temp": copy.name, "result": "placed"})
        more: dict[str, Json] = {"left_at_partner": left} if left else {}
        kept = writing.receipt(target, action="send", evidence={**evidence, **more, "reservation": grant.reservation_id})
        taken = ", and the partner took it at once" if outcome is Outcome.CONSUMED else ""
        message = f"{target.size_bytes:,} bytes delivered and proven{taken}{f'; {left}' if left else ''}"
        return sent_of(target, outcome, message, receipt=kept)

    return writing.step(Step.SETTLE, target.name, settle)


def _settle(writing: Writing, target: SpoolTarget, grant: Grant, outcome: settled.Outcome) -> Sent | None:
    """None when the ledger took it. A stale grant: somebody else decided meanwhile; what we saw is kept there as late evidence, and
    `LeaseLost` is raised when that somebody has our place."""
    answer = writing.state.ledger.settle(grant, outcome)
    if isinstance(answer, LedgerRefused):
        writing.state.require_live(writing.authorization)
        return sent_of(target, Outcome.UNKNOWN, f"the ledger refused our word ({answer.code}): {answer.message}")
    return None


def _look(
    writing: Writing, target: SpoolTarget, placing: Placing, copy: OurName | None, proven: Proof | None
) -> tuple[Traces, Proof] | str:
    problem = ""
    for _ in range(MOST_LOOKS):
        try:
            return look_for_traces(
                writing,
                target,
                temp=copy.name if copy else "",
                placing_intended=True,
                renamed=copy is not None and placing.result is Placed.CLEAN,
                in_place=copy is None,
                replaces=target.partner,
                proven=proven,
            )
        except (Unreachable, OutcomeUnknown) as error:
            problem = str(error)
            logger.warning("looking for %r after placing it: %s", target.name, error)
            writing.sessions.partner.renew()
    return problem

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
from resources.spool.place import Placed, Placing, put_back, remove_aside
from resources.spool.proof import Proof
from resources.spool.sent import Outcome, Sent, sent_of
from resources.spool.steps import Step
from resources.spool.traces import look_for_traces
from resources.spool.upload import TemporaryCopy, clear_away
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
    copy: TemporaryCopy | None,
    aside: str,
    proof: Proof | None,
) -> Sent:
    """`proof`: of the temporary copy that was placed; both None when the feed was written under its own name."""
    looked = writing.step(Step.OBSERVE, target.name, lambda: _look(writing, target, temp=copy.name if copy else ""))
    if isinstance(looked, str):
        return in_doubt(writing, target, grant, f"placing was asked for, and the partner cannot be seen: {looked}")
    traces, final = looked
    if _was_consumed(writing, placing, traces, final, proof):
        evidence: dict[str, Json] = {"temporary_copy": proof.as_json() if proof else None, "consumed": True}
        return _delivered(writing, target, grant, Outcome.CONSUMED, evidence, copy=copy, aside=_used(placing, aside))
    resolved = resolve(traces)
    match resolved.resolution:
        case Resolution.SENT:
            evidence = {"partner_copy": final.as_json()}
            return _delivered(writing, target, grant, Outcome.DELIVERED, evidence, copy=copy, aside=_used(placing, aside))
        case Resolution.NOT_SENT:
            why = f"{resolved.why}{f'; {placing.why}' if placing.why else ''}"
            sent = not_delivered(writing, target, grant, f"not delivered: {why}", reason=Reason.NOT_PLACED)
            left = put_back(writing, target.name, aside) if placing.aside_used else ""
            if copy is not None:
                clear_away(writing, copy)
            if left:
                logger.warning("%r: %s", target.name, left)
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
    copy: TemporaryCopy | None,
    aside: str,
) -> Sent:
    def settle() -> Sent:
        receipt = {**evidence, "size_bytes": target.size_bytes, "sha256": target.sha256}
        if refused := _settle(writing, target, grant, settled.delivered(receipt)):
            return refused
        if copy is not None:
            writing.outcome(copy.intent, {"temp": copy.name, "result": "placed"})
        left = remove_aside(writing, aside) if aside else ""
        more: dict[str, Json] = {"left_at_partner": left} if left else {}
        kept = writing.receipt(target, action="send", evidence={**evidence, **more, "reservation": grant.reservation_id})
        taken = ", and the partner took it at once" if outcome is Outcome.CONSUMED else ""
        message = f"{target.size_bytes:,} bytes delivered and proven{taken}{f'; {left}' if left else ''}"
        return sent_of(target, outcome, message, receipt=kept)

    return writing.step(Step.SETTLE, target.name, settle)


def _settle(writing: Writing, target: SpoolTarget, grant: Grant, outcome: settled.Outcome) -> Sent | None:
    """None when the ledger took it. A stale grant: somebody else decided meanwhile; what we saw is kept there as late evidence."""
    answer = writing.state.ledger.settle(grant, outcome)
    if isinstance(answer, LedgerRefused):
        return sent_of(target, Outcome.UNKNOWN, f"the ledger refused our word ({answer.code}): {answer.message}")
    return None


def _look(writing: Writing, target: SpoolTarget, *, temp: str) -> tuple[Traces, Proof] | str:
    problem = ""
    for _ in range(MOST_LOOKS):
        try:
            return look_for_traces(writing, target, temp=temp, placing_intended=True, in_place=not temp, before=target.partner)
        except (Unreachable, OutcomeUnknown) as error:
            problem = str(error)
            logger.warning("looking for %r after placing it: %s", target.name, error)
            writing.sessions.partner.renew()
    return problem


def _was_consumed(writing: Writing, placing: Placing, traces: Traces, final: Proof, proof: Proof | None) -> bool:
    """Proven bytes, a rename that the server confirmed, and a partner that takes files away: then absence is as it should be."""
    return (
        writing.route.partner.profile.consumes_on_arrival
        and placing.result is Placed.CLEAN
        and proof is not None
        and final.entry is None
        and not traces.temp_present
    )


def _used(placing: Placing, aside: str) -> str:
    return aside if placing.aside_used else ""

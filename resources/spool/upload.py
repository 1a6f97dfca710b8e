"""Steps 3 and 4: a proven copy under a temporary name. The final name is not touched here, so every failure is a known one."""

import logging
from dataclasses import dataclass
from typing import Final

from guards.spool.planning import SpoolTarget
from resources.errors import NotObserved, OutcomeUnknown, Rejected, Transient, Unreachable
from resources.spool.proof import Proof, prove
from resources.spool.steps import Step
from resources.spool.writing import Writing

logger = logging.getLogger(__name__)

MOST_UPLOADS: Final = 3
"""Tries of one upload, each on fresh connections and under the temporary name only: none of them can be a second delivery."""


@dataclass(frozen=True, slots=True)
class TemporaryCopy:
    """A name of ours in the inbox, and the journal's intent that stays open until the name is gone again (placed or removed)."""

    name: str
    intent: int


def announce(writing: Writing, target: SpoolTarget, *, temp: str, reservation_id: str) -> TemporaryCopy:
    intent = writing.intend(Step.UPLOAD, target.name, {"temp": temp, "reservation": reservation_id})
    return TemporaryCopy(name=temp, intent=intent)


def upload_and_prove(writing: Writing, target: SpoolTarget, copy: TemporaryCopy) -> Proof | str:
    """The proof of the temporary copy, or a sentence that says why there is none."""
    problem, temp = "", copy.name
    for attempt in range(1, MOST_UPLOADS + 1):
        try:
            if attempt > 1:
                writing.sessions.source.renew()
                writing.sessions.partner.renew()
                writing.partner.remove(writing.inbox, temp)
            sent = writing.step(Step.UPLOAD, target.name, lambda: _upload(writing, target, temp))
            if sent != target.sha256:
                return "the spool's bytes are no longer the planned ones: report again"
            proof = writing.step(
                Step.PROVE, target.name, lambda: prove(writing.partner, writing.inbox, temp, size_bytes=target.size_bytes)
            )
        except NotObserved as error:
            return f"the upload failed: {error}"
        except (Transient, OutcomeUnknown) as error:
            problem = f"the upload failed {attempt} times, the last time: {error}"
            logger.warning("%r: %s", target.name, problem)
            continue
        except (Rejected, Unreachable) as error:
            return f"the upload failed: {error}"
        if proof.equals(size_bytes=target.size_bytes, sha256=target.sha256):
            return proof
        problem = f"{attempt} uploads were answered as successful, but the partner holds {proof.describe()} of {target.size_bytes:,} bytes"
        logger.warning("%r: %s", target.name, problem)
    return problem


def _upload(writing: Writing, target: SpoolTarget, temp: str) -> str:
    """SHA-256 of the bytes that went out."""
    relay = writing.relay(target)
    writing.partner.write(writing.inbox, temp, relay)
    return relay.sha256


def clear_away(writing: Writing, copy: TemporaryCopy) -> None:
    """Removes our own temporary copy. What cannot be removed now, a later run sweeps: its intent stays open."""
    try:
        writing.state.require_live(writing.authorization)
        writing.partner.remove(writing.inbox, copy.name)
        writing.outcome(copy.intent, {"temp": copy.name, "result": "removed"})
    except (Unreachable, Rejected, OutcomeUnknown) as error:
        writing.sessions.partner.renew()
        logger.warning("the temporary copy %r stays for now: %s", copy.name, error)

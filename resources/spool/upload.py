"""Steps 3 and 4: a proven copy under a temporary name. The final name is not touched here, so every failure is a known one."""

import logging
import time
from typing import Final

from guards.spool.planning import SpoolTarget
from resources.errors import NotObserved, OutcomeUnknown, Rejected, Transient, Unreachable
from resources.spool.ours import OurName
from resources.spool.proof import Proof, prove
from resources.spool.steps import Step
from resources.spool.writing import Writing

logger = logging.getLogger(__name__)

MOST_UPLOADS: Final = 3
"""Tries of one upload, each on fresh connections and under the temporary name only: none of them can be a second delivery."""


def upload_and_prove(writing: Writing, target: SpoolTarget, copy: OurName) -> Proof | str:
    """The proof of the temporary copy, or a sentence that says why there is none."""
    problem, temp = "", copy.name
    for attempt in range(1, MOST_UPLOADS + 1):
        try:
            if attempt > 1:
                _afresh(writing, temp, attempt)
            sent = writing.step(Step.UPLOAD, target.name, lambda: _upload(writing, target, temp))
            if sent != target.sha256:
                return "the spool's bytes are no longer the planned ones: report again"
            proof = writing.step(Step.PROVE, target.name, lambda: _prove(writing, target, temp))
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


def _afresh(writing: Writing, temp: str, attempt: int) -> None:
    """Fresh connections after a pause, and nothing under the temporary name. An outcome of the last try is not needed to know that."""
    time.sleep(writing.patience.pause_after(attempt - 1))
    writing.sessions.source.renew()
    writing.sessions.partner.renew()
    writing.state.require_live(writing.authorization)
    writing.partner.remove(writing.inbox, temp)


def _upload(writing: Writing, target: SpoolTarget, temp: str) -> str:
    """SHA-256 of the bytes that went out. A run that slept and lost its lease makes no name that nobody would sweep."""
    writing.state.require_live(writing.authorization)
    relay = writing.relay(target)
    writing.partner.write(writing.inbox, temp, relay)
    return relay.sha256


def _prove(writing: Writing, target: SpoolTarget, temp: str) -> Proof:
    return prove(
        writing.partner, writing.inbox, temp, size_bytes=target.size_bytes, moved=writing.pulse, patience=writing.patience
    )

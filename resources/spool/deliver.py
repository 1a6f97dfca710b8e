"""Deliver one feed of an approved plan: steps 1 to 6 and 8 of the eight (archiving, step 7, is `archive.py`).

1. reserve   the ledger grants this name and content to us, once
2. recheck   the target's requirements, on both sides, by name
3. upload    spool -> temporary name at the partner, hashed on the way
4. prove     the temporary copy: size, then the hash ladder, against the planned digest
5. place     look at the final name once more, then rename
6. observe   present and equal, or gone at a partner that consumes
8. settle    the ledger and the receipt: before archiving, so that a proven delivery never looks open

Until step 5 the final name is as it was, so every failure is a known one. From step 5 on an error is unknown: look on a fresh
connection, then decide. A lost lease stops everything at once: whoever holds it now decides.
"""

import logging

from guards.delivery.outcome import Reason
from guards.delivery.slot import Grant
from guards.spool.planning import SpoolTarget
from guards.spool.requirements import copy_json
from resources.errors import OutcomeUnknown, Rejected, Unreachable
from resources.spool.claim import claim
from resources.spool.names import temp_name
from resources.spool.ours import announce_copy, clear_away
from resources.spool.place import Placed, Placing, place
from resources.spool.proof import Proof
from resources.spool.recheck import recheck
from resources.spool.sent import Outcome, Sent
from resources.spool.settle import not_delivered, observe_and_settle
from resources.spool.steps import Step
from resources.spool.upload import upload_and_prove
from resources.spool.writing import Writing

logger = logging.getLogger(__name__)


def deliver(writing: Writing, target: SpoolTarget) -> Sent:
    """A value for everything that may happen on a network. Raises `LeaseLost` when another run has taken over."""
    granted = writing.step(Step.RESERVE, target.name, lambda: claim(writing, target))
    if isinstance(granted, Sent):
        return granted
    try:
        stale = writing.step(Step.RECHECK, target.name, lambda: recheck(writing, target))
    except (Unreachable, OutcomeUnknown) as error:
        writing.sessions.source.renew()
        writing.sessions.partner.renew()
        return not_delivered(writing, target, granted, f"not started, one side could not be looked at: {error}")
    if stale:
        return not_delivered(writing, target, granted, f"not started: {stale}", reason=Reason.STALE, outcome=Outcome.STALE)
    if writing.route.partner.profile.rename_supported in (False, "no"):
        return _write_in_place(writing, target, granted)
    return _upload_and_rename(writing, target, granted)


def _upload_and_rename(writing: Writing, target: SpoolTarget, granted: Grant) -> Sent:
    temp = temp_name(writing.route.partner.profile.temp_name, name=target.name, run_id=writing.run_id)
    copy = announce_copy(writing, target, temp=temp, reservation_id=granted.reservation_id)
    proof = upload_and_prove(writing, target, copy)
    if not isinstance(proof, Proof):
        sent = not_delivered(writing, target, granted, proof)
        clear_away(writing, copy)
        return sent
    placing = writing.step(
        Step.PLACE,
        target.name,
        lambda: place(writing, target, temp=temp, reservation_id=granted.reservation_id),
    )
    if placing.result in (Placed.REFUSED, Placed.STALE):
        is_stale = placing.result is Placed.STALE
        sent = not_delivered(
            writing,
            target,
            granted,
            f"uploaded and proven, but not placed: {placing.why}",
            reason=Reason.STALE if is_stale else Reason.NOT_PLACED,
        )
        clear_away(writing, copy)
        return sent
    return observe_and_settle(writing, target, granted, placing, copy=copy, proven=proof)


def _write_in_place(writing: Writing, target: SpoolTarget, granted: Grant) -> Sent:
    """At a partner that cannot rename, accepted by `allow_inplace`: the partner may see a half feed, and every error is unknown."""
    intent = writing.intend(
        Step.PLACE, target.name, {"in_place": True, "replaces": copy_json(target.partner), "reservation": granted.reservation_id}
    )
    relay = writing.relay(target)

    def write() -> Placing:
        if target.partner is not None:
            writing.partner.remove(writing.inbox, target.name)
        writing.partner.write(writing.inbox, target.name, relay)
        return Placing(Placed.CLEAN)

    try:
        placing = writing.step(Step.UPLOAD, target.name, write)
    except (Rejected, OutcomeUnknown, Unreachable) as error:
        logger.warning("writing %r under its own name is in doubt: %s", target.name, error)
        writing.sessions.source.renew()
        writing.sessions.partner.renew()
        placing = Placing(Placed.IN_DOUBT, str(error))
    writing.outcome(intent, {"result": placing.result.value, "size_bytes": relay.size_bytes, "sha256": relay.sha256})
    return observe_and_settle(writing, target, granted, placing, copy=None)

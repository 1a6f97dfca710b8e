"""Step 7: a source whose bytes are proven at the partner leaves the spool. Never onto an existing name, never changed bytes."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from guards.spool.planning import SpoolTarget
from guards.spool.ruling import SpoolAction
from resources.errors import NotObserved, OutcomeUnknown, Rejected, Unreachable
from resources.spool.memory import attempts, is_known_sent
from resources.spool.names import taken_archive_name
from resources.spool.observe import hash_of
from resources.spool.proof import prove
from resources.spool.route import SpoolRoute
from resources.spool.sent import Archived, ArchiveOutcome
from resources.spool.steps import Step
from resources.spool.writing import Writing
from resources.state import StateStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """A target that may be archived. `by_this_run`: a receipt of this very run stands for bytes that it proved itself. Any other
    (archive-only, or sent before) is proven by looking at the partner once more. `was_sent`: the ledger says so."""

    target: SpoolTarget
    by_this_run: bool
    was_sent: bool


def due_for_archive(
    state: StateStore, route: SpoolRoute, targets: Iterable[SpoolTarget], *, plan_digest: str, run_id: str
) -> tuple[Due, ...]:
    """In plan order, from receipts and ledger alone: what a caller believes to have been delivered does not count."""
    listed = list(targets)
    receipts = state.receipts(plan_digest=plan_digest)
    ours = {one.subject for one in receipts if one.run_id == run_id and one.action in ("send", "resolve")}
    known = attempts(state, route, [target.name for target in listed])
    found = (
        Due(
            target,
            by_this_run=target.name in ours,
            was_sent=is_known_sent(target, known),
        )
        for target in listed
    )
    return tuple(one for one in found if one.by_this_run or one.was_sent or one.target.action is SpoolAction.ARCHIVE)


def archive_proven(writing: Writing, due: Iterable[Due]) -> tuple[Archived, ...]:
    """What is not proven stays where it is, and says why. Raises `LeaseLost` when another run has taken over."""
    done = []
    for one in due:
        problem = "" if one.by_this_run else _unproven(writing, one.target, was_sent=one.was_sent)
        left = Archived(one.target.name, ArchiveOutcome.LEFT, problem)
        done.append(left if problem else archive(writing, one.target))
    return tuple(done)


def _unproven(writing: Writing, target: SpoolTarget, *, was_sent: bool) -> str:
    """ "" when the partner holds the planned bytes, or has taken what we are known to have sent."""
    try:
        proof = prove(
            writing.partner,
            writing.inbox,
            target.name,
            size_bytes=target.size_bytes,
            moved=writing.pulse,
            patience=writing.patience,
        )
    except (Unreachable, OutcomeUnknown) as error:
        writing.sessions.partner.renew()
        return f"not archived, the partner's copy could not be looked at: {error}"
    taken = proof.entry is None and was_sent and writing.route.partner.profile.consumes_on_arrival
    if taken or proof.equals(size_bytes=target.size_bytes, sha256=target.sha256):
        return ""
    return f"not archived, the partner holds {proof.describe()}"


def archive(writing: Writing, target: SpoolTarget) -> Archived:
    """Call only for a target whose delivery is proven. Raises `LeaseLost` when another run has taken over."""
    return writing.step(Step.ARCHIVE, target.name, lambda: _archive(writing, target))


def _archive(writing: Writing, target: SpoolTarget) -> Archived:
    try:
        problem = _source_changed(writing, target)
        if problem:
            return Archived(target.name, ArchiveOutcome.SOURCE_CHANGED, problem)
        archived_as = _free_name(writing, target)
    except (Unreachable, OutcomeUnknown) as error:
        writing.sessions.source.renew()
        return Archived(target.name, ArchiveOutcome.LEFT, f"delivered, but the spool could not be looked at: {error}")
    intent = writing.intend(Step.ARCHIVE, target.name, {"archive": archived_as})
    try:
        writing.source.rename(writing.spool, target.name, writing.route.archive, archived_as)
    except Rejected as error:
        writing.outcome(intent, {"result": "refused", "why": str(error)})
        return Archived(target.name, ArchiveOutcome.LEFT, f"delivered, but the archive would not take it: {error}")
    except (OutcomeUnknown, Unreachable) as error:
        logger.warning("archiving %r is in doubt: %s", target.name, error)
        writing.sessions.source.renew()
    try:
        where = writing.source.stat(writing.route.archive, archived_as)
        still_there = writing.source.stat(writing.spool, target.name)
    except (Unreachable, OutcomeUnknown) as error:
        return Archived(target.name, ArchiveOutcome.LEFT, f"delivered; whether it was archived could not be seen: {error}")
    if where is None or where.size_bytes not in (target.size_bytes, None) or still_there is not None:
        writing.outcome(intent, {"result": "not_archived"})
        return Archived(target.name, ArchiveOutcome.LEFT, "delivered, but the source did not move into the archive")
    writing.outcome(intent, {"result": "archived", "archive": archived_as})
    receipt = writing.receipt(target, action="archive", evidence={"archive": archived_as})
    return Archived(target.name, ArchiveOutcome.ARCHIVED, f"archived as {archived_as}", archived_as=archived_as, receipt=receipt)


def _source_changed(writing: Writing, target: SpoolTarget) -> str:
    """ "" when the spool still holds the bytes that were sent. Only a changed size or time costs a second reading."""
    entry = writing.source.stat(writing.spool, target.name)
    if entry is None:
        return "the feed left the spool by itself after it was sent"
    if (entry.size_bytes, entry.modified_at) == (target.size_bytes, target.modified_at):
        return ""
    try:
        sha256 = hash_of(writing.source, writing.spool, target.name, ceiling_bytes=writing.ceiling_bytes, moved=writing.pulse)
    except NotObserved:
        sha256 = ""
    return "" if sha256 == target.sha256 else "the spool holds other bytes under this name now: left there as a new feed"


def _free_name(writing: Writing, target: SpoolTarget) -> str:
    if writing.source.stat(writing.route.archive, target.name) is None:
        return target.name
    return taken_archive_name(name=target.name, sha256=target.sha256, at=writing.state.now())

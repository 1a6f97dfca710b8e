"""Between sending and archiving: the partner's bytes, looked at on fresh connections. What is not proven here is not archived."""

from collections.abc import Collection

from guards.check import CheckOutcome
from guards.refusal import Refused
from guards.spool.checks import LOOK_BY_HAND, partner_bytes_match
from guards.spool.planning import SpoolTarget
from guards.spool.ruling import SpoolAction
from guards.text import count_words, size_words
from resources.errors import NotObserved, Unreachable
from resources.spool.memory import attempts, is_known_sent
from resources.spool.plans import restored, spool_targets
from resources.spool.proof import prove
from resources.spool.route import SpoolRoute
from resources.spool.sides import OpenSides, observing, sides_of
from resources.state import StateStore

NAME = "partner_bytes_match"


def prove_delivered(route: SpoolRoute, state: StateStore, *, plan: str, names: Collection[str]) -> CheckOutcome:
    """One outcome for all of `names` and for the plan's archive-only targets: the first that is not proven, or a count."""
    stored = state.find_plan(plan)
    if isinstance(stored, Refused):
        return CheckOutcome(NAME, False, stored.message)
    targets = [
        target for target in spool_targets(restored(stored)) if target.name in names or target.action is SpoolAction.ARCHIVE
    ]
    sent = attempts(state, route, [target.name for target in targets])

    def look(opened: OpenSides) -> list[CheckOutcome]:
        return [_proven(opened, route, target, was_sent=is_known_sent(target, sent)) for target in targets]

    try:
        outcomes = observing(sides_of(route), look) if targets else []
    except Unreachable as error:
        return CheckOutcome(NAME, False, f"The partner could not be looked at after sending: {error}. {LOOK_BY_HAND}")
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if failed:
        more = f" And {len(failed) - 1} more." if len(failed) > 1 else ""
        return CheckOutcome(NAME, False, f"{failed[0].message}{more}")
    total = sum(target.size_bytes for target in targets)
    return CheckOutcome(
        NAME, True, f"{count_words(len(targets), 'feed')}, {size_words(total)}: the partner holds exactly what was planned."
    )


def _proven(opened: OpenSides, route: SpoolRoute, target: SpoolTarget, *, was_sent: bool) -> CheckOutcome:
    try:
        proof = prove(opened.partner, route.partner.directory, target.name, size_bytes=target.size_bytes)
    except NotObserved as error:
        return CheckOutcome(NAME, False, f"{target.name!r} could not be read back: {error}. {LOOK_BY_HAND}")
    if proof.entry is None and route.partner.profile.consumes_on_arrival and was_sent:
        return CheckOutcome(NAME, True, f"{target.name!r}: proven when it was sent, and taken by the partner since.")
    found_size = proof.entry.size_bytes if proof.entry else None
    if proof.equals(size_bytes=target.size_bytes, sha256=target.sha256):
        found_size = target.size_bytes
    return partner_bytes_match(target, found_size_bytes=found_size, found_sha256=proof.sha256 or None)

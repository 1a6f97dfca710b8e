"""Our own stale names in the inbox: asked for by name from the journal, because vsftpd and ProFTPD hide dot names in listings."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from guards.spool.ruling import SpoolAction
from resources.errors import OutcomeUnknown, Rejected, Unreachable
from resources.file_servers.interface import Reader
from resources.spool.ours import ASIDE, OurName, put_back, remove_aside
from resources.spool.route import SpoolRoute
from resources.spool.steps import Step
from resources.spool.writing import Writing
from resources.state import StateStore
from resources.state.journal import JournalRow

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaleName:
    """One temporary copy of a run that ended without clearing it away. `size_bytes` None: the partner would not say."""

    feed: str
    temp: str
    run_id: str
    size_bytes: int | None


def find_stale(state: StateStore, route: SpoolRoute, partner: Reader) -> list[StaleName]:
    """Reads only, temporary copies only: a copy that was moved aside is the partner's own. What a running apply is uploading right now is in the list too: the lease tells them apart when removing."""
    found = []
    for row in _swept_rows(state, route):
        if row.step == ASIDE:
            continue
        name = _name_of(row)
        entry = partner.stat(route.partner.directory, name)
        if entry is not None:
            found.append(StaleName(feed=row.subject, temp=name, run_id=row.run_id, size_bytes=entry.size_bytes))
    return found


def sweep(writing: Writing, *, due: Mapping[str, SpoolAction] | None = None) -> list[str]:
    """Removes them, under our lease: every other run's has ended. Returns the names that are gone.

    `due`: the feeds of our plan. One that is about to be resolved keeps its traces; one that is about to be sent keeps its inbox as
    the approver saw it.
    """
    due, removed = due or {}, []
    for row in _swept_rows(writing.state, writing.route):
        if row.fence >= writing.authorization.fence or due.get(row.subject) is SpoolAction.RESOLVE:
            continue
        name = _name_of(row)
        try:
            left = _settle_aside(writing, row, due) if row.step == ASIDE else _remove(writing, row)
        except (Unreachable, Rejected, OutcomeUnknown) as error:
            writing.sessions.partner.renew()
            left = str(error)
        if left:
            logger.warning("%r stays for now: %s", name, left)
        else:
            removed.append(name)
    return removed


def _remove(writing: Writing, row: JournalRow) -> str:
    temp = _name_of(row)
    present = writing.partner.stat(writing.inbox, temp) is not None
    if present:
        writing.state.require_live(writing.authorization)
        writing.partner.remove(writing.inbox, temp)
    writing.outcome(row.intent_id, {"temp": temp, "result": "swept" if present else "gone"})
    return ""


def _settle_aside(writing: Writing, row: JournalRow, due: Mapping[str, SpoolAction]) -> str:
    """A copy that was moved aside goes once its replacement is proven, and else gets its name back."""
    aside = OurName(_name_of(row), row.intent_id)
    if _was_sent(writing.state, row) and _replacement_arrived(writing, row.subject):
        return remove_aside(writing, aside)
    if row.subject in due:
        return "its feed is being sent by this run"
    return put_back(writing, row.subject, aside)


def _replacement_arrived(writing: Writing, feed: str) -> bool:
    """Nothing under the final name: what waits aside may itself be the replacement, moved by a run that came too late."""
    return writing.route.partner.profile.consumes_on_arrival or writing.partner.stat(writing.inbox, feed) is not None


def _name_of(row: JournalRow) -> str:
    return str(row.detail["aside" if row.step == ASIDE else "temp"])


def _was_sent(state: StateStore, row: JournalRow) -> bool:
    """This attempt or a later one at the same bytes."""
    held = state.ledger.get(str(row.detail.get("reservation")))
    return held is not None and any(attempt.state.is_proven_sent for attempt in state.ledger.of(held.slot))


def _swept_rows(state: StateStore, route: SpoolRoute) -> list[JournalRow]:
    """Names that may still be there. An attempt in doubt keeps its traces until it is resolved: they are evidence."""
    rows = state.journal(guard="spool", watch=route.name, open_only=True)
    return [row for row in rows if row.step in (Step.UPLOAD, ASIDE) and not _is_in_doubt(state, row)]


def _is_in_doubt(state: StateStore, row: JournalRow) -> bool:
    held = state.ledger.get(str(row.detail.get("reservation")))
    return held is not None and held.state.is_unresolved

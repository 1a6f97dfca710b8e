"""Our own stale temporary names: asked for by name from the journal, because vsftpd and ProFTPD hide dot names in listings."""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from resources.errors import OutcomeUnknown, Rejected, Unreachable
from resources.file_servers.interface import Reader
from resources.spool.memory import partner_key
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
    """Reads only. What a running apply is uploading right now is in the list too: the lease tells them apart when removing."""
    found = []
    for row in _swept_rows(state, route):
        temp = str(row.detail["temp"])
        entry = partner.stat(route.partner.directory, temp)
        if entry is not None:
            found.append(StaleName(feed=row.subject, temp=temp, run_id=row.run_id, size_bytes=entry.size_bytes))
    return found


def sweep(writing: Writing, *, keep: Collection[str] = ()) -> list[str]:
    """Removes them, under our lease: every other run's has ended. Feeds in `keep` are about to be resolved and keep their traces."""
    removed = []
    for row in _swept_rows(writing.state, writing.route):
        temp = str(row.detail["temp"])
        if row.subject in keep or row.fence >= writing.authorization.fence:
            continue
        try:
            present = writing.partner.stat(writing.inbox, temp) is not None
            if present:
                writing.state.require_live(writing.authorization)
                writing.partner.remove(writing.inbox, temp)
                removed.append(temp)
            writing.outcome(row.intent_id, {"temp": temp, "result": "swept" if present else "gone"})
        except (Unreachable, Rejected, OutcomeUnknown) as error:
            writing.sessions.partner.renew()
            logger.warning("the temporary copy %r stays for now: %s", temp, error)
    return removed


def _swept_rows(state: StateStore, route: SpoolRoute) -> list[JournalRow]:
    """Uploads whose name may still be there. An attempt in doubt keeps its traces until it is resolved: they are evidence."""
    unresolved = {held.reservation_id for held in state.ledger.history(partner_key(route)) if held.state.is_unresolved}
    rows = state.journal(guard="spool", watch=route.name, open_only=True)
    return [
        row
        for row in rows
        if row.step == Step.UPLOAD and isinstance(row.detail.get("temp"), str) and row.detail.get("reservation") not in unresolved
    ]

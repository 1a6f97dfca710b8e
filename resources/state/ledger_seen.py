"""What one look at a slot brings, and whether it is believed."""

import json
from datetime import datetime
from typing import NamedTuple

from guards.delivery.entry import Reservation
from guards.delivery.refusal import LedgerRefused
from guards.delivery.slot import Slot
from resources.state.columns import unescape
from resources.state.ledger_rows import ALTERED, Held, believe


class Seen(NamedTuple):
    """The columns of `sql.LOOK`."""

    sequence: int
    digest: str
    server: str
    accepted_at: datetime | None
    here: str
    now: datetime
    writer_lives: bool
    asked_customer: str | None
    asked_period: str | None
    asked_kind: str | None
    asked_attempt: int | None
    claimed: str | None
    attempt: int | None
    fence: int
    holder: str
    lease_scope: str | None
    lease_fence: int | None
    ends_at: datetime | None
    state: str | None
    row_sequence: int
    body: str
    since: datetime
    row_digest: str | None
    row: str
    newest: int
    is_more: bool


def current_attempt(seen: Seen, *, slot: Slot | None, reservation: str | None) -> Reservation | LedgerRefused | None:
    """The latest attempt at the slot, None when it is free."""
    if seen.claimed is None:
        # A claim that is gone while the chain or the answers still hold its attempts is not a free slot.
        if seen.is_more or (slot is None and seen.asked_customer is not None):
            return ALTERED
        return None
    if seen.state is None or seen.row_digest is None or seen.newest != seen.row_sequence or seen.is_more:
        return ALTERED
    try:
        place = Slot(str(seen.asked_customer), str(seen.asked_period), str(seen.asked_kind))
        body = json.loads(seen.body)
    except ValueError:
        return ALTERED
    # Asked by a reservation's number, the slot is what its answer says: altered by hand, that could be another's.
    if reservation is not None and place.reservation_id(seen.asked_attempt or 0) != reservation:
        return ALTERED
    current = believe(
        Held(place, seen.attempt or 0, seen.state, body, seen.since),
        row=seen.row,
        digest=seen.row_digest,
        fence=seen.fence,
        holder=unescape(seen.holder),
        ends_at=seen.ends_at,
        is_live=seen.ends_at is not None and seen.ends_at > seen.now,
    )
    if isinstance(current, Reservation) and current.reservation_id != seen.claimed:
        return ALTERED
    return current

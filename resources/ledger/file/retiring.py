"""Giving a store up, after its rows were taken over elsewhere."""

from contextlib import suppress
from dataclasses import replace

from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.text import one_line
from resources.ledger.file.core import Core
from resources.ledger.file.fence import FenceReason, FenceState
from resources.ledger.file.index import slot_of
from resources.ledger.file.reading import Reader
from resources.ledger.file.standing import Standing


def retire(core: Core, reader: Reader, note: str) -> LedgerRefused | None:
    """Under the store's lock. The fence document says it, and the anchor too, which an older fence document does not undo."""
    if core.fence is None or core.standing.trouble:
        return LedgerRefused(LedgerCode.RECOVERY_REQUIRED, core.standing.trouble)
    for key in core.index.in_state(ReservationState.SENDING):
        slot = slot_of(key)
        current = reader.latest(slot)
        if not isinstance(current, LedgerRefused) and current is not None and current.is_live:
            return LedgerRefused(
                LedgerCode.LIVE, f"{slot.key} is being sent by {current.holder}: wait for it, then export and retire again"
            )
    core.write_fence(replace(core.fence, state=FenceState.RETIRED, reason=FenceReason.RETIRED, note=one_line(note, limit=500)))
    core.standing = Standing(core.fence_trouble())
    with suppress(OSError):  # "nothing was recorded" would be untrue: it is retired
        core.outdate_copies()
    return None

"""What the expire sensor saw at its last tick: its cursor. A file ledger that has not changed since need not be verified again to know."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from guards.delivery.reservation import ReservationState
from resources.ledger.interface import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Numbers of messages by state, as of `mark`. `asked_at`, `asked_in`: the head's row and the hour ("2026-11-30T09") when a run was last
    asked for that looks once more at what was delivered."""

    mark: str
    sequence: int
    sending: int
    doubtful: int
    delivered: int
    asked_at: int = 0
    asked_in: str = ""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    def is_still(self, mark: str) -> bool:
        """What was seen then holds now."""
        return bool(mark) and mark == self.mark and not self.sending


def tick_of(health: Health, *, mark: str, last: Tick | None) -> Tick:
    def number(state: ReservationState) -> int:
        return health.counts.get(state.value, 0)

    return Tick(
        mark=mark,
        sequence=health.head.sequence,
        sending=number(ReservationState.SENDING),
        doubtful=number(ReservationState.UNKNOWN),
        delivered=number(ReservationState.DELIVERED),
        asked_at=last.asked_at if last else 0,
        asked_in=last.asked_in if last else "",
    )


def parse_tick(cursor: str | None) -> Tick | None:
    """None for no cursor, and for one that another version wrote: then the ledger is looked at."""
    try:
        held: dict[str, Any] = json.loads(cursor or "")
        return Tick(**held)
    except (ValueError, TypeError):
        return None

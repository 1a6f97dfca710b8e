"""What this object wrote last, and so knows without looking: the head it left, and the attempts it brought there.

While nobody else appends, the head is where we left it, and everything in the ledger is as it was: then the next transition needs no
look, and its one statement checks what the look would have (head, server, clock, claim, answer, rows). If any of that is otherwise it
writes nothing, and the usual way is gone.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from guards.delivery.entry import Reservation
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from resources.state.ledger_rows import Held
from resources.state.ledger_steps import Call, Place, Step, steps_of

FRESH_SECONDS: Final = 5.0
"""The database's clock is counted on by our own for so long; the statement refuses a time that is a tenth of a second off."""
MOST_ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class Remembered:
    """As stored, so that what a caller does to a `Reservation` it was given changes nothing here."""

    slot: Slot
    attempt: int
    state: str
    body: str
    since: datetime
    sequence: int
    fence: int
    holder: str

    def as_reservation(self) -> Reservation:
        return Held(self.slot, self.attempt, self.state, json.loads(self.body), self.since).as_reservation()


@dataclass(frozen=True, slots=True)
class Known:
    head: Head
    here: str
    now: datetime
    at: float
    """Of our own clock, when the database said `now`."""
    attempts: Mapping[str, Remembered] = field(default_factory=dict)
    doubt_before: datetime | None = None
    is_alone: bool = False
    """At the last look the head was where we had left it."""

    def looked(self, head: Head) -> "Known":
        return replace(self, is_alone=head == self.head)

    def wrote(self, step: Step, parameters: Mapping[str, Any], place: Place, *, now: datetime) -> "Known":
        """Attempts of before are still so only if nobody else appended in between."""
        row, after = step.row, step.after
        latest = Remembered(
            after.slot,
            after.attempt,
            after.state.value,
            parameters["body"],
            after.changed_at,
            row.sequence,
            after.fence,
            parameters["holder"],
        )
        held = {parameters["reservation"]: latest}
        if row.previous == self.head.digest:
            kept = self.attempts if len(self.attempts) < MOST_ATTEMPTS else dict([*self.attempts.items()][1:])
            held = {**kept, **held}
        return Known(row.head, place.here, now, time.monotonic(), held, place.doubt_before, self.is_alone)

    def next_step(self, call: Call) -> tuple[Step, Place, Mapping[str, Any]] | None:
        """What to write without a look, and what has to be so beside the head; None when a look is needed to say anything."""
        waited = time.monotonic() - self.at
        if not self.is_alone or call.only_if_gone or call.by_clock or waited > FRESH_SECONDS:
            return None
        held = self.attempts.get(call.reservation) if call.reservation is not None else None
        if (held is None) is (call.slot is None):
            return None
        place = Place(self.head, self.here, self.now + timedelta(seconds=waited), doubt_before=self.doubt_before)
        current = held.as_reservation() if held is not None else None
        ruling = call.rule(current, place)
        if ruling.refused is not None or len(ruling.entries) != 1:
            return None
        steps = steps_of(current, ruling, place)
        if not isinstance(steps, tuple):
            return None
        known = {} if held is None else {"known_fence": held.fence, "known_holder": held.holder, "known_row": held.sequence}
        return steps[0], place, known

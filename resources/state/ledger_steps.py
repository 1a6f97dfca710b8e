"""From what a rule says to what is written: rows, the reservation as each leaves it, and the parameters of its statement."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from guards.canonical import is_plain
from guards.delivery import row as chain
from guards.delivery.entry import Entry, Event, IllegalEntry, Reservation, advance
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head, NotARow, Row, parse_row
from guards.delivery.slot import Slot
from guards.delivery.transition import Ruling
from guards.gate import Authorization
from resources.state import ledger_sql as sql
from resources.state.columns import escape
from resources.state.ledger_rows import projected

ANYWAY: Final = "anyway"
WRITER_LIVES: Final = "writer lives"
HOLDER_IS_GONE: Final = "holder is gone"
"""What must still be so when the row is written: words that `sql.MOVE` knows."""

ELSEWHERE: Final = (
    "this is a restored backup, another server, or one after a failover, and may lack what was sent since: when the other is not used any "
    "more, `opsguard ledger repair --accept-copy --store postgres --yes` makes what was open unknown, and goes on from here"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`rule` gets the slot's latest attempt, and the place for the database's clock. `what` names the thing written, for errors."""

    what: str
    rule: "Callable[[Reservation | None, Place], Ruling]"
    slot: Slot | None = None
    reservation: str | None = None
    any_attempt: bool = False
    lease_seconds: int = 0
    """Of a grant under a lease of its own."""
    authorization: Authorization | None = None
    """Of a grant under a writer's lease, which has to live."""
    only_if_gone: bool = False
    by_clock: bool = False
    """The rule's answer depends on the time."""


class Place(NamedTuple):
    """Where the next row goes: behind `head`, on the server `here`, at the database's `now`."""

    head: Head
    here: str
    now: datetime
    accepted: str = ""
    """The server where the chain was begun, or last accepted; "" for any."""
    lease_scope: str | None = None
    lease_fence: int | None = None
    doubt_before: datetime | None = None
    """When an older copy was last accepted."""


@dataclass(frozen=True, slots=True)
class Step:
    row: Row
    after: Reservation

    @property
    def opens(self) -> bool:
        return self.row.entry.event is Event.OPENED

    @property
    def grants(self) -> bool:
        return self.row.entry.event is Event.MOVED and self.after.state is ReservationState.SENDING

    @property
    def statement(self) -> str:
        if not self.opens:
            return sql.MOVE
        return sql.OPEN if self.after.attempt == 1 else sql.REOPEN


def is_here(accepted: str, here: str) -> bool:
    """Whether what was accepted is where we are. Until it is written to again, a head of before names no table."""
    return accepted in ("", here) or accepted == here.rpartition("/")[0]


def steps_of(current: Reservation | None, ruling: Ruling, place: Place) -> tuple[Step, ...] | LedgerRefused:
    """Each row with the reservation as it leaves it: both as they will be read back, not as the caller's objects are."""
    if not ruling.entries:
        return ()
    if not is_here(place.accepted, place.here):
        return LedgerRefused(LedgerCode.RECOVERY_REQUIRED, ELSEWHERE)
    try:
        rows = chain.append(place.head, ruling.entries, at=place.now.astimezone(UTC))
        rows = tuple(row if _is_as_read(row.entry) else parse_row(row.bytes) for row in rows)
    except NotARow as problem:
        return LedgerRefused(LedgerCode.INVALID, f"{problem}: nothing was written")
    steps, after = [], current
    for row in rows:
        following = advance(after, row.entry, at=row.at)
        if isinstance(following, IllegalEntry):
            raise AssertionError(f"a transition made an entry that cannot follow: {following.why}")  # noqa: TRY004
        steps.append(Step(row, following))
        after = following
    return tuple(steps)


def _is_as_read(entry: Entry) -> bool:
    """What will be read back equals it: no tuple that becomes a list, no object that only looks like a mapping."""
    pins = entry.pins
    held = (entry.receipt, entry.evidence, entry.approval, pins and pins.facts, pins and pins.authority)
    return all(is_plain(value) for value in held if value)


def parameters(step: Step, call: Call, place: Place) -> dict[str, Any]:
    row, after, writer = step.row, step.after, call.authorization
    lease, scope, scope_fence, only_if = "none", None, None, ANYWAY
    if row.entry.event is Event.LATE_EVIDENCE:
        lease = "kept"
    elif step.grants and writer is not None:
        lease, scope, scope_fence, only_if = "scope", writer.scope, writer.fence, WRITER_LIVES
    elif step.grants:
        lease = "own"
    elif call.only_if_gone:
        scope, scope_fence, only_if = place.lease_scope, place.lease_fence, HOLDER_IS_GONE
    return {
        "sequence": row.sequence,
        "previous": row.previous,
        "digest": row.digest,
        "row": row.bytes.decode("ascii"),
        "server": place.here,
        "reservation": after.reservation_id,
        "customer": after.slot.customer,
        "period": after.slot.period,
        "kind": after.slot.kind,
        "attempt": after.attempt,
        "state": after.state.value,
        "body": projected(after),
        "since": after.changed_at,
        "fence": after.fence,
        "holder": escape(after.holder),
        "only_if": only_if,
        "lease": lease,
        "lease_seconds": call.lease_seconds,
        "scope": scope,
        "scope_fence": scope_fence,
    }

"""What a ledger does, whichever store keeps it.

    held = ledger.reserve(slot, pins, key=run_id)                   # the claim: durable, or what is stored already
    grant = ledger.grant(held.reservation_id, holder=run_id)        # prepared -> sending: the right to one call
    ... the one call of the provider ...
    ledger.settle(grant, delivered({...}))                          # or known_failure(...), unknown(...), abandoned(...)

The rules are pure, in `guards.delivery.transition`. A store does three things around each: lock and read the slot, ask the rule,
append what it says in one durable step. Expected refusals are values; an `OutcomeUnknown` from `grant` means: do not call the provider.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, Protocol, Self

from guards.canonical import Json
from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval, Outcome, Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.replay import Fault
from guards.delivery.row import Head
from guards.delivery.slot import Grant, Slot
from guards.gate import Authorization

LEASE_SECONDS: Final = 900
"""A grant of its own, in a store whose leases are times, lives this long; `renew` prolongs it."""
MOST_PER_PAGE: Final = 500


HOLDS_OTHERS: Final = LedgerRefused(LedgerCode.INVALID, "this ledger holds other rows: take over into an empty one")
"""What `adopt` says to any rows but its own."""


def not_taken(fault: Fault) -> LedgerRefused:
    """What it says to rows that are no ledger."""
    return LedgerRefused(LedgerCode.INVALID, f"row {fault.sequence} of what was to be taken over: {fault.why}; nothing was")


class StoredRow(NamedTuple):
    """A row as it is kept: its number, its own digest (64 hex digits), and the canonical JSON that the digest is over."""

    sequence: int
    digest: str
    row: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One page of latest attempts in slot order. `revision` changes iff a row, a claim or a fence does; `following` None on the last page."""

    revision: str
    reservations: tuple[Reservation, ...]
    following: Slot | None


@dataclass(frozen=True, slots=True)
class Verification:
    """`faults` empty: every row, claim and answer is what this program wrote. `counts` is state to number of latest attempts."""

    rows: int
    slots: int
    head: Head
    counts: Mapping[str, int]
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """What a person looks at first. `recovery` is "" or one sentence that says what keeps the whole store from sending."""

    store: str
    """Kind and identity of the store, for example `file 3f9a0c51`; never a path, a host name or a password."""
    head: Head
    counts: Mapping[str, int]
    oldest_sending_at: datetime | None = None
    stale_sending: tuple[Slot, ...] = ()
    """`sending`, and the holder is provably gone: to be expired."""
    recovery: str = ""
    blocked: int = 0
    """Slots that nothing is sent for, because what is kept of them is not what was written; `verify` names each."""
    doubt_before: datetime | None = None
    """When a copy or a loss was last accepted: what was due before opens in doubt."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that `repair` did, or (with `done` False) found and left to a person. `what` is one sentence."""

    what: str
    done: bool = True
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class Repairs:
    made: tuple[Repair, ...] = ()
    left: tuple[Fault, ...] = ()
    """What is still wrong afterwards."""
    is_accepted: bool = False
    """A copy or a loss was accepted, and what was open is unknown."""


class Ledger(Protocol):
    """Refusals are `LedgerRefused`. Errors: `Unreachable` (nothing was recorded), `OutcomeUnknown` (look before you go on)."""

    def now(self) -> datetime:
        """The store's clock, aware, UTC: what leases and windows are judged by."""
        ...

    def reserve(
        self,
        slot: Slot,
        pins: Pins,
        *,
        key: str,
        not_before: datetime | None = None,
        not_after: datetime | None = None,
        approval: Approval | None = None,
    ) -> Reservation | LedgerRefused:
        """The slot's reservation: new and `prepared`, or the stored one, whatever its state, when the pins are equal."""
        ...

    def grant(
        self,
        reservation_id: str,
        *,
        holder: str = "",
        ttl_seconds: int = LEASE_SECONDS,
        authorization: Authorization | None = None,
        authority: Mapping[str, str] | None = None,
        not_after: datetime | None = None,
    ) -> Grant | LedgerRefused:
        """The right to one call, not from `not_after` on by the store's clock. With an `authorization` its holder holds it, else `holder`. How long it lives is the store's:
        PostgreSQL's ends after `ttl_seconds`, or with the authorization's lease; the file store's ends with the process."""
        ...

    def renew(self, grant: Grant, *, ttl_seconds: int = LEASE_SECONDS) -> None:
        """`LeaseLost` when the grant's lease has ended."""
        ...

    def settle(self, grant: Grant, outcome: Outcome) -> Reservation | LedgerRefused:
        """What became of the call. The same again is fine; from an outdated grant it is kept as late evidence and refused."""
        ...

    def expire(self, reservation_id: str) -> Reservation | LedgerRefused:
        """`sending` to `unknown`, once the lease is provably gone. It never sends again."""
        ...

    def abandon(self, reservation_id: str, *, reason: Reason, note: str = "") -> Reservation | LedgerRefused:
        """`prepared` only; the slot stays taken."""
        ...

    def resolve(
        self, reservation_id: str, *, was_sent: bool, evidence: Mapping[str, Json], approval: Approval
    ) -> Reservation | LedgerRefused: ...

    def replace(self, slot: Slot, *, approval: Approval, key: str, pins: Pins | None = None) -> Reservation | LedgerRefused:
        """Attempt n+1, `prepared`, of a slot whose attempt n provably was not sent."""
        ...

    def audit(self, reservation_id: str) -> Reservation | LedgerRefused: ...

    def reconcile(self, reservation_id: str, *, receipt: Mapping[str, Json]) -> Reservation | LedgerRefused: ...

    # Looking

    def get(self, reservation_id: str) -> Reservation | None: ...

    def of(self, slot: Slot) -> tuple[Reservation, ...]:
        """Every attempt at one slot, oldest first."""
        ...

    def history(self, customer: str, period_prefix: str = "") -> tuple[Reservation, ...]:
        """Every attempt of one customer whose period begins so, oldest first."""
        ...

    def history_of(self, customer: str, period_prefixes: Collection[str]) -> tuple[Reservation, ...]:
        """The same for many prefixes at once, all of one length, oldest first."""
        ...

    def latest(self, slots: Collection[Slot]) -> Mapping[Slot, Reservation | LedgerRefused]:
        """The latest attempt at each of these slots, free ones left out. Refused: what is kept of it is not what its chain says."""
        ...

    def unfinished(self) -> Mapping[Slot, Reservation | LedgerRefused]:
        """The same of every slot that is prepared, sending or unknown, in slot order."""
        ...

    def snapshot(self, *, customer: str | None = None, after: Slot | None = None, limit: int = MOST_PER_PAGE) -> Snapshot:
        """At most 500 latest attempts that follow `after`. Raises `Altered` when one of them is not what its chain says."""
        ...

    def head(self) -> Head:
        """Sequence and digest of the last row: keep it elsewhere, to notice a copy that was cut back."""
        ...

    def extends(self, published: Head) -> bool:
        """The chain holds exactly this row, so everything published up to it is still there."""
        ...

    def counts(self) -> Mapping[str, int]:
        """State to number of slots whose latest attempt is in it."""
        ...

    def health(self) -> Health: ...

    def verify(self) -> Verification:
        """Everything, from the first row. Nothing is changed, and nothing accepted."""
        ...

    # Keeping

    def repair(self, *, accept_copy: bool = False) -> Repairs:
        """Only what loses nothing and makes nothing unsent: see the store's own list. `accept_copy`: a person says that this is the ledger
        from now on, and that no other copy of it is used. Then whatever was open becomes `unknown`, and so does what was due before."""
        ...

    def rows(self) -> Iterator[StoredRow]:
        """Every row in order, as of one moment, even while others write."""
        ...

    def adopt(
        self, rows: Iterable[StoredRow], *, doubt_before: datetime | None = None, accept_copy: bool = False
    ) -> Verification | LedgerRefused:
        """The rows of another store into this empty one: verified whole, then durable whole or not at all; claims follow from them.

        The same rows again, into a store that holds exactly them, are fine. Any fault, or a store that holds anything else: refused.
        `doubt_before`: the other store's, which is in no row. `accept_copy` as in `repair`, before anybody can be granted what is in them.
        """
        ...

    def close(self) -> None:
        """Ends every lease that this object holds."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

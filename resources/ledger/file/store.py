"""The reservation ledger in files: one host, any number of processes, no database.

    with FileLedger.open(home / "ledger") as ledger:
        held = ledger.reserve(slot, pins, key=run_id)
        ...                                              # see resources.ledger.interface

`ConfigurationError` or `Unreachable` when the directory cannot hold a ledger; a ledger that may not send is opened, and `health` says why.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from guards.canonical import Json
from guards.delivery import transition
from guards.delivery.entry import Reservation
from guards.delivery.outcome import LONGEST_NOTE, Approval, Outcome, Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.row import Head
from guards.delivery.slot import Grant, Slot
from guards.gate import Authorization, require_authentic
from resources.ledger.file.adopting import Adopter, NotGiven
from resources.ledger.file.backup import back_up
from resources.ledger.file.core import Core
from resources.ledger.file.disk import Disk
from resources.ledger.file.looking import Looker
from resources.ledger.file.moving import Mover
from resources.ledger.file.opening import open_core
from resources.ledger.file.place import read_mounts
from resources.ledger.file.reading import Reader
from resources.ledger.file.repairing import Repairer
from resources.ledger.file.retiring import retire
from resources.ledger.file.segments import SEAL_BYTES, SEAL_ROWS
from resources.ledger.interface import (
    HOLDS_OTHERS,
    LEASE_SECONDS,
    MOST_PER_PAGE,
    Health,
    Repairs,
    Snapshot,
    StoredRow,
    Verification,
)
from resources.state.errors import LeaseLost


def _utc_now() -> datetime:
    return datetime.now(UTC)


class FileLedger:
    """Implements `resources.ledger.interface.Ledger`. A grant's lease lives until it is settled, this object is closed, or its process ends."""

    def __init__(self, core: Core, *, seal_rows: int = SEAL_ROWS, seal_bytes: int = SEAL_BYTES) -> None:
        self._core = core
        self._seal_rows, self._seal_bytes = seal_rows, seal_bytes
        self._reader = Reader(core)
        self._mover = Mover(core, self._reader)
        self._looker = Looker(core, self._reader)

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        disk: Callable[[Path], Disk] = Disk,
        clock: Callable[[], datetime] = _utc_now,
        mounts: Callable[[], str] = read_mounts,
        seal_rows: int = SEAL_ROWS,
        seal_bytes: int = SEAL_BYTES,
        create: bool = True,
    ) -> "FileLedger":
        """Everything in `root` is verified: 15,000 rows a second. A store that is not there is made, or, without `create`, refused with
        `ConfigurationError`."""
        core = open_core(root, disk=disk, clock=clock, mounts=mounts, seal_rows=seal_rows, seal_bytes=seal_bytes, create=create)
        return cls(core, seal_rows=seal_rows, seal_bytes=seal_bytes)

    def now(self) -> datetime:
        return self._core.now()

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
        with self._core.locked():
            return self._mover.of_slot(
                slot,
                lambda current: transition.reserve(
                    current,
                    slot=slot,
                    pins=pins,
                    key=key,
                    now=self.now(),
                    not_before=not_before,
                    not_after=not_after,
                    approval=approval,
                    doubt_before=self._core.doubt_before,
                ),
                may_lead_to_a_call=False,
            )

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
        """`ttl_seconds` is not used: the lease ends with the process."""
        by = require_authentic(authorization, scope=authorization.scope).holder if authorization is not None else holder
        with self._core.locked():
            after = self._mover.of_reservation(
                reservation_id,
                lambda current: transition.grant(
                    current,
                    holder=by,
                    authority=authority,
                    now=self.now(),
                    not_after=not_after,
                    doubt_before=self._core.doubt_before,
                ),
                may_lead_to_a_call=True,
            )
        if isinstance(after, LedgerRefused):
            return after
        return Grant(
            slot=after.slot, reservation_id=after.reservation_id, attempt=after.attempt, fence=after.fence, holder=after.holder
        )

    def renew(self, grant: Grant, *, ttl_seconds: int = LEASE_SECONDS) -> None:
        with self._core.locked():
            current = self._reader.latest(grant.slot)
            mine = isinstance(current, Reservation) and (current.fence, current.holder) == (grant.fence, grant.holder)
            if not isinstance(current, Reservation) or not mine or not current.is_live:
                raise LeaseLost(f"the lease on sending {grant.slot.key} is over: observe before anything else is sent")

    def settle(self, grant: Grant, outcome: Outcome) -> Reservation | LedgerRefused:
        with self._core.locked():
            return self._mover.of_reservation(
                grant.reservation_id,
                lambda current: transition.settle(current, grant=grant, outcome=outcome),
                any_attempt=True,
            )

    def expire(self, reservation_id: str) -> Reservation | LedgerRefused:
        with self._core.locked():
            return self._mover.of_reservation(reservation_id, transition.expire)

    def abandon(self, reservation_id: str, *, reason: Reason, note: str = "") -> Reservation | LedgerRefused:
        with self._core.locked():
            return self._mover.of_reservation(
                reservation_id,
                lambda current: transition.abandon(current, reason=reason, note=note, doubt_before=self._core.doubt_before),
            )

    def resolve(
        self, reservation_id: str, *, was_sent: bool, evidence: Mapping[str, Json], approval: Approval
    ) -> Reservation | LedgerRefused:
        with self._core.locked():
            return self._mover.of_reservation(
                reservation_id,
                lambda current: transition.resolve(current, was_sent=was_sent, evidence=evidence, approval=approval),
                may_lead_to_a_call=not was_sent,
            )

    def replace(self, slot: Slot, *, approval: Approval, key: str, pins: Pins | None = None) -> Reservation | LedgerRefused:
        with self._core.locked():
            return self._mover.of_slot(
                slot,
                lambda current: transition.replace(
                    current, approval=approval, key=key, pins=pins, doubt_before=self._core.doubt_before
                ),
                may_lead_to_a_call=True,
            )

    def audit(self, reservation_id: str) -> Reservation | LedgerRefused:
        with self._core.locked():
            return self._mover.of_reservation(reservation_id, transition.audit)

    def reconcile(self, reservation_id: str, *, receipt: Mapping[str, Json]) -> Reservation | LedgerRefused:
        with self._core.locked():
            return self._mover.of_reservation(
                reservation_id,
                lambda current: transition.reconcile(current, reservation_id=reservation_id, receipt=receipt),
                any_attempt=True,
            )

    # Looking

    def get(self, reservation_id: str) -> Reservation | None:
        return self._looker.get(reservation_id)

    def of(self, slot: Slot) -> tuple[Reservation, ...]:
        return self._looker.of(slot)

    def history(self, customer: str, period_prefix: str = "") -> tuple[Reservation, ...]:
        return self._looker.history(customer, {period_prefix})

    def history_of(self, customer: str, period_prefixes: Collection[str]) -> tuple[Reservation, ...]:
        if len({len(prefix) for prefix in period_prefixes}) > 1:
            raise ValueError("prefixes of one length are asked for at once")
        return self._looker.history(customer, period_prefixes)

    def latest(self, slots: Collection[Slot]) -> dict[Slot, Reservation | LedgerRefused]:
        return self._looker.latest(slots)

    def unfinished(self) -> dict[Slot, Reservation | LedgerRefused]:
        return self._looker.unfinished()

    def snapshot(self, *, customer: str | None = None, after: Slot | None = None, limit: int = MOST_PER_PAGE) -> Snapshot:
        return self._looker.snapshot(customer=customer, after=after, limit=limit)

    def head(self) -> Head:
        with self._core.locked():
            return self._core.index.head

    def extends(self, published: Head) -> bool:
        return self._looker.extends(published)

    def counts(self) -> dict[str, int]:
        with self._core.locked():
            return self._core.index.states()

    def health(self) -> Health:
        return self._looker.health()

    def verify(self) -> Verification:
        return self._looker.verify()

    def rows(self) -> Iterator[StoredRow]:
        return self._looker.rows()

    # Keeping

    def repair(self, *, accept_copy: bool = False, accept_loss: bool = False) -> Repairs:
        """Claims that are gone or altered are written again from their rows, or, without rows, become `unknown`. `accept_copy`: a person
        says that no other copy of this directory is used. `accept_loss`: that the rows which are gone stay gone. With either, whatever
        was still open becomes `unknown`, so that nothing is sent on what may be out of date."""
        with self._core.locked():
            return Repairer(self._core, self._reader, self._mover).repair(accept_copy=accept_copy, accept_loss=accept_loss)

    def adopt(
        self, rows: Iterable[StoredRow], *, doubt_before: datetime | None = None, accept_copy: bool = False
    ) -> Verification | LedgerRefused:
        try:
            return self._adopt(rows, doubt_before, accept_copy=accept_copy)
        except NotGiven as failed:
            raise failed.error from failed

    def _adopt(
        self, rows: Iterable[StoredRow], doubt_before: datetime | None, *, accept_copy: bool
    ) -> Verification | LedgerRefused:
        with self._core.locked():
            core = self._core
            if core.standing.trouble:
                return LedgerRefused(LedgerCode.RECOVERY_REQUIRED, core.standing.trouble)
            if core.index.head.sequence or core.index.orphans:
                refused = None if self._looker.holds_exactly(rows) else HOLDS_OTHERS
            else:
                adopter = Adopter(core, seal_rows=self._seal_rows, seal_bytes=self._seal_bytes)
                refused = adopter.adopt(rows, doubt_before=doubt_before, is_copy=accept_copy)
            if refused is None and core.fence is not None and core.fence.doubting(doubt_before) != core.fence:
                core.write_fence(core.fence.doubting(doubt_before))  # there were no rows, or they were there
            if refused is None and accept_copy:
                self.repair(accept_copy=True)
        return refused or self.verify()

    def backup(self, target: Path) -> Head:
        """A copy of this moment, while others go on. `target` must not exist, or be empty. It opens as a copy: nothing is sent from it
        before a person accepts it. Returns the head that it holds."""
        return back_up(self._core, target)

    def retire(self, *, note: str = "") -> LedgerRefused | None:
        """Its rows are taken over elsewhere: it answers, and nothing is ever sent from here again. Refused while something is being sent."""
        if len(note) > LONGEST_NOTE:
            return LedgerRefused(LedgerCode.INVALID, f"a note has {LONGEST_NOTE} characters at most")
        with self._core.locked():
            return retire(self._core, self._reader, note)

    def close(self) -> None:
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

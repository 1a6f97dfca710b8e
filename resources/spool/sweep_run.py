"""A sweep that a person asked for: the one flow in small. Observe, plan, decision, observe again, remove, receipts."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from guards.canonical import Json
from guards.decision import DecisionKind
from guards.gate import Authorization, Authorized, Flags, Fresh, Lease, gate
from guards.plan import Plan, plan_scope_key
from guards.receipt import Receipt
from guards.refusal import Refused
from guards.spool.sweeping import GUARD, SweepTarget, Temps, sweep_plan
from resources.errors import Rejected
from resources.file_servers.interface import Reader
from resources.lease import leased
from resources.spool.route import SpoolRoute
from resources.spool.sides import sides_of
from resources.spool.sweep import StaleName, find_stale
from resources.state import StateStore

VALID_FOR: Final = timedelta(minutes=10)
"""The approval is used seconds after it was given; one that a crash left unused must not wait around."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What was removed, and what the partner would not let us remove (name to its answer)."""

    plan_digest: str
    removed: tuple[Receipt, ...]
    kept: dict[str, str]


def look_for_stale(route: SpoolRoute, state: StateStore) -> list[StaleName]:
    """Reads only. Raises `Unreachable` and its kinds."""
    with sides_of(route).partner.reader() as partner:
        return find_stale(state, route, partner)


class SpoolSweep:
    """One sweep by one run. Holds the route's own lease, so that no apply is uploading meanwhile."""

    def __init__(self, route: SpoolRoute, state: StateStore, *, by: str, run_id: str, lease_seconds: int) -> None:
        self._route = route
        self._state = state
        self._by = by
        self._run_id = run_id
        self._lease_seconds = lease_seconds
        self._server = sides_of(route).partner

    def remove(self, stale: Sequence[StaleName]) -> Swept | Refused:
        """Exactly these, when they are still as they were shown. Raises `Unreachable` before, `OutcomeUnknown` after a removal."""
        with self._leased("spool") as exclusive:
            if isinstance(exclusive, Refused):
                return exclusive
            with self._server.reader() as partner:
                plan = self._plan(stale, partner)
            stored = self._state.record_report(plan, run_id=self._run_id, overrides={})
            decision = self._state.decide(
                stored.digest,
                kind=DecisionKind.APPROVED,
                by=self._by,
                comment="asked for by name on the command line",
                valid_for=VALID_FOR,
                channel="cli",
                run_id=self._run_id,
            )
            if isinstance(decision, Refused):
                return decision
            with self._leased(GUARD) as lease:
                return lease if isinstance(lease, Refused) else self._authorized(plan, lease, exclusive)

    def _plan(self, stale: Sequence[StaleName], partner: Reader) -> Plan[Temps]:
        scope: dict[str, Json] = {"partner": {**partner.identity.as_json(), "inbox": self._route.partner.directory}}
        targets = [SweepTarget(temp=one.temp, feed=one.feed, run_id=one.run_id, held_bytes=one.size_bytes) for one in stale]
        return sweep_plan(targets, watch=self._route.name, scope=scope)

    def _authorized(self, plan: Plan[Temps], lease: Lease, exclusive: Lease) -> Swept | Refused:
        with self._server.reader() as partner:
            current = sweep_plan((), watch=plan.watch, scope=self._plan((), partner).scope)
            seen = self._look(partner, [target.subject for target in plan.targets])
        verdict = gate(
            flags=Flags(dry_run=False, auto_remediate=True),
            plan=plan,
            decision=self._state.decision(plan.digest),
            current=current,
            fresh=Fresh(seen),
            lease=lease,
            now=self._state.now(),
        )
        match verdict:
            case Refused():
                return verdict
            case Authorized(authorization):
                used = self._state.use_approval(authorization)
                return used or self._remove(plan, authorization, (lease, exclusive))

    def _look(self, partner: Reader, temps: Sequence[str]) -> Temps:
        answers = {temp: partner.stat(self._route.partner.directory, temp) for temp in temps}
        return {temp: entry.size_bytes for temp, entry in answers.items() if entry is not None}

    def _remove(self, plan: Plan[Temps], authorization: Authorization, leases: tuple[Lease, ...]) -> Swept:
        inbox = self._route.partner.directory
        removed: list[Receipt] = []
        kept: dict[str, str] = {}
        with self._server.writer(authorization, scope=authorization.scope, directories=(inbox,)) as partner:
            for target in plan.targets:
                for lease in leases:
                    self._state.heartbeat(lease)
                self._state.require_live(authorization)
                intent = self._state.intend(authorization, subject=target.subject, step="sweep", detail=dict(target.as_json()))
                try:
                    partner.remove(inbox, target.subject)
                except Rejected as error:
                    kept[target.subject] = str(error)
                    self._state.outcome(authorization, intent, {"result": "rejected"})
                    continue
                self._state.outcome(authorization, intent, {"result": "removed"})
                removed.append(self._receipt(authorization, target.subject, target.as_json()["size_bytes"]))
        return Swept(plan.digest, tuple(removed), kept)

    def _receipt(self, authorization: Authorization, temp: str, held_bytes: Json) -> Receipt:
        return self._state.add_receipt(
            authorization,
            Receipt(
                guard=GUARD,
                watch=self._route.name,
                plan_digest=authorization.plan_digest,
                approval_id=authorization.approval_id,
                approved_by=authorization.approved_by,
                run_id=self._run_id,
                subject=temp,
                action="remove",
                size_bytes=held_bytes if isinstance(held_bytes, int) else 0,
                sha256="",
                evidence={"inbox": self._route.partner.directory},
            ),
        )

    def _leased(self, guard: str) -> AbstractContextManager[Lease | Refused]:
        scope = plan_scope_key(guard, self._route.name)
        return leased(self._state, scope, holder=self._run_id, seconds=self._lease_seconds)

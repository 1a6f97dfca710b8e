"""Small builders for the store's tests: a guard of three lines, its plans, and the way through the real gate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

import psycopg

from guards.canonical import Json
from guards.decision import DecisionKind
from guards.finding import Finding
from guards.gate import Authorization, Authorized, Flags, Fresh, Lease, gate
from guards.plan import Plan
from guards.receipt import Receipt
from guards.refusal import Refused
from guards.requirement import Requirement
from resources.state import StateStore

SCOPE = "shelf/one"


class ShelfVerdict(StrEnum):
    LOST = "lost"
    FINE = "fine"

    @property
    def is_gap(self) -> bool:
        return self is ShelfVerdict.LOST

    @property
    def is_repairable(self) -> bool:
        return self.is_gap

    @property
    def needs_person(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Book:
    subject: str
    size_bytes: int = 7
    action: str = "fetch"
    requirements: tuple[Requirement[None], ...] = ()

    def as_json(self) -> Mapping[str, Json]:
        return {"subject": self.subject, "action": self.action, "size_bytes": self.size_bytes}


def plan(*lost: str, watch: str = "one", fine: tuple[str, ...] = (), observation: str = "", policy: int = 1) -> Plan[None]:
    findings = [Finding(name, ShelfVerdict.LOST, "nobody has it", {"size_bytes": 7}) for name in lost]
    findings += [Finding(name, ShelfVerdict.FINE, "is there") for name in fine]
    return Plan(
        guard="shelf",
        watch=watch,
        scope={"room": "east"},
        policy={"limit": policy},
        targets=tuple(Book(name) for name in lost),
        findings=tuple(findings),
        observation=observation,
    )


def report(store: StateStore, proposed: Plan[None], *, run_id: str = "run-1"):
    return store.record_report(proposed, run_id=run_id, overrides={})


def decide(store: StateStore, digest: str, *, kind=DecisionKind.APPROVED, by="Kim", valid_for=timedelta(hours=12), comment=""):
    return store.decide(digest, kind=kind, by=by, comment=comment, valid_for=valid_for, channel="cli")


def leased(store: StateStore, *, holder: str = "run-2", scope: str = SCOPE, ttl_seconds: int = 600) -> Lease:
    lease = store.acquire_lease(scope, holder=holder, ttl_seconds=ttl_seconds)
    assert isinstance(lease, Lease), lease
    return lease


def authorize(store: StateStore, proposed: Plan[None], lease: Lease) -> Authorization:
    verdict = gate(
        flags=Flags(dry_run=False, auto_remediate=True),
        plan=proposed,
        decision=store.decision(proposed.digest),
        current=proposed,
        fresh=Fresh(None),
        lease=lease,
        now=store.now(),
    )
    assert isinstance(verdict, Authorized), verdict
    return verdict.authorization


def approved_and_leased(store: StateStore, *lost: str, holder: str = "run-2") -> Authorization:
    """The usual way in: reported, approved, leased, through the gate."""
    proposed = plan(*(lost or ("a.csv",)))
    report(store, proposed)
    assert not isinstance(decide(store, proposed.digest), Refused)
    return authorize(store, proposed, leased(store, holder=holder))


def by_hand(database_url: str, *statements) -> None:
    """What somebody with the database's password can do: a superuser switches the triggers off first."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for statement in statements:
            connection.execute(statement)


def receipt_of(authorization, subject="a.csv", **changes) -> Receipt:
    made = Receipt(
        guard="shelf",
        watch="one",
        plan_digest=authorization.plan_digest,
        approval_id=authorization.approval_id,
        approved_by=authorization.approved_by,
        run_id=authorization.holder,
        subject=subject,
        action="send",
        size_bytes=7,
        sha256="ab" * 32,
        evidence={"read_back": True},
    )
    return replace(made, **changes)

"""A whole guard in one file: counters on shelves.

A shop has shelves, and each shelf should hold `par` counters. At night somebody should have filled them up. This guard finds the
shelves where that silently did not happen, plans which to fill, waits for approval of exactly that plan, fills them, and counts again.

It is the smallest thing that walks the one flow of every guard:

    observe -> plan -> report -> approve -> re-observe -> write -> verify

and it brings exactly what a guard must bring: verdicts, facts, a requirement, a target, a plan, a writer, a check. All the deciding -
digests, approvals, leases, refusals - is the core's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, assert_never

from guards.canonical import Json
from guards.check import CheckOutcome
from guards.decision import Decision
from guards.finding import Finding
from guards.gate import Authorization, Authorized, Flags, Fresh, Lease, gate, require_authentic
from guards.plan import Plan, plan_scope_key
from guards.refusal import Refused
from guards.requirement import Mismatch

GUARD: Final = "shelves"


# 1. Verdicts: a closed set. Each member answers the three questions, and `match` makes sure that a new one cannot forget them.


class ShelfVerdict(StrEnum):
    FULL = "full"
    LOW = "low"
    OVERFULL = "overfull"
    UNREADABLE = "unreadable"

    @property
    def is_gap(self) -> bool:
        return self is not ShelfVerdict.FULL

    @property
    def is_repairable(self) -> bool:
        return self is ShelfVerdict.LOW

    @property
    def needs_person(self) -> bool:
        match self:
            case ShelfVerdict.FULL | ShelfVerdict.LOW:
                return False
            case ShelfVerdict.OVERFULL | ShelfVerdict.UNREADABLE:
                return True
            case _:
                assert_never(self)


# 2. Facts: what one observation saw. None means "could not be counted", which is never zero.

Shelves = Mapping[str, int | None]


# 3. A requirement: what the approver saw and what must still be so when the write happens. It says expected and found.


@dataclass(frozen=True, slots=True)
class CountUnchanged:
    shelf: str
    count: int

    def check(self, seen: Shelves) -> Mismatch | None:
        found = seen.get(self.shelf)
        return None if found == self.count else Mismatch(self.shelf, f"{self.count} counters", f"{found} counters")

    def as_json(self) -> Mapping[str, Json]:
        return {"shelf": self.shelf, "count": self.count}


# 4. A target: one write, with its requirements.


@dataclass(frozen=True, slots=True)
class FillUp:
    shelf: str
    count: int
    add: int

    @property
    def subject(self) -> str:
        return self.shelf

    @property
    def action(self) -> str:
        return "fill"

    @property
    def size_bytes(self) -> int:
        return 0

    @property
    def requirements(self) -> tuple[CountUnchanged]:
        return (CountUnchanged(self.shelf, self.count),)

    def as_json(self) -> Mapping[str, Json]:
        return {"shelf": self.shelf, "count": self.count, "add": self.add}


# 5. The judge and the plan: pure. Every shelf gets a finding that says why; only the repairable ones become targets.


def judge(seen: Shelves, *, par: int) -> tuple[Finding, ...]:
    return tuple(_finding(shelf, seen[shelf], par) for shelf in sorted(seen))


def _finding(shelf: str, count: int | None, par: int) -> Finding:
    if count is None:
        return Finding(shelf, ShelfVerdict.UNREADABLE, "It could not be counted: go and look.")
    if count > par:
        return Finding(shelf, ShelfVerdict.OVERFULL, f"It holds {count}, more than its par of {par}: somebody filled it twice.")
    if count < par:
        return Finding(shelf, ShelfVerdict.LOW, f"It holds {count} of {par}: nobody filled it.")
    return Finding(shelf, ShelfVerdict.FULL, f"It holds {par}.")


def make_plan(seen: Shelves, *, watch: str, par: int) -> Plan[Shelves]:
    findings = judge(seen, par=par)
    low = [finding.subject for finding in findings if finding.verdict.is_repairable]
    counts = {shelf: count for shelf, count in seen.items() if count is not None}
    return Plan(
        guard=GUARD,
        watch=watch,
        scope={"shop": "main street"},
        policy={"par": par},
        targets=tuple(FillUp(shelf, counts[shelf], add=par - counts[shelf]) for shelf in low),
        findings=findings,
        observation=_incomplete(seen),
    )


def _incomplete(seen: Shelves) -> str:
    """A shop without any shelf was not a shop: something hid them. "Not seen" is never "not there"."""
    return "" if seen else "no shelf was seen at all"


# 6. The world, with its two faces. Whoever holds only a `Shop` can look; a `Writer` needs an authorization, and asks for it first.


class Shop:
    def __init__(self, **counts: int | None) -> None:
        self._counts: dict[str, int | None] = dict(counts)

    def observe(self) -> Shelves:
        return dict(self._counts)

    def somebody_puts(self, shelf: str, count: int) -> None:
        self._counts[shelf] = count

    def writer(self, authorization: Authorization, *, watch: str) -> "Writer":
        return Writer(self._counts, authorization, watch=watch)


class Writer:
    def __init__(self, counts: dict[str, int | None], authorization: Authorization, *, watch: str) -> None:
        require_authentic(authorization, scope=plan_scope_key(GUARD, watch))
        self._counts = counts

    def fill(self, target: FillUp) -> None:
        count = self._counts[target.shelf]
        assert count is not None
        self._counts[target.shelf] = count + target.add


# 7. Apply: look again, ask the gate, write exactly the plan's targets, check on another fresh look. A refusal is a value.


@dataclass(frozen=True, slots=True)
class Applied:
    checks: tuple[CheckOutcome, ...]


def apply(
    shop: Shop, plan: Plan[Shelves], *, par: int, flags: Flags, decision: Decision | None, lease: Lease | None, now: datetime
) -> Applied | Refused:
    before = shop.observe()
    match gate(
        flags=flags,
        plan=plan,
        decision=decision,
        current=make_plan(before, watch=plan.watch, par=par),
        fresh=Fresh(before, incomplete=_incomplete(before)),
        lease=lease,
        now=now,
    ):
        case Refused() as refused:
            return refused
        case Authorized(authorization):
            writer = shop.writer(authorization, watch=plan.watch)
            for target in plan.targets:
                assert isinstance(target, FillUp)
                writer.fill(target)
            return Applied(checks=check(plan, par=par, before=before, after=shop.observe()))


# 8. Checks: on what is seen afterwards, never on what the writer returned. Nothing outside the plan may have changed.


def check(plan: Plan[Shelves], *, par: int, before: Shelves, after: Shelves) -> tuple[CheckOutcome, ...]:
    filled = {target.subject for target in plan.targets}
    low = sorted(shelf for shelf in filled if after.get(shelf) != par)
    moved = sorted(shelf for shelf in before if shelf not in filled and after.get(shelf) != before[shelf])
    return (
        CheckOutcome("shelves_full", not low, f"{len(low)} of {len(filled)} filled shelves are not at par {low or ''}".strip()),
        CheckOutcome("others_untouched", not moved, f"{len(moved)} other shelves changed {moved or ''}".strip()),
    )

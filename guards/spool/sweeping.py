"""Sweeping: removing temporary copies that a dead run of ours left in an inbox. A plan like any other, of one kind of target.

It is a guard of its own (`spool_sweep`), so that it neither supersedes a report's plan nor is taken for one by the apply jobs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from guards.canonical import Json
from guards.plan import Plan
from guards.requirement import Mismatch, Requirement

GUARD: Final = "spool_sweep"

Temps: TypeAlias = Mapping[str, int | None]
"""What the inbox holds under the temporary names that were asked for: size in bytes, None when the partner would not say. A name
that is not in it is absent."""


@dataclass(frozen=True, slots=True)
class TempUnchanged:
    """The copy is still there with this size: nobody is writing it."""

    temp: str
    size_bytes: int | None

    def check(self, seen: Temps) -> Mismatch | None:
        if self.temp not in seen:
            return Mismatch(self.temp, expected=_size(self.size_bytes), found="nothing")
        if seen[self.temp] != self.size_bytes:
            return Mismatch(self.temp, expected=_size(self.size_bytes), found=_size(seen[self.temp]))
        return None

    def as_json(self) -> Mapping[str, Json]:
        return {"temp": self.temp, "size_bytes": self.size_bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTarget:
    """One temporary copy of `feed`, left by run `run_id`."""

    temp: str
    feed: str
    run_id: str
    held_bytes: int | None

    @property
    def subject(self) -> str:
        return self.temp

    @property
    def action(self) -> str:
        return "remove"

    @property
    def size_bytes(self) -> int:
        """Nothing is written."""
        return 0

    @property
    def requirements(self) -> tuple[Requirement[Temps], ...]:
        return (TempUnchanged(self.temp, self.held_bytes),)

    def as_json(self) -> Mapping[str, Json]:
        return {"name": self.temp, "action": self.action, "feed": self.feed, "run_id": self.run_id, "size_bytes": self.held_bytes}


def sweep_plan(targets: Iterable[SweepTarget], *, watch: str, scope: Mapping[str, Json]) -> Plan[Temps]:
    """Targets by name, so that two looks at one inbox make one digest."""
    ordered: list[SweepTarget] = sorted(targets, key=lambda target: (target.temp, target.run_id))
    return Plan(guard=GUARD, watch=watch, scope=scope, policy={}, targets=tuple(ordered))


def _size(size_bytes: int | None) -> str:
    return "a copy of unknown size" if size_bytes is None else f"a copy of {size_bytes:,} bytes"

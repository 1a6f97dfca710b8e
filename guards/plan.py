"""The plan: what was seen, what would be written, and the digest that a person approves.

    Plan = guard + watch + scope + policy + targets + findings

The digest covers guard, watch, scope, policy and targets: all that decides what would be written, and nothing that changes by
itself (ages, "now", the findings' sentences). Two reports of an unchanged world have one digest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from guards.canonical import Json, digest
from guards.finding import Finding, counts_by_verdict
from guards.requirement import Target

Facts = TypeVar("Facts")

SHORT_DIGITS = 12
"""How many hex digits of a digest are shown, and the fewest that the Launchpad accepts (its forms can be filled in by a link)."""

FEWEST_DIGITS = 8
"""The fewest that the command line accepts, when they are unambiguous."""


@dataclass(frozen=True)
class Plan(Generic[Facts]):
    """`scope` says where (hosts, ports, fingerprints, directories), `policy` by which rules.

    `observation` is empty when everything was observed completely, else one sentence that says what was not; such a plan may
    have findings but the gate lets nothing of it be written.
    """

    guard: str
    watch: str
    scope: Mapping[str, Json]
    policy: Mapping[str, Json]
    targets: tuple[Target[Facts], ...]
    findings: tuple[Finding, ...] = ()
    observation: str = ""

    @cached_property
    def digest(self) -> str:
        return digest(self.signed())

    @property
    def short(self) -> str:
        return self.digest[:SHORT_DIGITS]

    def signed(self) -> dict[str, Json]:
        """Exactly what the digest covers."""
        return {
            "guard": self.guard,
            "watch": self.watch,
            "scope": dict(self.scope),
            "policy": dict(self.policy),
            "targets": [dict(target.as_json()) for target in self.targets],
        }

    @property
    def gaps(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict.is_gap)

    @property
    def counts(self) -> dict[str, int]:
        return counts_by_verdict(self.findings)

    @property
    def outstanding_bytes(self) -> int:
        return sum(target.size_bytes for target in self.targets)


def plan_scope_key(guard: str, watch: str) -> str:
    """Name of the lease that one writer at a time holds."""
    return f"{guard}/{watch}"

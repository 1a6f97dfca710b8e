"""Findings: one observed entry, its verdict, and a sentence that says why."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from guards.canonical import Json


class Verdict(Protocol):
    """A member of a guard's closed enum. Its questions are answered by the member, so that a new one cannot forget them."""

    @property
    def value(self) -> str: ...

    @property
    def is_gap(self) -> bool:
        """Something was owed and is not proven to be there."""
        ...

    @property
    def is_repairable(self) -> bool:
        """A plan may hold a target for it. Independent of `is_gap`: archiving what was delivered is a repair without a gap."""
        ...

    @property
    def needs_person(self) -> bool:
        """No plan will ever repair this; somebody has to look."""
        ...


class Answering(StrEnum):
    """A closed set of verdicts that answers a `Verdict`'s questions in one `match`."""

    @property
    def is_gap(self) -> bool:
        return self._answers[0]

    @property
    def is_repairable(self) -> bool:
        return self._answers[1]

    @property
    def needs_person(self) -> bool:
        return self._answers[2]

    @property
    @abstractmethod
    def _answers(self) -> tuple[bool, bool, bool]:
        """`is_gap`, `is_repairable`, `needs_person`."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is the entry's name as observed (may be hostile: escape it where it is shown); `facts` are JSON, volatile ones included."""

    subject: str
    verdict: Verdict
    note: str
    facts: Mapping[str, Json] = field(default_factory=dict)

    def as_json(self) -> dict[str, Json]:
        return {"subject": self.subject, "verdict": self.verdict.value, "note": self.note, "facts": dict(self.facts)}


def counts_by_verdict(findings: Iterable[Finding]) -> dict[str, int]:
    """Verdict value to number of findings, verdicts in order of first appearance; verdicts nobody has are left out."""
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.verdict.value] = counts.get(finding.verdict.value, 0) + 1
    return counts

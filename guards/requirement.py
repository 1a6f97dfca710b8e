"""Requirements: typed facts that must still hold at write time. Each can say what it expected and what it found."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from guards.canonical import Json

Facts_contra = TypeVar("Facts_contra", contravariant=True)
Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One requirement that no longer holds, in an operator's words."""

    subject: str
    expected: str
    found: str

    def sentence(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.found}"


class Requirement(Protocol[Facts_contra]):
    """A small frozen value, pinned in the plan; `check` is pure."""

    def check(self, seen: Facts_contra) -> Mismatch | None: ...

    def as_json(self) -> Mapping[str, Json]:
        """Part of the plan digest: everything that `check` compares, nothing that changes by itself."""
        ...


class Target(Protocol[Facts_contra]):
    """One entry the plan would write."""

    @property
    def subject(self) -> str: ...

    @property
    def action(self) -> str:
        """One word for the table, for example `send`."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes this target would write; 0 when it writes none."""
        ...

    @property
    def requirements(self) -> tuple[Requirement[Facts_contra], ...]: ...

    def as_json(self) -> Mapping[str, Json]: ...


def mismatches(targets: Iterable[Target[Facts]], seen: Facts) -> tuple[Mismatch, ...]:
    """Every requirement of every target that does not hold in `seen`, in plan order."""
    return tuple(
        found for target in targets for requirement in target.requirements if (found := requirement.check(seen)) is not None
    )

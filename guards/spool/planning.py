"""Plans of the spool guard: targets from judged entries, and back from the JSON that the state store keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from guards.canonical import Json
from guards.plan import Plan
from guards.requirement import Requirement
from guards.spool.case import Bench
from guards.spool.judge import assess, finding
from guards.spool.names import unsafe_reason
from guards.spool.policy import SpoolPolicy
from guards.spool.requirements import ArchiveNameFree, NoWriterMarker, PartnerStateUnchanged, SourceUnchanged, copy_json
from guards.spool.ruling import Judged, SpoolAction
from guards.spool.world import PartnerCopy, SpoolWorld
from guards.stored import is_sha256, stored_object, stored_size, stored_time

GUARD = "spool"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolTarget:
    """One feed to send, to resolve, or to archive. `sha256`: of the spool's bytes at plan time. `partner`: what the approver saw there,
    None for nothing; when sending, that copy is replaced."""

    name: str
    action: SpoolAction
    size_bytes: int
    modified_at: datetime | None
    sha256: str
    partner: PartnerCopy | None
    marker_suffixes: tuple[str, ...] = SpoolPolicy().in_progress_suffixes

    @property
    def subject(self) -> str:
        return self.name

    @property
    def requirements(self) -> tuple[Requirement[SpoolWorld], ...]:
        """Resolving needs no free name in the archive: it settles what the ledger holds in doubt even when archiving has to wait."""
        both_sides: tuple[Requirement[SpoolWorld], ...] = (
            SourceUnchanged(name=self.name, size_bytes=self.size_bytes, modified_at=self.modified_at, sha256=self.sha256),
            NoWriterMarker(name=self.name, suffixes=self.marker_suffixes),
            PartnerStateUnchanged(name=self.name, expected=self.partner),
        )
        return both_sides if self.action is SpoolAction.RESOLVE else (*both_sides, ArchiveNameFree(name=self.name))

    def as_json(self) -> Mapping[str, Json]:
        return {
            "name": self.name,
            "action": self.action.value,
            "size_bytes": self.size_bytes,
            "modified_at": None if self.modified_at is None else self.modified_at.isoformat(),
            "sha256": self.sha256,
            "partner": copy_json(self.partner),
            "marker_suffixes": list(self.marker_suffixes),
        }


def make_plan(
    world: SpoolWorld,
    *,
    watch: str,
    scope: Mapping[str, Json],
    policy: SpoolPolicy,
    consumes_on_arrival: bool,
    case_sensitive: bool,
) -> Plan[SpoolWorld]:
    """Targets oldest first. An incomplete observation gives findings and no targets."""
    bench = Bench(world=world, policy=policy, consumes_on_arrival=consumes_on_arrival, case_sensitive=case_sensitive)
    return plan_of(assess(bench), bench=bench, watch=watch, scope=scope)


def plan_of(judged: Sequence[Judged], *, bench: Bench, watch: str, scope: Mapping[str, Json]) -> Plan[SpoolWorld]:
    """The same from entries that are judged already and leave no question open."""
    chosen = sorted((one for one in judged if one.action and one.case.sha256), key=lambda one: (one.case.since, one.case.name))
    return Plan(
        guard=GUARD,
        watch=watch,
        scope=scope,
        policy=bench.policy.as_json(),
        targets=tuple(_target(one) for one in chosen),
        findings=tuple(finding(one) for one in judged),
        observation=bench.incomplete,
    )


def _target(one: Judged) -> SpoolTarget:
    case = one.case
    answer, theirs = case.answer, case.bench.world.partner_confirmed[case.name]
    assert one.action is not None
    assert answer is not None  # it has a place, so the spool's own answer
    assert answer.size_bytes is not None  # confirmed the row, with a size
    return SpoolTarget(
        name=case.name,
        action=one.action,
        size_bytes=answer.size_bytes,
        modified_at=answer.modified_at,
        sha256=case.sha256,
        partner=None if theirs is None else PartnerCopy(size_bytes=theirs.size_bytes, modified_at=theirs.modified_at),
        marker_suffixes=case.bench.policy.in_progress_suffixes,
    )


def load_plan(
    *,
    watch: str,
    scope: Mapping[str, Json],
    policy: Mapping[str, Json],
    targets: Sequence[Json],
    observation: str = "",
) -> Plan[SpoolWorld]:
    """A stored plan again, without findings. ValueError when a part is not what `make_plan` would have written; compare the digest."""
    return Plan(
        guard=GUARD,
        watch=watch,
        scope=scope,
        policy=SpoolPolicy.model_validate(dict(policy)).as_json(),
        targets=tuple(load_target(target) for target in targets),
        observation=observation,
    )


def load_target(data: Json) -> SpoolTarget:
    """ValueError, saying what is wrong, for anything that `SpoolTarget.as_json` does not write."""
    fields = stored_object(
        data, {"name", "action", "size_bytes", "modified_at", "sha256", "partner", "marker_suffixes"}, "a target"
    )
    name, action, sha256, suffixes = fields["name"], fields["action"], fields["sha256"], fields["marker_suffixes"]
    if not isinstance(name, str) or unsafe_reason(name):
        raise ValueError("a stored target's name is not one that a plan could hold")
    if not isinstance(action, str) or action not in set(SpoolAction):
        raise ValueError("a stored target's action is none that this version knows")
    if not isinstance(sha256, str) or not is_sha256(sha256):
        raise ValueError("a stored target's sha256 is not 64 lower-case hex digits")
    if not isinstance(suffixes, list) or not suffixes or not all(isinstance(suffix, str) and suffix for suffix in suffixes):
        raise ValueError("a stored target's marker_suffixes are not a list of endings")
    size_bytes = stored_size(fields["size_bytes"])
    if not size_bytes:
        raise ValueError("a stored target's size is zero")
    return SpoolTarget(
        name=name,
        action=SpoolAction(action),
        size_bytes=size_bytes,
        modified_at=_time(fields["modified_at"]),
        sha256=sha256,
        partner=load_partner_copy(fields["partner"]),
        marker_suffixes=tuple(suffixes),
    )


def load_partner_copy(data: Json) -> PartnerCopy | None:
    """What `copy_json` wrote; ValueError for anything else."""
    if data is None:
        return None
    fields = stored_object(data, {"size_bytes", "modified_at"}, "a target's partner copy")
    return PartnerCopy(
        size_bytes=None if fields["size_bytes"] is None else stored_size(fields["size_bytes"]),
        modified_at=_time(fields["modified_at"]),
    )


def _time(data: Json) -> datetime | None:
    return None if data is None else stored_time(data)

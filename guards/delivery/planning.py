"""Plans of the delivery guard: targets from judged slots, and back from the JSON that the state store keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from guards.canonical import Json
from guards.delivery.bodies import Body
from guards.delivery.judge import Judged, judge
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Provider, Route
from guards.delivery.requirements import (
    BodyUnchanged,
    CheckInMissing,
    DestinationUnchanged,
    RegistryUnchanged,
    SlotFree,
    WindowOpen,
)
from guards.delivery.slot import Kind, Slot, parse_slot
from guards.delivery.standing import uncovered
from guards.delivery.taken import Ruling
from guards.delivery.world import DeliveryWorld
from guards.plan import Plan
from guards.requirement import Requirement
from guards.stored import is_sha256, stored_object, stored_size, stored_time
from guards.text import one_line

GUARD: Final = "delivery"
ACTION: Final = "send"
_TEXTS: Final = (
    "slot",
    "action",
    "zone",
    "local_date",
    "due_at",
    "closes_at",
    "provider",
    "address",
    "registry_sha256",
    "config_sha256",
    "body_sha256",
    "template",
    "template_sha256",
    "pins_sha256",
)
_DIGESTS: Final = ("registry_sha256", "config_sha256", "body_sha256", "pins_sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTarget:
    """One message to send. `pins_sha256` is over all that its reservation will be for; `size_bytes` the body's."""

    slot: Slot
    zone: str
    local_date: date
    due_at: datetime
    closes_at: datetime
    route: Route
    registry_sha256: str
    config_sha256: str
    body_sha256: str
    size_bytes: int
    template: str
    template_sha256: str
    pins_sha256: str

    @property
    def subject(self) -> str:
        return self.slot.key

    @property
    def action(self) -> str:
        return ACTION

    @property
    def requirements(self) -> tuple[Requirement[DeliveryWorld], ...]:
        slot = self.slot
        common: tuple[Requirement[DeliveryWorld], ...] = (
            RegistryUnchanged(slot=slot, sha256=self.registry_sha256),
            WindowOpen(slot=slot, due_at=self.due_at, closes_at=self.closes_at),
            DestinationUnchanged(slot=slot, route=self.route, config_sha256=self.config_sha256),
            BodyUnchanged(slot=slot, sha256=self.body_sha256, template=self.template, template_sha256=self.template_sha256),
            SlotFree(slot=slot, pins_sha256=self.pins_sha256),
        )
        if slot.kind != Kind.REMINDER:
            return common
        return (*common, CheckInMissing(slot=slot, local_date=self.local_date, zone=self.zone))

    def as_json(self) -> Mapping[str, Json]:
        return {
            "slot": self.slot.key,
            "action": ACTION,
            "zone": self.zone,
            "local_date": self.local_date.isoformat(),
            "due_at": self.due_at.isoformat(),
            "closes_at": self.closes_at.isoformat(),
            **self.route.as_json(),
            "registry_sha256": self.registry_sha256,
            "config_sha256": self.config_sha256,
            "body_sha256": self.body_sha256,
            "size_bytes": self.size_bytes,
            "template": self.template,
            "template_sha256": self.template_sha256,
            "pins_sha256": self.pins_sha256,
        }


def make_plan(world: DeliveryWorld, *, scope: Mapping[str, Json], policy: DeliveryPolicy) -> Plan[DeliveryWorld]:
    """Targets by due time, then by slot. An incomplete or hypothetical observation gives findings and no targets."""
    return plan_of(judge(world, policy), world=world, scope=scope, policy=policy)


def plan_of(
    judged: Sequence[Judged], *, world: DeliveryWorld, scope: Mapping[str, Json], policy: DeliveryPolicy
) -> Plan[DeliveryWorld]:
    observation = world.incomplete
    if world.is_hypothetical:
        observation = f"asked about {world.now:%Y-%m-%d %H:%M:%S} UTC, which is not the ledger's now: only shown, never sent"
    settled, targets = _choose(judged, world, policy, is_open=not observation)
    return Plan(
        guard=GUARD,
        watch=world.watch,
        scope=scope,
        policy=policy.as_json(),
        targets=targets,
        findings=tuple(one.finding() for one in settled),
        observation=observation,
    )


def _choose(
    judged: Sequence[Judged], world: DeliveryWorld, policy: DeliveryPolicy, *, is_open: bool
) -> tuple[list[Judged], tuple[DeliveryTarget, ...]]:
    """The judged with what the plan leaves out said in their notes, and the targets."""
    candidates = [one for one in judged if one.ruling.pins is not None]
    needed = set(
        uncovered(world.standing, [one.slot for one in candidates], watch=world.watch, now=world.now, declined=world.declined)
    )
    left_out: dict[Slot, str] = {}
    targets: list[DeliveryTarget] = []
    for one in candidates:
        if policy.only_standing and one.slot in needed:
            left_out[one.slot] = _why_not_standing(one.slot, world)
        elif len(targets) == policy.max_messages_per_run:
            left_out[one.slot] = (
                f"Not in this plan, which holds {policy.max_messages_per_run:,} messages: it is planned after them."
            )
        elif is_open:
            targets.append(_target(one, world))
    settled = [
        one
        if one.slot not in left_out
        else replace(one, ruling=Ruling(one.ruling.verdict, f"{one.ruling.note} {left_out[one.slot]}"))
        for one in judged
    ]
    return settled, tuple(targets)


def _why_not_standing(slot: Slot, world: DeliveryWorld) -> str:
    if slot in world.declined:
        by = one_line(world.declined[slot], limit=80)
        return f"Not planned: {by} declined a plan with it, which beats standing approvals (only_standing)."
    return "Not planned: no live standing approval names this customer and kind (only_standing)."


def _target(one: Judged, world: DeliveryWorld) -> DeliveryTarget:
    owed, pins, body = one.owed, one.ruling.pins, world.bodies[one.slot]
    assert owed is not None  # strays have no pins
    assert pins is not None  # it is a candidate
    assert isinstance(body, Body)  # or it would have none
    return DeliveryTarget(
        slot=one.slot,
        zone=owed.customer.zone,
        local_date=owed.local_date,
        due_at=owed.due_at,
        closes_at=owed.closes_at,
        route=owed.customer.route,
        registry_sha256=world.registry.digest,
        config_sha256=world.endpoints[owed.customer.route].config_sha256,
        body_sha256=body.sha256,
        size_bytes=body.size_bytes,
        template=body.template,
        template_sha256=body.template_sha256,
        pins_sha256=pins.digest,
    )


def load_plan(
    *,
    watch: str,
    scope: Mapping[str, Json],
    policy: Mapping[str, Json],
    targets: Sequence[Json],
    observation: str = "",
) -> Plan[DeliveryWorld]:
    """A stored plan again, without findings. ValueError when a part is not what `make_plan` would have written; compare the digest."""
    return Plan(
        guard=GUARD,
        watch=watch,
        scope=scope,
        policy=DeliveryPolicy.model_validate(dict(policy)).as_json(),
        targets=tuple(load_target(target) for target in targets),
        observation=observation,
    )


def load_target(data: Json) -> DeliveryTarget:
    """ValueError, saying what is wrong, for anything that `DeliveryTarget.as_json` does not write."""
    fields = stored_object(data, {*_TEXTS, "size_bytes"}, "a target")
    said = {name: value for name in _TEXTS if isinstance(value := fields[name], str)}
    if len(said) != len(_TEXTS) or said["action"] != ACTION:
        raise ValueError("a stored target holds text that this version does not know")
    size_bytes = stored_size(fields["size_bytes"])
    if not size_bytes:
        raise ValueError("a stored target's size is zero")
    templated = ("template_sha256",) if said["template"] else ()
    if not all(is_sha256(said[name]) for name in (*_DIGESTS, *templated)):
        raise ValueError("a stored target's digest is not 64 lower-case hex digits")
    return DeliveryTarget(
        slot=parse_slot(said["slot"]),
        zone=said["zone"],
        local_date=date.fromisoformat(said["local_date"]),
        due_at=stored_time(said["due_at"]),
        closes_at=stored_time(said["closes_at"]),
        route=Route(Provider(said["provider"]), said["address"]),
        registry_sha256=said["registry_sha256"],
        config_sha256=said["config_sha256"],
        body_sha256=said["body_sha256"],
        size_bytes=size_bytes,
        template=said["template"],
        template_sha256=said["template_sha256"],
        pins_sha256=said["pins_sha256"],
    )

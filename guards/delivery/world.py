"""The facts of one delivery watch at one moment: what is owed, what the ledger holds, what would be sent, and what has checked in.

Made by `resources/delivery` from the real files and stores, judged by `guards.delivery.judge`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from guards.delivery.bodies import Body, NoBody, NoTemplate
from guards.delivery.entry import Reservation
from guards.delivery.evidence import CheckIns, EvidenceUnreadable
from guards.delivery.registry import Registry, Route
from guards.delivery.schedule import Owed
from guards.delivery.slot import Slot
from guards.delivery.standing import StandingApproval


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the settings have for a route. `config_sha256` is over where it leads and nothing secret; `missing` is "" or why nothing can
    be sent there, as one sentence without its full stop."""

    config_sha256: str = ""
    missing: str = ""


@dataclass(frozen=True, kw_only=True)
class DeliveryWorld:
    """One observation. `owed` holds every slot of the look-back, sorted; the mappings what was asked about."""

    watch: str
    now: datetime
    """The ledger's clock, or the moment that a report was asked about."""
    registry: Registry
    owed: tuple[Owed, ...]
    held: Mapping[Slot, Reservation] = field(default_factory=dict)
    """Latest attempts, of owed slots and of every slot whose attempt is open."""
    altered: Mapping[Slot, str] = field(default_factory=dict)
    """Slots whose record in the ledger is not what its chain says, and why. Nothing is sent for them, and others go on."""
    receipts: Mapping[Slot, str] = field(default_factory=dict)
    """Slots that the ledger holds nothing about, and that the state store has a receipt for: when and by which run, without a full stop."""
    bodies: Mapping[Slot, Body | NoBody | NoTemplate] = field(default_factory=dict)
    endpoints: Mapping[Route, Endpoint] = field(default_factory=dict)
    check_ins: CheckIns | EvidenceUnreadable = field(default_factory=lambda: EvidenceUnreadable("no check-ins were read"))
    known_since: Mapping[str, datetime] = field(default_factory=dict)
    """By `rule_name`: when we first saw that this is owed. What closed before was never promised."""
    sightings: Mapping[Slot, str] = field(default_factory=dict)
    """What the providers said about messages in doubt: one sentence each, without its full stop."""
    standing: tuple[StandingApproval, ...] = ()
    declined: Mapping[Slot, str] = field(default_factory=dict)
    """Slots of plans that people declined, while that stands, and who: no standing approval sends them."""
    incomplete: str = ""
    """ "" or one sentence: while it stands, nothing may become a target."""
    doubt_before: datetime | None = None
    """When a person last accepted an older ledger, or a loss: what was due before then may have been sent by what is gone."""
    is_hypothetical: bool = False
    """Asked about another moment than now: shows what would be due, and is never a plan."""

    def accepted_since(self, owed: Owed) -> str:
        """ "" or, of what the ledger opens in doubt if nothing is reserved for it, the beginning of a sentence."""
        if self.doubt_before is None or owed.due_at >= self.doubt_before:
            return ""
        return (
            f"It was due before a copy of the ledger, or a loss, was accepted ({self.doubt_before:%Y-%m-%d %H:%M} UTC), and what is gone "
            "may have sent it"
        )

    @cached_property
    def owed_by_slot(self) -> Mapping[Slot, Owed]:
        return {one.slot: one for one in self.owed}

    @cached_property
    def strangers(self) -> tuple[str, ...]:
        """Keys of check-ins that are nobody's in the registry; none while the check-ins cannot be read."""
        return () if isinstance(self.check_ins, EvidenceUnreadable) else self.check_ins.strangers(self.registry.customers)


def rule_name(owed: Owed) -> str:
    """Under which its first sighting is remembered."""
    return f"{owed.customer.key}:{owed.kind.value}"

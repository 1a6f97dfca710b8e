"""The assets of one delivery watch, from the registry to what was sent.

    registry --> due_slots --> plan --> decision
    outbox   -/    ledger  -/     `---> sent

`due_slots` has one partition per day in the registry's default zone; a report writes those days whose slots have changed.
"""

from typing import Any, Final

import dagster as dg

from assets.delivery_days import FIRST_DAY, days_ahead
from assets.known_guards import DELIVERY, Names
from guards.delivery.registry_file import DEFAULT_ZONE
from resources.delivery.registry import RegistryFile
from resources.delivery.route import DeliveryRoute
from resources.errors import OpsGuardError

DESCRIPTIONS: Final = {
    "registry": "Who is owed which messages, when and by which route: the file that people edit. Its digest is part of every plan.",
    "outbox": "Bodies that upstream jobs put down for us. It is not ours: the lineage starts where the text does.",
    "due_slots": "Every message of one day, in the registry's zone: due, sent, in doubt, missed, and why.\n\n"
    "One partition per day; a day is written again when something about it has changed.",
    "ledger": "Every message that may have been sent, durably, so that none is sent twice: the head of the chain, numbers per state, "
    "and since when the oldest has been under way.",
    "plan": "Which messages are owed and not proven to have been sent, why, and what OpsGuard would send.\n\n"
    "Read *report*, then follow *approve*. Nothing is sent without an approval of exactly this plan, or a standing approval.",
    "decision": "The latest answer to a plan (a person's, or a standing approval's), and what came of it.",
    "sent": "Messages sent under an approved plan, each reserved before its one call, with what the provider answered.",
}


def delivery_names(route: DeliveryRoute) -> Names:
    return Names(DELIVERY, route.name)


def delivery_key(route: DeliveryRoute, thing: str) -> dg.AssetKey:
    return dg.AssetKey(delivery_names(route).path(thing))


def spec(route: DeliveryRoute, thing: str, *, deps: tuple[str, ...] = (), kinds: set[str], **more: Any) -> dg.AssetSpec:
    return dg.AssetSpec(
        delivery_key(route, thing),
        deps=[delivery_key(route, dep) for dep in deps],
        description=DESCRIPTIONS[thing],
        group_name=delivery_names(route).group,
        owners=list(route.owners),
        kinds=kinds,
        **more,
    )


def zone_of(route: DeliveryRoute) -> str:
    """The zone whose days the partitions are. The definitions must load with a registry that does not."""
    try:
        return RegistryFile(route.registry).read().zone
    except OpsGuardError:
        return DEFAULT_ZONE


def outside_specs(route: DeliveryRoute) -> list[dg.AssetSpec]:
    """What is not ours, what a report writes as it goes along, and the decision that people make: nodes without a button."""
    days = dg.DailyPartitionsDefinition(start_date=FIRST_DAY, timezone=zone_of(route), end_offset=1 + days_ahead(route.policy))
    return [
        spec(route, "outbox", kinds={"file"}),
        spec(route, "due_slots", deps=("registry", "outbox"), kinds={"python"}, partitions_def=days),
        spec(route, "decision", deps=("plan",), kinds={"python"}),
    ]

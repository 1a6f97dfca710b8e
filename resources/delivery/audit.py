"""Looking once more at what counts as sent: a provider that still shows the message confirms our row. One that does not proves nothing
(a program may have taken the file, a channel may have been cleared), so nothing follows from it."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from guards.delivery.entry import Reservation
from guards.delivery.message import message_of
from guards.delivery.refusal import LedgerRefused
from guards.delivery.registry import Provider
from guards.delivery.reservation import ReservationState
from guards.delivery.schedule import owed
from resources.delivery.asking import is_about, sightings, who_is_asked
from resources.delivery.ledger import holdings_of
from resources.delivery.recover import Recovered, Recovery
from resources.delivery.registry import RegistryFile
from resources.delivery.route import DeliveryRoute
from resources.errors import ConfigurationError
from resources.ledger.interface import Ledger
from resources.providers.interface import Found
from resources.providers.interface import Provider as Opened

logger = logging.getLogger(__name__)

MOST_AUDITED: Final = 50
"""Of each provider (of each webhook) per run. Hourly runs see 1,200 a day."""


def look_once_more(route: DeliveryRoute, ledger: Ledger, providers: Mapping[Provider, Opened]) -> tuple[Recovered, ...]:
    """What was delivered within the policy's look-back and is confirmed now, newest first. What is not confirmed is not named: it stays
    as it is. Never sends."""
    done: list[Recovered] = []
    asked = 0
    lately = (held for held in _delivered_lately(route, ledger) if _can_be_asked_about(held, providers))
    for held, provider, sighting in sightings(lately, providers, now=ledger.now, most=MOST_AUDITED):
        asked += 1
        if not isinstance(sighting, Found) or not is_about(held, sighting.receipt):
            continue
        audited = ledger.audit(held.reservation_id)
        if isinstance(audited, LedgerRefused):
            refused = f"seen once more, and not recorded ({audited.code}): {audited.message}"
            done.append(Recovered(held.slot, Recovery.REFUSED, refused))
        else:
            done.append(Recovered(held.slot, Recovery.AUDITED, f"{provider} still shows it"))
    if asked:
        logger.info(
            "%s: asked once more about %d sent messages, %d confirmed", route.name, asked, sum(one.changed for one in done)
        )
    return tuple(done)


def _can_be_asked_about(held: Reservation, providers: Mapping[Provider, Opened]) -> bool:
    pinned = message_of(held.pins)
    return pinned is not None and bool(who_is_asked(pinned, providers))


def _delivered_lately(route: DeliveryRoute, ledger: Ledger) -> list[Reservation]:
    """Newest first. Only of what the registry owes in that time: a whole ledger takes seconds to read."""
    try:
        registry = RegistryFile(route.registry).read()
    except ConfigurationError as error:
        logger.warning("%s: nothing is looked at once more: %s", route.name, error)
        return []
    now = ledger.now()
    since = now - timedelta(days=route.policy.look_back_days)
    slots = [one.slot for one in owed(registry, since=since, until=now)]
    lately = [
        held
        for held in holdings_of(ledger.latest(slots)).latest.values()
        if held.state is ReservationState.DELIVERED and held.changed_at >= since
    ]
    return sorted(lately, key=lambda held: (held.changed_at, held.slot), reverse=True)

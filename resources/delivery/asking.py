"""Asking providers about messages in doubt. Looking changes nothing anywhere; what they answer is evidence, or a note for a person."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final, assert_never

from guards.canonical import Json
from guards.delivery.entry import Reservation
from guards.delivery.message import PinnedMessage, message_of, provider_key
from guards.delivery.registry import Provider
from guards.delivery.slot import Slot
from resources.delivery.keeping import kept_alive
from resources.providers.interface import CannotTell, Found, Message, NotFound, Sighting
from resources.providers.interface import Provider as Opened
from resources.pulse import Pulse

logger = logging.getLogger(__name__)

MOST_ASKED: Final = 50
"""Of each provider (of each webhook) per look."""
LOOK_SECONDS: Final = 60.0
"""Nothing more is asked after that: a run that was approved has messages to send, and their windows close."""
ROUND: Final = timedelta(hours=1)
"""How often recovery looks."""
_GOLDEN: Final = (5**0.5 - 1) / 2
SLOW_SECONDS: Final = 2.0
"""Who could not tell after so long is not asked again in the same look: one that hangs takes 20 s every time."""
CLOCK_SLACK: Final = timedelta(minutes=10)
"""Between the ledger's clock and a provider's."""


def message_for(pinned: PinnedMessage) -> Message:
    return Message(destination=pinned.route.address, body=pinned.body, subject=pinned.subject, display=pinned.display)


def sighting_of(held: Reservation, providers: Mapping[Provider, Opened], *, now: datetime) -> Sighting:
    """Never raises for what a provider can do: what it does wrong proves nothing."""
    pinned = message_of(held.pins)
    if pinned is None:
        return CannotTell("its pins are not those of a message")
    provider = providers.get(pinned.route.provider)
    if provider is None:
        return CannotTell(f"the settings have no {pinned.route.provider} now")
    try:
        return provider.lookup(
            provider_key(held), message=message_for(pinned), since=held.opened_at - CLOCK_SLACK, until=now + CLOCK_SLACK
        )
    except Exception as error:
        logger.exception("looking for %s", held.slot.key)
        return CannotTell(f"looking failed with {type(error).__name__}")


def who_is_asked(pinned: PinnedMessage, providers: Mapping[Provider, Opened]) -> str:
    """ "" when nobody can be asked about it."""
    provider = providers.get(pinned.route.provider)
    name = provider.asks(message_for(pinned)) if provider is not None else ""
    return f"{pinned.route.provider}:{name}" if name else ""


def sightings(
    messages: Iterable[Reservation],
    providers: Mapping[Provider, Opened],
    *,
    now: Callable[[], datetime],
    most: int = MOST_ASKED,
    pulse: Pulse | None = None,
) -> Iterator[tuple[Reservation, Provider, Sighting]]:
    """Of those given, in their order, `most` at most of each who is asked. Whoever kept this waiting without a word is not asked again in
    the same look; neither what is left out for that counts, nor what nobody can be asked about. After `LOOK_SECONDS` nobody is. `pulse` is that of the run's lease, where
    it has one: it beats before every look-up and during it."""
    asked: Counter[str] = Counter()
    silent: set[str] = set()
    ends_at = monotonic() + LOOK_SECONDS
    for held in messages:
        pinned = message_of(held.pins)
        if pinned is None or (who := who_is_asked(pinned, providers)) in silent:
            continue
        if who and (asked[who] == most or monotonic() > ends_at):
            continue
        asked[who] += 1
        began = monotonic()
        if pulse is not None:
            pulse()
        with kept_alive(pulse):
            sighting = sighting_of(held, providers, now=now())
        if who and isinstance(sighting, CannotTell) and monotonic() - began > SLOW_SECONDS:
            silent.add(who)
        yield held, pinned.route.provider, sighting


def in_turn(doubtful: Sequence[Reservation], *, now: datetime) -> deque[Reservation]:
    """Beginning elsewhere in every round: else the ones behind the first that nothing is found of would never be asked about. However many
    a look gets to, the beginnings lie so that few rounds reach all: each falls into one of the largest gaps between those before."""
    number = (now - datetime.min.replace(tzinfo=UTC)) // ROUND
    turned = deque(doubtful)
    turned.rotate(-int(number * _GOLDEN % 1 * len(turned)))
    return turned


def ask_about(doubtful: Iterable[Reservation], providers: Mapping[Provider, Opened], *, now: datetime) -> dict[Slot, str]:
    """One sentence per message in doubt, without its full stop. Bounded; those not asked about are left out."""
    asked = sightings(doubtful, providers, now=lambda: now)
    return {held.slot: words(sighting, provider) for held, provider, sighting in asked}


def words(sighting: Sighting, provider: Provider) -> str:
    match sighting:
        case Found():
            return f"the {provider} provider holds it: recovery will settle it as sent"
        case NotFound(searched):
            return (
                f"{provider} was asked for its key and does not show it ({searched}), which does not prove that it never arrived"
            )
        case CannotTell(why):
            return f"the {provider} provider cannot tell: {why}"
        case _:
            assert_never(sighting)


def is_about(held: Reservation, said: Mapping[str, Json]) -> bool:
    """The receipt names no other key and no other body than this reservation's."""
    pinned = message_of(held.pins)
    if pinned is None or not said:
        return False
    ours = receipt_for(held, {})
    return all(said.get(name, ours[name]) == ours[name] for name in ("key", "body_sha256", "destination_sha256"))


def receipt_for(held: Reservation, said: Mapping[str, Json]) -> dict[str, Json]:
    """What the provider said, with the key and body that it is about: what `every_delivered_has_a_receipt` compares."""
    pinned = message_of(held.pins)
    assert pinned is not None  # it was sent from these pins
    return {
        **said,
        "key": provider_key(held),
        "provider": pinned.route.provider.value,
        "body_sha256": pinned.body_sha256,
        "destination_sha256": pinned.destination_sha256,
    }

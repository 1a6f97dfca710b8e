"""Which messages in doubt a look asks about."""

from datetime import datetime
from pathlib import Path

import pytest

from guards.delivery.registry import Provider, Route
from guards.delivery.reservation import ReservationState
from resources.delivery.asking import MOST_ASKED, ROUND, SLOW_SECONDS, in_turn, sightings
from resources.providers.chosen import open_providers
from resources.providers.interface import CannotTell, NotFound
from resources.providers.settings import ProviderSettings, WebhookEndpoint
from tests.unit.delivery.owing import NOW, customer, held, owed

pytestmark = pytest.mark.fast

FILES = Route(Provider.FILE, "acme")


@pytest.mark.parametrize("slow_seconds", [SLOW_SECONDS, -1])
def test_messages_that_nobody_can_be_asked_about_do_not_keep_others_from_being_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_seconds: float
) -> None:
    """Recovery asked about the first 50 in doubt, and all of them were of a provider that has no look-up: the one behind them stayed in
    doubt, while reports said that recovery would settle it."""
    monkeypatch.setattr("resources.delivery.asking.SLOW_SECONDS", slow_seconds)
    (tmp_path / "acme").mkdir()
    doubtful = [held(owed(customer(f"acme-{number}")), ReservationState.UNKNOWN) for number in range(MOST_ASKED)]
    behind = held(owed(customer("beta-1", route=FILES)), ReservationState.UNKNOWN)
    providers = open_providers(ProviderSettings(file_provider_dir=tmp_path))

    asked = list(sightings([*doubtful, behind], providers, now=lambda: NOW))

    assert [(one.slot, provider, type(said)) for one, provider, said in asked] == [
        *((one.slot, Provider.SLACK, CannotTell) for one in doubtful),
        (behind.slot, Provider.FILE, NotFound),
    ]


@pytest.mark.parametrize(("slow_seconds", "asked_again"), [(SLOW_SECONDS, True), (-1, False)])
def test_only_who_kept_a_look_waiting_is_not_asked_about_the_next_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_seconds: float, asked_again: bool
) -> None:
    """One message that a provider could not tell about, always the first of the look, kept all behind it in doubt for ever. Of two webhooks
    only the one that hangs is left alone."""
    monkeypatch.setattr("resources.delivery.asking.SLOW_SECONDS", slow_seconds)
    webhooks = {name: WebhookEndpoint("http://127.0.0.1:9/", lookup_url="http://127.0.0.1:9/") for name in ("one", "two")}
    webhooks["blind"] = WebhookEndpoint("http://127.0.0.1:9/")
    routes = [Route(Provider.WEBHOOK, name) for name in ("blind", "one", "one", "two")]
    doubtful = [held(owed(customer(f"acme-{n}", route=route)), ReservationState.UNKNOWN) for n, route in enumerate(routes)]
    providers = open_providers(ProviderSettings(webhooks=webhooks, file_provider_dir=tmp_path))

    asked = [one.slot for one, _, _ in sightings(doubtful, providers, now=lambda: NOW)]

    assert asked == [one.slot for n, one in enumerate(doubtful) if asked_again or n != 2]


def test_a_look_that_has_taken_its_time_asks_nobody_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel that takes ten seconds to read kept an approved run from sending for minutes; what nobody can be asked about is still said."""
    monkeypatch.setattr("resources.delivery.asking.LOOK_SECONDS", -1)
    slack = held(owed(customer("acme-1")), ReservationState.UNKNOWN)
    file = held(owed(customer("beta-1", route=FILES)), ReservationState.UNKNOWN)
    providers = open_providers(ProviderSettings(file_provider_dir=tmp_path))

    assert [one.slot for one, _, _ in sightings([file, slack], providers, now=lambda: NOW)] == [slack.slot]


def test_a_look_asks_about_a_bounded_number_of_messages(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    doubtful = [held(owed(customer(f"acme-{number}", route=FILES)), ReservationState.UNKNOWN) for number in range(MOST_ASKED + 1)]
    providers = open_providers(ProviderSettings(file_provider_dir=tmp_path))

    asked = [one.slot for one, _, _ in sightings(doubtful, providers, now=lambda: NOW)]

    assert asked == [one.slot for one in doubtful[:MOST_ASKED]]


@pytest.mark.parametrize("now", [NOW, NOW + 1_000 * ROUND, NOW.replace(year=2099)])
@pytest.mark.parametrize(("number", "most"), [(1, 50), (50, 6), (51, 50), (120, 50), (1_001, 50), (1_001, 3)])
def test_every_message_in_doubt_is_asked_about_in_its_turn(number: int, most: int, now: datetime) -> None:
    """The same first 50 were asked about for ever, and what the provider would have shown of the next was never settled."""
    doubtful = [held(owed(customer(f"acme-{number}", route=FILES)), ReservationState.UNKNOWN) for number in range(number)]
    looks = 2 * number // most + 2
    asked = [one for look in range(looks) for one in list(in_turn(doubtful, now=now + look * ROUND))[:most]]
    assert {one.slot for one in asked} == {one.slot for one in doubtful}

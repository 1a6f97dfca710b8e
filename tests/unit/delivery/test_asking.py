"""Which messages in doubt a look asks about."""

from pathlib import Path

import pytest

from guards.delivery.registry import Provider, Route
from guards.delivery.reservation import ReservationState
from resources.delivery.asking import MOST_ASKED, sightings
from resources.providers.chosen import open_providers
from resources.providers.interface import CannotTell, NotFound
from resources.providers.settings import ProviderSettings
from tests.unit.delivery.owing import NOW, customer, held, owed

pytestmark = pytest.mark.fast

FILES = Route(Provider.FILE, "acme")


def test_messages_of_a_provider_that_cannot_tell_do_not_keep_those_of_another_from_being_asked_about(tmp_path: Path) -> None:
    """Recovery asked about the first 50 in doubt, and all of them were of a provider that it does not ask twice: the one behind them stayed
    in doubt, while reports said that recovery would settle it."""
    (tmp_path / "acme").mkdir()
    doubtful = [held(owed(customer(f"acme-{number}")), ReservationState.UNKNOWN) for number in range(MOST_ASKED)]
    behind = held(owed(customer("beta-1", route=FILES)), ReservationState.UNKNOWN)
    providers = open_providers(ProviderSettings(file_provider_dir=tmp_path))

    asked = list(sightings([*doubtful, behind], providers, now=lambda: NOW))

    assert [(one.slot, provider, type(said)) for one, provider, said in asked] == [
        (doubtful[0].slot, Provider.SLACK, CannotTell),
        (behind.slot, Provider.FILE, NotFound),
    ]


def test_a_look_asks_about_a_bounded_number_of_messages(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    doubtful = [held(owed(customer(f"acme-{number}", route=FILES)), ReservationState.UNKNOWN) for number in range(MOST_ASKED + 1)]
    providers = open_providers(ProviderSettings(file_provider_dir=tmp_path))

    asked = [one.slot for one, _, _ in sightings(doubtful, providers, now=lambda: NOW)]

    assert asked == [one.slot for one in doubtful[:MOST_ASKED]]

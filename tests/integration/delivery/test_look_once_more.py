"""What counts as sent is looked at once more, and what its holder said too late still counts. Neither can make anything unsent."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from guards.canonical import Json
from guards.delivery.message import message_of, provider_key
from guards.delivery.outcome import delivered
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Provider
from guards.delivery.slot import Grant, Slot
from resources.delivery.ledger import open_ledger
from resources.delivery.observe import current_pins
from resources.delivery.recover import Recovery
from resources.delivery.steps import Moment, Step
from resources.ledger.interface import Ledger
from resources.providers.chosen import open_providers
from resources.providers.interface import CannotTell, Capabilities, Found, Message, Sighting
from resources.providers.settings import ProviderSettings, WebhookEndpoint
from tests.integration.delivery.test_send import with_bodies
from tests.integration.delivery.watch import DAILY, WEEKLY, Watch
from tests.patience import ended
from tests.servers.webhook import LyingWebhook, lying_webhook

Made = Callable[..., Watch]


# Once more


def test_what_the_provider_still_shows_is_audited_once_and_keeps_its_receipt(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.send()
    before = watch.held(key)
    assert before is not None

    done = watch.look_once_more()

    after = watch.held(key)
    assert after is not None
    assert [(one.slot.key, one.what) for one in done] == [(key, Recovery.AUDITED)]
    assert (after.state, after.receipt) == ("sent_audited", before.receipt)
    assert watch.verdicts()[key] == "sent"
    assert watch.look_once_more() == ()
    assert len(watch.sent_files()) == 1


def test_a_message_that_somebody_took_away_stays_sent(made: Made) -> None:
    """A consumer takes files as they come: that one is gone is how it should be."""
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.send()
    (taken,) = (watch.root / "sent").glob("*/*.json")
    taken.unlink()

    assert watch.look_once_more() == ()

    assert watch.state_of(key) == "delivered"
    assert watch.verdicts()[key] == "sent"
    assert watch.propose().targets == ()


class Watched:
    """The file provider of a watch, and how often it was asked. `says`: what it answers instead of the truth."""

    name = "file"

    def __init__(self, watch: Watch, *, asks: str = "file", says: Sighting | None = None) -> None:
        self._real = open_providers(watch.route.providers)[Provider.FILE]
        self._says = says
        self._asks = asks
        self.capabilities = Capabilities(refuses_duplicates=True, says="")
        self.asked: list[str] = []

    def writer(self, authorization: object, *, scope: str) -> object:
        raise AssertionError("looking sends nothing")

    def asks(self, message: Message) -> str:
        return self._asks

    def lookup(self, key: str, *, message: Message, **between: object) -> Sighting:
        self.asked.append(key)
        return self._says or self._real.lookup(key, message=message, **between)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "found", [Found({"key": "ab" * 16}), Found({"body_sha256": "00" * 32}), Found({}), CannotTell("the disk is away")]
)
def test_what_is_shown_under_another_key_or_with_another_body_confirms_nothing(made: Made, found: Sighting) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.send()

    assert watch.look_once_more({Provider.FILE: Watched(watch, says=found)}) == ()  # type: ignore[dict-item]

    assert watch.state_of(key) == "delivered"


def test_where_nobody_can_be_asked_nobody_is_and_who_keeps_a_look_waiting_only_once(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    watch.customer("beta-2", DAILY)
    with_bodies(watch)
    watch.send()
    blind, unsure, silent = (
        Watched(watch, asks="", says=CannotTell("there is no way")),
        Watched(watch, says=CannotTell("it has another body")),
        Watched(watch, says=CannotTell("it hangs for 20 s")),
    )

    watch.look_once_more({Provider.FILE: blind})  # type: ignore[dict-item]
    watch.look_once_more({Provider.FILE: unsure})  # type: ignore[dict-item]
    monkeypatch.setattr("resources.delivery.asking.SLOW_SECONDS", -1)
    watch.look_once_more({Provider.FILE: silent})  # type: ignore[dict-item]

    assert blind.asked == []
    assert len(unsure.asked) == 2
    assert len(silent.asked) == 1


def test_each_look_asks_about_a_bounded_number_newest_first(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.delivery.audit.MOST_AUDITED", 2)
    watch = made()
    for name in ("acme-1", "beta-2", "cargo-3"):
        watch.customer(name, DAILY)
    first, second, third = with_bodies(watch)
    watch.send()

    assert [one.slot.key for one in watch.look_once_more()] == [third, second]
    assert [one.slot.key for one in watch.look_once_more()] == [first]


def test_what_was_sent_before_the_look_back_is_left_alone(made: Made) -> None:
    """A week's message may be owed for days: a channel is not read for ever."""
    watch = made(policy=DeliveryPolicy(look_back_days=0))
    watch.customer("acme-1", WEEKLY)
    (key,) = with_bodies(watch)
    watch.send()

    assert watch.look_once_more() == ()

    assert watch.state_of(key) == "delivered"


def test_without_a_registry_nothing_is_looked_at_and_nothing_fails(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    watch.send()
    watch.route.registry.write_text("version: 2\n")

    assert watch.look_once_more() == ()


# Too late


def receipt_of(ledger: Ledger, grant: Grant, **changed: Json) -> dict[str, Json]:
    held = ledger.get(grant.reservation_id)
    assert held is not None
    pinned = message_of(held.pins)
    assert pinned is not None
    return {"provider": "webhook", "key": provider_key(held), "body_sha256": pinned.body_sha256, "status": 201, **changed}


def granted_and_ended(watch: Watch, key: str) -> Grant:
    """To a holder that is gone, whose attempt was ended as doubt."""
    slot = Slot(*key.split(":"))
    with open_ledger(watch.route, watch.state) as ledger:
        pins = current_pins(watch.route, watch.state, ledger, slot)
        assert pins is not None
        held = ledger.reserve(slot, pins, key="slow-run")
        grant = ledger.grant(held.reservation_id, holder="slow-run", ttl_seconds=0)  # type: ignore[union-attr]
        assert isinstance(grant, Grant)
    assert [one.what for one in watch.recover()] == [Recovery.EXPIRED, Recovery.IN_DOUBT]
    return grant


@pytest.fixture
def blind(made: Made) -> Iterator[Callable[[], tuple[Watch, LyingWebhook]]]:
    """A watch whose only provider keeps no record that could be asked."""
    with lying_webhook() as server:

        def one() -> tuple[Watch, LyingWebhook]:
            watch = made(providers=ProviderSettings(webhooks={"crm": WebhookEndpoint(url=f"{server.url}/in")}))
            watch.customer("acme-1", DAILY, route="{provider: webhook, webhook: crm}")
            return watch, server

        yield one


Blind = Callable[[], tuple[Watch, LyingWebhook]]


def test_a_receipt_that_came_too_late_settles_the_doubt_that_its_grant_left(blind: Blind) -> None:
    """The incident: a pod was paused for ten minutes, its receipt was kept beside the doubt, and a person had to read it there."""
    watch, _ = blind()
    (key,) = with_bodies(watch)
    grant = granted_and_ended(watch, key)
    with open_ledger(watch.route, watch.state) as ledger:
        receipt = receipt_of(ledger, grant)
        assert ledger.settle(grant, delivered(receipt)).code == "stale_grant"  # type: ignore[union-attr]

    done = watch.recover()

    held = watch.held(key)
    assert held is not None
    assert [one.what for one in done] == [Recovery.TOLD]
    assert (held.state, held.receipt) == ("resolved_sent", receipt)
    assert watch.verdicts()[key] == "sent"
    assert watch.recover() == ()
    assert watch.propose().targets == ()


@pytest.mark.parametrize("changed", [{"key": "ab" * 16}, {"body_sha256": "00" * 32}, {"key": None}])
def test_a_late_receipt_about_something_else_settles_nothing(blind: Blind, changed: dict[str, Json]) -> None:
    watch, _ = blind()
    (key,) = with_bodies(watch)
    grant = granted_and_ended(watch, key)
    with open_ledger(watch.route, watch.state) as ledger:
        ledger.settle(grant, delivered(receipt_of(ledger, grant, **changed)))

    assert [one.what for one in watch.recover()] == [Recovery.IN_DOUBT]

    assert watch.state_of(key) == "unknown"
    assert watch.verdicts()[key] == "in_doubt"


@pytest.mark.crash
@pytest.mark.parametrize("made", ["postgres"], indirect=True)
def test_a_run_that_was_stopped_after_its_call_settles_what_recovery_had_ended(blind: Blind) -> None:
    """Leases of the PostgreSQL ledger are times: a stopped process loses its own, and wakes up with an answer in its hands. It then lost
    the answer too: the run asked whether it still had its place before it told the ledger."""
    watch, server = blind()
    (key,) = with_bodies(watch)
    stored = watch.approved()

    def stop(step: Step, moment: Moment, _: str) -> None:
        if (step, moment) == (Step.CALL, Moment.AFTER):
            os.kill(os.getpid(), signal.SIGSTOP)

    child = watch.forked(lambda mine: mine.apply(stored, run_id="stopped", watcher=stop))
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    watch.time_passes()
    assert [one.what for one in watch.recover()] == [Recovery.EXPIRED, Recovery.IN_DOUBT]
    os.kill(child, signal.SIGCONT)
    ended(child)

    assert [one.what for one in watch.recover()] == [Recovery.TOLD]

    assert watch.state_of(key) == "resolved_sent"
    assert len(server.accepted) == 1

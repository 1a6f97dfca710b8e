"""Calls that outlast something: their window, the run's lease, the run's place. And keys: one per message, whoever else sends."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from guards.delivery.message import key_for, provider_key
from guards.delivery.outcome import Approval
from guards.delivery.refusal import LedgerRefused
from guards.delivery.registry import Provider
from guards.delivery.slot import Slot
from guards.gate import Authorization
from resources.delivery import send as sending
from resources.delivery.keeping import kept_alive
from resources.delivery.ledger import open_ledger
from resources.delivery.sent import Outcome
from resources.delivery.steps import Moment, Step, Watcher
from resources.ledger.file.store import FileLedger
from resources.providers.interface import Accepted, Answer, Capabilities, Message, NotFound, Sender, Sighting
from resources.providers.settings import ProviderSettings, WebhookEndpoint
from resources.pulse import Pulse
from resources.state import StateStore
from resources.state.errors import LeaseLost
from resources.state.ledger import PostgresLedger
from tests.integration.delivery.test_send import with_bodies
from tests.integration.delivery.watch import DAILY, REMINDER, Watch, watch
from tests.patience import PATIENCE_SECONDS
from tests.servers.webhook import lying_webhook

Made = Callable[..., Watch]


@dataclass
class Taking:
    """Takes everything, after `meanwhile`. A key that it knows is taken for the same message, as many endpoints do."""

    meanwhile: Callable[[], object] = lambda: None
    calls: list[str] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    while_looking: Callable[[], object] = lambda: None
    name: ClassVar[str] = "file"
    capabilities: ClassVar[Capabilities] = Capabilities(refuses_duplicates=True, says="")

    def writer(self, authorization: Authorization, *, scope: str) -> Sender:
        return Sender(self._send, authorization, scope=scope)

    def _send(self, message: Message, key: str) -> Answer:
        self.calls.append(key)
        self.held.setdefault(key, message.body)
        self.meanwhile()
        return Accepted({"provider": "file", "id": "proof-17"})

    def asks(self, message: Message) -> str:
        return self.name

    def lookup(self, key: str, *, message: Message, since: datetime, until: datetime) -> Sighting:
        self.while_looking()
        return NotFound("nothing")


def test_a_call_that_is_longer_than_the_lease_keeps_the_runs_place(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook may be waited for 300 s and a lease may be 15 s: another run took the place in the middle of the call."""
    monkeypatch.setattr("resources.pulse.HEARTBEAT_SECONDS", 0.05)
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    recovered: list[object] = []

    def longer_than_the_lease() -> None:
        for _ in range(3):
            watch.outlast_the_lease()
            recovered.extend(watch.recover())

    sent = watch.send(providers={Provider.FILE: Taking(longer_than_the_lease)})

    assert sent[key].outcome is Outcome.SENT
    assert recovered == []
    assert watch.state_of(key) == "delivered"
    assert len(watch.state.receipts(guard="delivery")) == 1


def test_a_look_up_that_is_longer_than_the_lease_keeps_the_runs_place(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook that hangs is waited for 20 s, and Slack 120: with one message in doubt every approved plan ended before it sent anything."""
    monkeypatch.setattr("resources.pulse.HEARTBEAT_SECONDS", 0.05)
    watch = made()
    watch.customer("acme-1", DAILY)
    (doubtful,) = with_bodies(watch)
    watch.killed_at(watch.approved(), Step.CALL, Moment.BEFORE)
    watch.recover()
    watch.customer("bolt-1", DAILY)
    key = doubtful.replace("acme-1", "bolt-1")
    watch.drop(key)
    outlasted: list[bool] = []

    def longer_than_the_lease() -> None:
        watch.outlast_the_lease()
        outlasted.append(True)

    sent = watch.send(providers={Provider.FILE: Taking(while_looking=longer_than_the_lease)})

    assert outlasted == [True]
    assert sent[key].outcome is Outcome.SENT


def test_what_the_provider_says_to_a_run_without_its_place_reaches_the_ledger_before_the_run_ends(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run raised before it had told: nothing stood against resolving the message as not sent, and sending it again."""
    monkeypatch.setattr(sending, "kept_alive", _not_kept_alive)
    watch = made()
    watch.approve_template()
    watch.customer("acme-1", REMINDER)
    stored = watch.approved()
    (key,) = [str(target["slot"]) for target in stored.targets]

    with pytest.raises(LeaseLost):
        watch.apply(stored, providers={Provider.FILE: Taking(lambda: _lose(watch))})

    held = watch.held(key)
    assert held is not None
    assert held.receipt.get("id") == "proof-17" or held.is_contradicted
    with open_ledger(watch.route, watch.state) as ledger:
        kim = Approval(0, "Kim", comment="they say no")
        no = ledger.resolve(held.reservation_id, was_sent=False, evidence={"asked": "them"}, approval=kim)
        assert isinstance(no, LedgerRefused)
        assert isinstance(ledger.replace(Slot(*key.split(":")), approval=kim, key="again"), LedgerRefused)


def _not_kept_alive(_pulse: object) -> AbstractContextManager[None]:
    return nullcontext()


def _lose(watch: Watch) -> None:
    """The lease has ended and, where the store may end the attempt of a process that lives, recovery has done it."""
    watch.time_passes()
    watch.recover()


def test_a_run_that_was_stopped_between_reserve_and_grant_sends_nothing_after_the_window(
    tmp_path: Path, state_store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = watch(tmp_path, state_store, "file")
    stopped.customer("acme-1", DAILY)
    (key,) = with_bodies(stopped)
    provider = Taking()

    sent = stopped.send(watcher=a_day_passes(monkeypatch, Step.EVIDENCE), providers={Provider.FILE: provider})

    assert sent[key].outcome is Outcome.CLOSED
    assert provider.calls == []
    assert stopped.state_of(key) == "prepared"
    assert [one.what.value for one in stopped.recover()] == ["lapsed"]
    assert stopped.verdicts()[key] == "missed"


def test_a_run_that_was_stopped_between_grant_and_call_sends_nothing_after_the_window(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message went out five seconds after the last moment that was approved."""
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    provider = Taking()

    sent = watch.send(watcher=a_day_passes(monkeypatch, Step.GRANT), providers={Provider.FILE: provider})

    assert sent[key].outcome is Outcome.CLOSED
    assert not sent[key].was_called
    assert "the provider was not called" in sent[key].message
    assert provider.calls == []
    assert watch.state_of(key) == "abandoned"
    assert watch.verdicts()[key] == "missed"


def a_day_passes(monkeypatch: pytest.MonkeyPatch, after: Step) -> Watcher:
    """By the ledger's clock, once this step is done."""

    def stop(step: Step, moment: Moment, _subject: str) -> None:
        if (step, moment) == (after, Moment.AFTER):
            tomorrow = datetime.now(UTC) + timedelta(days=1)
            for store in (FileLedger, PostgresLedger):
                monkeypatch.setattr(store, "now", lambda _: tomorrow)

    return stop


def test_a_run_that_loses_its_place_between_grant_and_call_says_that_nobody_was_called(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    provider = Taking()
    stored = watch.approved()

    def lose(step: Step, moment: Moment, _subject: str) -> None:
        if (step, moment) == (Step.GRANT, Moment.AFTER):
            watch.time_passes()

    with pytest.raises(LeaseLost):
        watch.apply(stored, watcher=lose, providers={Provider.FILE: provider})

    held = watch.held(key)
    assert held is not None
    assert provider.calls == []
    assert held.state.value == "abandoned"
    assert "the provider was not called, and nothing went out" in held.note
    assert "tell the customer by hand" in next(one.note for one in watch.report().plan.findings if one.subject == key)


def test_two_watches_with_one_customer_and_one_endpoint_deliver_both_messages(tmp_path: Path, state_store: StateStore) -> None:
    provider, keys = Taking(), []
    with lying_webhook() as server:
        for name in ("morning", "evening"):
            (tmp_path / name).mkdir()
            hook = WebhookEndpoint(url=server.url)
            one = watch(tmp_path / name, state_store, "file", providers=ProviderSettings(webhooks={"crm": hook}))
            one = replace(one, route=replace(one.route, name=name))
            one.customer("acme-1", DAILY, route="{provider: webhook, webhook: crm}")
            (key,) = with_bodies(one)
            one.drop(key, f"# From {name}\n\nHello\n")

            assert one.send(providers={Provider.WEBHOOK: provider})[key].outcome is Outcome.SENT

            held = one.held(key)
            assert held is not None
            assert provider_key(held) == key_for(name, held.reservation_id)
            keys.append(provider_key(held))
    assert [provider.held[key] for key in keys] == ["# From morning\n\nHello\n", "# From evening\n\nHello\n"]


def test_a_heartbeat_that_fails_during_a_call_does_not_end_the_call() -> None:
    """What was called cannot be taken back: the loss is told after the answer was."""
    beaten = threading.Event()

    def fail() -> None:
        beaten.set()
        raise LeaseLost("another run has the place")

    with kept_alive(Pulse(fail, lease_seconds=0.04)):
        assert beaten.wait(PATIENCE_SECONDS)


def test_heartbeats_end_with_the_call() -> None:
    beats, beaten = [], threading.Event()

    def beat() -> None:
        beats.append(1)
        beaten.set()

    with kept_alive(Pulse(beat, lease_seconds=0.04)):
        assert beaten.wait(PATIENCE_SECONDS)
        (thread,) = [one for one in threading.enumerate() if one.name == "heartbeats"]
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()

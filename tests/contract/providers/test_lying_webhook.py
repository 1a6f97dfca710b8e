"""A webhook that lies, with a real ledger around it. The oracle is the other side's own record, never our answer."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from guards.delivery.outcome import Approval
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState as S
from resources.ledger.memory import Kept, MemoryLedger
from resources.providers.interface import Accepted, Ambiguous, Answer, CannotTell, Found, Message, NotFound, Rejected
from resources.providers.settings import ProviderSettings, WebhookEndpoint
from tests.contract.providers.worlds import (
    BODY,
    EARLIER,
    KEY,
    LATER,
    Clock,
    World,
    attempted,
    fitting,
    granted,
    open_one,
    outcome_of,
    send,
    tried_again,
)
from tests.integration.test_slack_client import self_signed
from tests.patience import PATIENCE_SECONDS, until
from tests.servers.slack import CANARY
from tests.servers.webhook import Lie, LookUp, LyingWebhook, lying_webhook

KIM = Approval(0, "Kim")
TOLD: dict[Lie, type[Accepted] | type[Rejected] | type[Ambiguous]] = {
    Lie.NONE: Accepted,
    Lie.ACCEPT_THEN_DROP: Ambiguous,
    Lie.ACCEPT_THEN_RESET: Ambiguous,
    Lie.ACCEPT_TWICE: Accepted,
    Lie.REJECT: Rejected,
    Lie.REJECT_AFTER_ACCEPTING: Rejected,
    Lie.FAIL_AFTER_ACCEPTING: Ambiguous,
    Lie.CONFLICT_AFTER_ACCEPTING: Ambiguous,
    Lie.ANOTHER_KEY: Ambiguous,
    Lie.ANOTHER_KEY_IN_HEADER: Ambiguous,
    Lie.NEVER: Ambiguous,
    Lie.NEVER_AND_NOT_TAKEN: Ambiguous,
    Lie.LATE: Ambiguous,
    Lie.DRIP_HEAD: Ambiguous,
    Lie.DRIP_BODY: Ambiguous,
    Lie.GARBAGE: Ambiguous,
    Lie.REDIRECT: Ambiguous,
    Lie.CLOSE_AT_ONCE: Ambiguous,
    Lie.RESET_AT_ONCE: Ambiguous,
    Lie.CONTINUE_FOREVER: Ambiguous,
    Lie.CONTINUE_THEN_ACCEPT: Accepted,
    Lie.EARLY_HINTS_ONLY: Ambiguous,
    Lie.ENDLESS: Ambiguous,
    Lie.CUT_BODY: Ambiguous,
    Lie.PART: Ambiguous,
    Lie.NOT_OURS: Accepted,
}
"""What one exchange proves. `NOT_OURS` is why must_echo_key exists."""
SILENT = frozenset({Lie.NEVER, Lie.NEVER_AND_NOT_TAKEN, Lie.LATE, Lie.DRIP_HEAD, Lie.DRIP_BODY, Lie.CONTINUE_FOREVER})
"""Only these are not waited for: on a busy machine an honest answer may take longer than a second."""
STATE = {Accepted: S.DELIVERED, Rejected: S.KNOWN_FAILURE, Ambiguous: S.UNKNOWN}


def made_for(server: LyingWebhook, **setting: Any) -> World:
    seconds = 1 if server.lie in SILENT else PATIENCE_SECONDS
    endpoint = replace(WebhookEndpoint(server.url + "/in", token=SecretStr(CANARY), timeout_seconds=seconds), **setting)
    provider = open_one(ProviderSettings(webhooks={"acme": endpoint}))
    return World(provider, Message("acme", BODY), lambda: list(server.accepted), lambda: server.connections)


@contextmanager
def lying(lie: Lie, **setting: Any) -> Iterator[tuple[LyingWebhook, World]]:
    with lying_webhook(lie) as server:
        yield server, made_for(server, **setting)


@pytest.mark.parametrize("lie", list(Lie))
def test_every_lie_ends_in_the_state_that_it_proves_and_nothing_is_sent_again(lie: Lie) -> None:
    with lying(lie) as (server, made):
        ledger = MemoryLedger()
        told = attempted(ledger, made)
        if not (lie is Lie.RESET_AT_ONCE and isinstance(told.answer, Rejected)):  # a reset may be seen while still connecting
            assert type(told.answer) is TOLD[lie], told.answer
        held, grant = tried_again(ledger)
        assert held.state is STATE[type(told.answer)]  # type: ignore[union-attr]
        assert isinstance(grant, LedgerRefused)
        until(lambda: server.connections, "the call that was given up")
        assert server.posts <= 1
        assert server.connections == 1, "no second attempt behind our back"
        if isinstance(told.answer, Accepted):
            assert KEY in server.accepted
        if isinstance(told.answer, Rejected) and lie is not Lie.REJECT_AFTER_ACCEPTING:
            assert server.accepted == []


def test_a_refusal_that_the_look_up_contradicts_is_a_doubt() -> None:
    """A gateway that validates answers turned "202 accepted" into 422: the message was there and would have been allowed again."""
    with lying(Lie.REJECT_AFTER_ACCEPTING) as (server, made):
        endpoint = WebhookEndpoint(server.url + "/in", lookup_url=server.url + "/in")
        asked = replace(made, provider=open_one(ProviderSettings(webhooks={"acme": endpoint})))
        told = attempted(MemoryLedger(), asked)
        assert told.answer == Ambiguous("the webhook refused (http_422), and its look-up says that it has the message")
        assert server.accepted == [KEY]


def test_a_refusal_that_the_look_up_does_not_contradict_is_one() -> None:
    with lying(Lie.REJECT) as (server, made):
        endpoint = WebhookEndpoint(server.url + "/in", lookup_url=server.url + "/in")
        asked = replace(made, provider=open_one(ProviderSettings(webhooks={"acme": endpoint})))
        assert isinstance(attempted(MemoryLedger(), asked).answer, Rejected)


def test_an_endpoint_that_is_not_trusted_to_refuse_never_does() -> None:
    with lying(Lie.REJECT_AFTER_ACCEPTING, rejecting_statuses=frozenset()) as (_, made):
        assert isinstance(attempted(MemoryLedger(), made).answer, Ambiguous)


@pytest.mark.parametrize(("lie", "proves"), [(Lie.NONE, Accepted), (Lie.NOT_OURS, Ambiguous), (Lie.ANOTHER_KEY, Ambiguous)])
def test_an_acceptance_can_be_made_to_name_the_key(lie: Lie, proves: type) -> None:
    """A hotel's login page answers everything with 200."""
    with lying(lie, must_echo_key=True) as (_, made):
        assert isinstance(attempted(MemoryLedger(), made).answer, proves)


def test_an_answer_after_the_lease_ended_is_kept_as_late_evidence() -> None:
    """The receipt that came late is what keeps a person from resolving the doubt as not sent."""
    kept, clock = Kept(), Clock()
    sender, sensor = MemoryLedger(kept, clock=clock), MemoryLedger(kept, clock=clock)
    answers: list[Answer] = []
    with lying(Lie.LATE, timeout_seconds=PATIENCE_SECONDS) as (server, made):
        grant = granted(sender)
        calling = threading.Thread(target=lambda: answers.append(send(made.provider, made.message, key=KEY)))
        calling.start()
        assert server.has_taken.wait(PATIENCE_SECONDS)
        clock.pass_by(3600)
        assert not isinstance(sensor.expire(KEY), LedgerRefused)
        server.release.set()
        calling.join(PATIENCE_SECONDS)
    (answer,) = answers
    assert isinstance(answer, Accepted)
    refused = sender.settle(grant, outcome_of(answer))
    assert isinstance(refused, LedgerRefused)
    assert refused.code is LedgerCode.STALE_GRANT
    held = sensor.get(KEY)
    assert held is not None
    assert held.state is S.UNKNOWN
    assert [late["receipt"] for late in held.late] == [answer.receipt]
    not_sent = sensor.resolve(KEY, was_sent=False, evidence={"asked": "the customer"}, approval=KIM)
    assert isinstance(not_sent, LedgerRefused)
    assert not_sent.code is LedgerCode.RECEIPT_CONFLICT
    assert server.accepted == [KEY]


def test_a_closed_port_an_unknown_name_and_a_stranger_provably_take_nothing(tmp_path: Path) -> None:
    with lying_webhook(certificate=self_signed(tmp_path)) as server:
        closed = WebhookEndpoint("http://127.0.0.1:1/in")
        nowhere = WebhookEndpoint("https://webhook.invalid/in")
        plain = WebhookEndpoint(server.url.replace("https", "http"), timeout_seconds=1)
        unknown_authority = WebhookEndpoint(server.url)
        no_authority = WebhookEndpoint(server.url, ca_file=tmp_path / "missing.pem")
        codes = [
            attempted(MemoryLedger(), replace(made_for(server), provider=open_one(ProviderSettings(webhooks={"acme": each}))))
            for each in (closed, nowhere, unknown_authority, no_authority)
        ]
        assert [told.answer.code for told in codes if isinstance(told.answer, Rejected)] == [
            "unreachable",
            "unreachable",
            "untrusted_certificate",
            "bad_ca_file",
        ]
        to_tls = attempted(
            MemoryLedger(), replace(made_for(server), provider=open_one(ProviderSettings(webhooks={"acme": plain})))
        )
        assert isinstance(to_tls.answer, Ambiguous), "bytes went out, whoever read them"
        assert server.accepted == []


@pytest.mark.parametrize("others", [0, 1])
def test_an_address_of_a_kind_that_this_machine_has_not_took_nothing(monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    """A host with an IPv6 address, seen from a machine where IPv6 is switched off: "connection refused" became doubt."""
    with lying(Lie.NONE) as (server, made):
        there = socket.getaddrinfo("127.0.0.1", urlsplit(server.url).port, type=socket.SOCK_STREAM)
        foreign = (socket.AF_X25, socket.SOCK_STREAM, 0, "", ("::1", 1, 0, 0))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [foreign, *there][: others + 1])
        answer = attempted(MemoryLedger(), made).answer
        assert isinstance(answer, Accepted if others else Rejected), answer
        assert server.accepted == [KEY] * others


def test_a_server_whose_authority_is_given_is_trusted(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with lying_webhook(certificate=certificate) as server:
        told = attempted(MemoryLedger(), made_for(server, ca_file=certificate))
        assert isinstance(told.answer, Accepted), told.answer
        assert server.accepted == [KEY]
        by_another_name = WebhookEndpoint(server.url.replace("127.0.0.1", "localhost"), ca_file=certificate)
        other = send(open_one(ProviderSettings(webhooks={"acme": by_another_name})), Message("acme", BODY), key=KEY)
        assert isinstance(other, Rejected)
        assert other.code == "untrusted_certificate"


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token and the message would travel to whoever the environment names."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with lying(Lie.NONE) as (server, made):
        assert isinstance(attempted(MemoryLedger(), made).answer, Accepted)
        (request,) = server.requests
        assert request.headers["authorization"] == f"Bearer {CANARY}"


def test_a_call_ends_within_its_time_whatever_drips() -> None:
    """A peer that sends a byte every 20 ms never runs into a time-out per read."""
    with lying(Lie.DRIP_BODY) as (_, made):
        began = time.monotonic()
        answer = send(made.provider, made.message, key=KEY)
        took = time.monotonic() - began
    assert answer == Ambiguous("no whole answer came in 1 s")
    assert took < 600, "the answer would have taken 2,000 s"


@pytest.mark.parametrize("lie", [Lie.DRIP_HEAD, Lie.DRIP_BODY, Lie.CONTINUE_FOREVER, Lie.NEVER, Lie.ENDLESS])
def test_a_call_over_tls_ends_within_its_time_too(lie: Lie, tmp_path: Path) -> None:
    """TLS takes the socket over: what cuts the connection must not lose sight of it."""
    certificate = self_signed(tmp_path)

    def answer(seconds: float) -> Answer:
        with lying_webhook(lie, certificate=certificate) as server:
            return attempted(MemoryLedger(), made_for(server, ca_file=certificate, timeout_seconds=seconds)).answer

    told = fitting(answer)  # the handshake has to fit
    assert isinstance(told, Ambiguous), told


def test_a_server_that_never_shakes_hands_provably_took_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = WebhookEndpoint(f"https://127.0.0.1:{silent.getsockname()[1]}/", timeout_seconds=1)
        answer = send(open_one(ProviderSettings(webhooks={"acme": endpoint})), Message("acme", BODY), key=KEY)
    assert isinstance(answer, Rejected)
    assert answer.code == "tls_failed"


def test_the_receipt_says_what_the_other_side_calls_it() -> None:
    with lying(Lie.NONE) as (_, made):
        told = attempted(MemoryLedger(), made)
    assert isinstance(told.answer, Accepted)
    assert told.answer.receipt["request_id"] == "r-17"
    assert told.answer.receipt["status"] == 201


def sighting(look_up: LookUp, *, took: bool = True, **setting: Any) -> Found | NotFound | CannotTell:
    with lying_webhook(look_up=look_up) as server:
        made = made_for(server, lookup_url=server.url + "/in/{key}?by=key", **setting)
        if took:
            send(made.provider, made.message, key=KEY)
        return made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER)


@pytest.mark.parametrize("look_up", [each for each in LookUp if each not in (LookUp.HONEST, LookUp.NEVER)])
def test_a_look_up_that_is_not_plain_about_this_key_tells_nothing(look_up: LookUp) -> None:
    assert isinstance(sighting(look_up), CannotTell)


def test_a_look_up_that_never_answers_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.providers.webhook.LOOKUP_SECONDS", 1)
    assert sighting(LookUp.NEVER) == CannotTell("the look-up failed: no whole answer came in 1 s")


def test_a_look_up_finds_the_message_and_is_only_believed_about_absence_when_it_says_so() -> None:
    assert isinstance(sighting(LookUp.HONEST), Found)
    assert isinstance(sighting(LookUp.HONEST, took=False), CannotTell)
    assert isinstance(sighting(LookUp.HONEST, took=False, lookup_is_authoritative=True), NotFound)


def test_a_doubt_that_the_look_up_settles_is_reconciled_without_a_second_message() -> None:
    with lying_webhook(Lie.ACCEPT_THEN_DROP) as server:
        made = made_for(server, lookup_url=server.url + "/in")
        ledger = MemoryLedger()
        attempted(ledger, made)
        found = made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER)
        assert isinstance(found, Found)
        settled = ledger.reconcile(KEY, receipt=found.receipt)
        assert not isinstance(settled, LedgerRefused)
        assert settled.state is S.RESOLVED_SENT
        assert (server.accepted, server.posts) == ([KEY], 1)

"""The sandbox's receiver of webhooks as the sandbox runs it: a child process whose record outlives it and that answers by path."""

import http.client
import json
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opsguard_defs.sandbox.servers.webhook_receiver import WebhookReceiver
from resources.providers.interface import Accepted, Ambiguous, CannotTell, Found, Message, Rejected
from resources.providers.settings import WebhookEndpoint
from resources.providers.webhook import WebhookProvider
from tests.contract.providers.worlds import send
from tests.integration.receivers import command, get, port_when_ready
from tests.patience import PATIENCE_SECONDS, until

MODULE = "opsguard_defs.sandbox.servers.webhook_receiver"
KEY = "0123456789abcdef0123456789abcdef"
MESSAGE = Message("acme", "Good morning", subject="Morning")
EARLIER, LATER = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)


def provider(url: str, path: str, *, seconds: int = 20) -> WebhookProvider:
    return WebhookProvider({"acme": WebhookEndpoint(f"{url}{path}", lookup_url=f"{url}/accept", timeout_seconds=seconds)})


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    opened = WebhookReceiver().start()
    yield opened
    opened.close()


def test_what_was_accepted_is_still_there_after_a_restart(tmp_path: Path) -> None:
    for start in range(2):
        child = subprocess.Popen(command(MODULE, tmp_path))
        port = port_when_ready(tmp_path)
        message = Message("acme", "<script>alert(1)</script>")
        answer = send(provider(f"http://127.0.0.1:{port}", "/accept"), message, key=f"{start:032x}")
        assert isinstance(answer, Accepted)
        assert len(json.loads(get(port, "/messages")[1])) == start + 1
        assert "<script>" not in get(port, "/")[1]
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=PATIENCE_SECONDS) == 0
        (tmp_path / "ready").unlink()
    assert [json.loads(line)["key"] for line in (tmp_path / "log").read_text().splitlines()] == [f"{n:032x}" for n in range(2)]


@pytest.mark.parametrize(
    ("path", "seconds", "proves", "accepted"),
    [
        ("/accept", 60, Accepted, 1),
        ("/reject", 60, Rejected, 0),
        ("/die", 60, Ambiguous, 1),
        ("/slow?seconds=60", 3, Ambiguous, 1),
        ("/x", 60, Rejected, 0),
    ],
)
def test_each_path_behaves_as_it_is_called(
    receiver: WebhookReceiver, path: str, seconds: int, proves: type, accepted: int
) -> None:
    provided = provider(receiver.url, path, seconds=seconds)
    assert isinstance(send(provided, MESSAGE, key=KEY), proves)
    until(lambda: len(receiver.messages) >= accepted, "the message that was given up")
    assert [message["key"] for message in receiver.messages] == [KEY] * accepted
    sighting = provided.lookup(KEY, message=MESSAGE, since=EARLIER, until=LATER)
    assert isinstance(sighting, Found if accepted else CannotTell)


def test_a_slow_answer_that_is_waited_for_is_acceptance(receiver: WebhookReceiver) -> None:
    assert isinstance(send(provider(receiver.url, "/slow?seconds=0"), MESSAGE, key=KEY), Accepted)


def test_a_look_up_tells_another_body_apart(receiver: WebhookReceiver) -> None:
    provided = provider(receiver.url, "/accept")
    send(provided, MESSAGE, key=KEY)
    other = provided.lookup(KEY, message=Message("acme", "Good night"), since=EARLIER, until=LATER)
    assert other == CannotTell("the look-up has this key with another body: compare them by hand")


def test_pages_of_other_names_get_nothing(receiver: WebhookReceiver) -> None:
    """A name that somebody pointed at 127.0.0.1 must not read messages."""
    assert get(receiver.port, "/messages", host="evil.example")[0] == 403


def test_what_is_no_message_is_not_taken(receiver: WebhookReceiver) -> None:
    for headers, body in (({"Idempotency-Key": KEY}, b"not json"), ({}, b"{}"), ({"Idempotency-Key": "a b"}, b"{}")):
        connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=PATIENCE_SECONDS)
        connection.request("POST", "/accept", body, headers)
        assert connection.getresponse().status == 400
    assert receiver.messages == []

"""The sandbox's receiver of webhooks as the sandbox runs it: a child process whose record outlives it and that answers by path."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opsguard_defs.sandbox.servers.webhook_receiver import WebhookReceiver
from resources.providers.interface import Accepted, Ambiguous, CannotTell, Found, Message, Rejected
from resources.providers.settings import WebhookEndpoint
from resources.providers.webhook import WebhookProvider

MODULE = "opsguard_defs.sandbox.servers.webhook_receiver"
KEY = "0123456789abcdef0123456789abcdef"
MESSAGE = Message("acme", "Good morning", subject="Morning")
EARLIER, LATER = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)


def until(found: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def command(directory: Path) -> list[str]:
    files = ("--root", f"{directory}/root", "--ready", f"{directory}/ready", "--log", f"{directory}/log")
    return [sys.executable, "-m", MODULE, *files]


def get(port: int, path: str, *, host: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def provider(url: str, path: str, *, seconds: int = 20) -> WebhookProvider:
    return WebhookProvider({"acme": WebhookEndpoint(f"{url}{path}", lookup_url=f"{url}/accept", timeout_seconds=seconds)})


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    opened = WebhookReceiver().start()
    yield opened
    opened.close()


def test_what_was_accepted_is_still_there_after_a_restart(tmp_path: Path) -> None:
    for start in range(2):
        child = subprocess.Popen(command(tmp_path))
        until((tmp_path / "ready").exists, "the receiver never got ready")
        port = int((tmp_path / "ready").read_text())
        message = Message("acme", "<script>alert(1)</script>")
        answer = provider(f"http://127.0.0.1:{port}", "/accept").send(message, key=f"{start:032x}")
        assert isinstance(answer, Accepted)
        assert len(json.loads(get(port, "/messages")[1])) == start + 1
        assert "<script>" not in get(port, "/")[1]
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=20) == 0
        (tmp_path / "ready").unlink()
    assert [json.loads(line)["key"] for line in (tmp_path / "log").read_text().splitlines()] == [f"{n:032x}" for n in range(2)]


@pytest.mark.crash
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_the_receiver_dies_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command(tmp_path)], env=os.environ
    )
    until((tmp_path / "ready").exists, "the receiver never got ready")
    port = int((tmp_path / "ready").read_text())
    parent.kill()
    parent.wait()

    def is_gone() -> bool:
        try:
            get(port, "/messages")
        except OSError:
            return True
        return False

    until(is_gone, "the receiver outlived its parent")


@pytest.mark.parametrize(
    ("path", "proves", "accepted"),
    [
        ("/accept", Accepted, 1),
        ("/reject", Rejected, 0),
        ("/die", Ambiguous, 1),
        ("/slow?seconds=60", Ambiguous, 1),
        ("/x", Rejected, 0),
    ],
)
def test_each_path_behaves_as_it_is_called(receiver: WebhookReceiver, path: str, proves: type, accepted: int) -> None:
    provided = provider(receiver.url, path, seconds=1)
    assert isinstance(provided.send(MESSAGE, key=KEY), proves)
    assert [message["key"] for message in receiver.messages] == [KEY] * accepted
    sighting = provided.lookup(KEY, message=MESSAGE, since=EARLIER, until=LATER)
    assert isinstance(sighting, Found if accepted else CannotTell)


def test_a_slow_answer_that_is_waited_for_is_acceptance(receiver: WebhookReceiver) -> None:
    assert isinstance(provider(receiver.url, "/slow?seconds=0").send(MESSAGE, key=KEY), Accepted)


def test_a_look_up_tells_another_body_apart(receiver: WebhookReceiver) -> None:
    provided = provider(receiver.url, "/accept")
    provided.send(MESSAGE, key=KEY)
    other = provided.lookup(KEY, message=Message("acme", "Good night"), since=EARLIER, until=LATER)
    assert other == CannotTell("the look-up has this key with another body: compare them by hand")


def test_pages_of_other_names_get_nothing(receiver: WebhookReceiver) -> None:
    """A name that somebody pointed at 127.0.0.1 must not read messages."""
    assert get(receiver.port, "/messages", host="evil.example")[0] == 403


def test_what_is_no_message_is_not_taken(receiver: WebhookReceiver) -> None:
    for headers, body in (({"Idempotency-Key": KEY}, b"not json"), ({}, b"{}"), ({"Idempotency-Key": "a b"}, b"{}")):
        connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)
        connection.request("POST", "/accept", body, headers)
        assert connection.getresponse().status == 400
    assert receiver.messages == []

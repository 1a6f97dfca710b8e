"""The sandbox's Slack as the sandbox runs it: a child process that dies with its parent and shows messages as words."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opsguard_defs.sandbox.servers.slack_sink import SlackSink
from resources.slack.client import SlackResource
from resources.slack.message import alert

MODULE = "opsguard_defs.sandbox.servers.slack_sink"


def until(found: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def command(tmp_path: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        MODULE,
        "--root",
        f"{tmp_path}/root",
        "--ready",
        f"{tmp_path}/ready",
        "--log",
        f"{tmp_path}/log",
    ]


def get(port: int, path: str, *, host: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def post(port: int, path: str, body: object, *, kind: str = "application/json") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", path, json.dumps(body), {"Content-Type": kind})
    return connection.getresponse().status


def test_the_child_takes_a_message_keeps_it_and_ends_on_a_signal(tmp_path: Path) -> None:
    for start in range(2):
        child = subprocess.Popen(command(tmp_path))
        until((tmp_path / "ready").exists, "the sink never got ready")
        port = int((tmp_path / "ready").read_text())
        slack = SlackResource(token="any", channel="#ops", base_url=f"http://127.0.0.1:{port}/api/")
        slack.post(alert(key=f"k{start}", event_type="opsguard_gaps", title="<b>t</b>", sentence="<script>alert(1)</script>"))
        assert len(json.loads(get(port, "/messages")[1])) == start + 1, "messages of the last start are still there"
        page = get(port, "/")[1]
        assert "<script>" not in page
        assert "<b>" not in page
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=20) == 0
        (tmp_path / "ready").unlink()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["body"]["metadata"]["event_payload"]["key"] for line in lines] == ["k0", "k1"]
    assert all("any" not in json.dumps(line) for line in lines)


@pytest.mark.crash
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_the_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command(tmp_path)], env=os.environ
    )
    until((tmp_path / "ready").exists, "the sink never got ready")
    port = int((tmp_path / "ready").read_text())
    parent.kill()
    parent.wait()

    def is_gone() -> bool:
        try:
            get(port, "/messages")
        except OSError:
            return True
        return False

    until(is_gone, "the sink outlived its parent")


def test_pages_of_other_names_get_nothing(slack_sink: SlackSink) -> None:
    """A name that somebody pointed at 127.0.0.1 must not read alerts, nor a form on another page prepare answers."""
    assert get(slack_sink.port, "/messages", host="evil.example")[0] == 403
    assert post(slack_sink.port, "/_next", {"drop": "after"}, kind="text/plain") == 400
    assert not slack_sink.next


def test_misbehaviour_is_asked_for_over_http(slack_sink: SlackSink, slack: SlackResource) -> None:
    assert post(slack_sink.port, "/_next", [{"status": 429, "headers": {"Retry-After": "1"}, "body": "{}"}]) == 200
    message = alert(key="k", event_type="opsguard_gaps", title="t", sentence="s")
    assert type(slack.post(message)).__name__ == "Rejected"
    assert type(slack.post(message)).__name__ == "Posted"


@pytest.mark.parametrize("path", ["/nothing", "/api"])
def test_unknown_pages_are_404(slack_sink: SlackSink, path: str) -> None:
    assert get(slack_sink.port, path)[0] == 404


def test_without_a_token_the_web_api_takes_nothing(slack_sink: SlackSink) -> None:
    assert post(slack_sink.port, "/api/chat.postMessage", {"channel": "#ops", "text": "x"}) == 200
    assert slack_sink.messages == []

"""The sandbox's Slack as the sandbox runs it: a child process that dies with its parent and shows messages as words."""

import http.client
import json
import signal
import subprocess
from pathlib import Path

import pytest

from opsguard_defs.sandbox.servers.slack_sink import SlackSink
from resources.slack.client import SlackResource
from resources.slack.message import alert
from tests.integration.receivers import command, get, port_when_ready
from tests.patience import PATIENCE_SECONDS

MODULE = "opsguard_defs.sandbox.servers.slack_sink"


def post(port: int, path: str, body: object, *, kind: str = "application/json") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    connection.request("POST", path, json.dumps(body), {"Content-Type": kind})
    return connection.getresponse().status


def test_the_child_takes_a_message_keeps_it_and_ends_on_a_signal(tmp_path: Path) -> None:
    for start in range(2):
        child = subprocess.Popen(command(MODULE, tmp_path))
        port = port_when_ready(tmp_path)
        slack = SlackResource(token="any", channel="#ops", base_url=f"http://127.0.0.1:{port}/api/")
        slack.post(alert(key=f"k{start}", event_type="opsguard_gaps", title="<b>t</b>", sentence="<script>alert(1)</script>"))
        assert len(json.loads(get(port, "/messages")[1])) == start + 1, "messages of the last start are still there"
        page = get(port, "/")[1]
        assert "<script>" not in page
        assert "<b>" not in page
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=PATIENCE_SECONDS) == 0
        (tmp_path / "ready").unlink()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["body"]["metadata"]["event_payload"]["key"] for line in lines] == ["k0", "k1"]
    assert all("any" not in json.dumps(line) for line in lines)


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

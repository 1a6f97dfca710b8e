"""The client against the sink: what each answer proves, and what a look-up can say."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from opsguard_defs.sandbox.servers.slack_sink import SlackSink
from resources.slack.answer import Absent, Ambiguous, Posted, Rejected
from resources.slack.client import SlackResource
from resources.slack.message import alert
from tests.patience import PATIENCE_SECONDS
from tests.servers.slack import CANARY

MESSAGE = alert(key="k", event_type="opsguard_gaps", title="t", sentence="s")
EARLIER = datetime.now(UTC) - timedelta(hours=1)


@pytest.mark.parametrize(
    ("answer", "proves"),
    [
        ({"drop": "after"}, Ambiguous("no answer came (RemoteDisconnected)")),
        ({"drop": "before"}, Ambiguous("no answer came (RemoteDisconnected)")),
        (
            {"status": 429, "headers": {"Retry-After": "7"}, "body": '{"ok": false, "error": "ratelimited"}'},
            Rejected("ratelimited", 7),
        ),
        ({"status": 429, "headers": {"Retry-After": "999999"}, "body": "{}"}, Rejected("ratelimited", 3600)),
        ({"status": 429, "headers": {"Retry-After": "soon"}, "body": "{}"}, Rejected("ratelimited")),
        ({"status": 503, "body": "down"}, Rejected("service_unavailable")),
        ({"status": 502, "body": "<html>"}, Ambiguous("Slack answered http_502")),
        ({"status": 200, "body": '{"ok": false, "error": "fatal_error"}'}, Ambiguous("Slack answered fatal_error")),
        ({"status": 200, "body": '{"ok": false, "error": "invalid_auth"}'}, Rejected("invalid_auth")),
        ({"status": 200, "body": "<html>portal"}, Ambiguous("Slack answered http_200")),
        ({"status": 407, "body": "who are you"}, Rejected("http_407")),
    ],
)
def test_every_answer_of_the_web_api_proves_something(
    answer: dict[str, object], proves: object, slack: SlackResource, slack_sink: SlackSink
) -> None:
    slack_sink.next.append(answer)
    assert slack.post(MESSAGE) == proves


@pytest.mark.parametrize(
    ("answer", "proves"),
    [
        ({}, Posted("")),
        ({"drop": "after"}, Ambiguous("no answer came (RemoteDisconnected)")),
        ({"status": 404, "body": "no_service"}, Rejected("no_service")),
        ({"status": 429, "headers": {"retry-after": "3"}, "body": "x"}, Rejected("ratelimited", 3)),
        ({"status": 500, "body": "rollup_error"}, Ambiguous("Slack answered rollup_error")),
        ({"status": 200, "body": "hello"}, Ambiguous("the webhook answered 200 without ok")),
    ],
)
def test_every_answer_of_a_webhook_proves_something(
    answer: dict[str, object], proves: object, webhook: SlackResource, slack_sink: SlackSink
) -> None:
    if answer:
        slack_sink.next.append(answer)
    assert webhook.post(MESSAGE) == proves


def test_a_closed_port_provably_took_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        slack = SlackResource(token=CANARY, channel="#ops", base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/api/")
        assert slack.post(MESSAGE) == Rejected("unreachable")
        assert slack.find(event_type="e", key="k", oldest=EARLIER) == Ambiguous("the look-up failed (URLError)")


def test_a_name_that_does_not_resolve_provably_took_nothing() -> None:
    assert SlackResource(token=CANARY, channel="#ops", base_url="http://slack.invalid/api/").post(MESSAGE) == Rejected(
        "unreachable"
    )


def test_an_answer_that_never_comes_is_a_doubt(slack_sink: SlackSink) -> None:
    slack = SlackResource(token=CANARY, channel="#ops", base_url=f"{slack_sink.url}/api/", timeout_seconds=1)
    slack_sink.next.append({"hang": True})
    assert slack.post(MESSAGE) == Ambiguous("no answer came (TimeoutError)")


def test_without_destination_nothing_is_contacted() -> None:
    assert SlackResource().destination == "log"
    assert SlackResource(token=CANARY).destination == "log", "a token without a channel has nowhere to post"
    assert SlackResource().post(MESSAGE) == Rejected("no_destination")


def test_the_sandboxes_messages_do_not_leave_by_a_proxy(monkeypatch: pytest.MonkeyPatch, slack_sink: SlackSink) -> None:
    """slack_sdk takes HTTP_PROXY whatever NO_PROXY says: the token would have travelled to the proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:9")
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    slack = SlackResource(token=CANARY, channel="#ops", base_url=f"{slack_sink.url}/api/", timeout_seconds=PATIENCE_SECONDS)
    hook = SlackResource(webhook=f"{slack_sink.url}/services/a/b/c", timeout_seconds=PATIENCE_SECONDS)
    assert isinstance(slack.post(MESSAGE), Posted)
    assert hook.post(MESSAGE) == Posted("")


def test_a_look_up_finds_by_type_and_key_and_not_by_words(slack: SlackResource, slack_sink: SlackSink) -> None:
    posted = slack.post(MESSAGE)
    assert slack.find(event_type="opsguard_gaps", key="k", oldest=EARLIER) == posted
    assert slack.find(event_type="opsguard_gaps", key="other", oldest=EARLIER) == Absent()
    assert slack.find(event_type="opsguard_run_failed", key="k", oldest=EARLIER) == Absent()
    assert slack.find(event_type="opsguard_gaps", key="k", oldest=datetime.now(UTC) + timedelta(hours=1)) == Absent()
    by_id = SlackResource(token=CANARY, channel="CDATAHANDOFFS", base_url=f"{slack_sink.url}/api/")
    assert by_id.find(event_type="opsguard_gaps", key="k", oldest=EARLIER) == posted


def test_a_look_up_that_is_not_permitted_says_why(slack: SlackResource, webhook: SlackResource, slack_sink: SlackSink) -> None:
    assert slack.find(event_type="e", key="k", oldest=EARLIER) == Ambiguous("the token does not see the channel")
    assert webhook.find(event_type="e", key="k", oldest=EARLIER) == Ambiguous("a webhook cannot look anything up")
    slack_sink.refused_methods["conversations.list"] = "missing_scope"
    assert slack.find(event_type="e", key="k", oldest=EARLIER) == Ambiguous("the token may not look it up (missing_scope)")


def test_a_channel_of_many_pages_is_read_to_its_end_or_not_believed(slack: SlackResource, slack_sink: SlackSink) -> None:
    posted = slack.post(MESSAGE)
    for number in range(7):
        slack.post(alert(key=f"later{number}", event_type="opsguard_gaps", title="t", sentence="s"))
    slack_sink.page_size = 2
    assert slack.find(event_type="opsguard_gaps", key="k", oldest=EARLIER) == posted
    slack_sink.page_size = 0
    assert slack.find(event_type="opsguard_gaps", key="k", oldest=EARLIER) == Ambiguous("too many messages since then")


@pytest.fixture
def refusing_proxy() -> Iterator[int]:
    class Refuses(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_a_proxy_that_refuses_provably_took_nothing(monkeypatch: pytest.MonkeyPatch, refusing_proxy: int) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{refusing_proxy}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    slack = SlackResource(token=CANARY, channel="#ops", base_url="https://slack.invalid/api/")
    assert slack.post(MESSAGE) == Rejected("proxy_refused")


def test_a_server_with_a_certificate_nobody_vouches_for_gets_nothing(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    sink = SlackSink()
    sink.wrap(context)
    sink.start()
    try:
        slack = SlackResource(token=CANARY, channel="#ops", base_url=f"https://127.0.0.1:{sink.port}/api/")
        assert slack.post(MESSAGE) == Rejected("untrusted_certificate")
        assert sink.messages == []
    finally:
        sink.close()


def self_signed(directory: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / "server.pem"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    path.write_bytes(pem)
    return path

"""Settings of providers: what is unsafe or makes no sense cannot be made, and no sentence or repr repeats a secret."""

from typing import Any

import pytest
from pydantic import SecretStr

from resources.providers.settings import ProviderSettings, SlackEndpoint, SmtpEndpoint, WebhookEndpoint

pytestmark = pytest.mark.fast

SECRET = "canary-3f1b"


@pytest.mark.parametrize(
    ("url", "setting", "says"),
    [
        ("ftp://a.example/", {}, "http://host/"),
        ("https:///path", {}, "http://host/"),
        ("https://a.example:0/", {}, "http://host/"),
        ("https://a.example:99999/", {}, "cannot be read"),
        ("https://[::1/", {}, "cannot be read"),
        (f"https://u:{SECRET}@a.example/", {}, "user or password"),
        ("https://a.example/#x", {}, "fragment"),
        ("https://a.example/a b", {}, "printable ASCII"),
        ("https://a.example/\r\nX: y", {}, "printable ASCII"),
        ("", {}, "printable ASCII"),
        (f"http://a.example/{SECRET}", {}, "allow_cleartext"),
        ("https://a.example/", {"lookup_url": "http://a.example/"}, "lookup_url"),
        ("https://a.example/", {"token": SecretStr(f"{SECRET}\r\nX: y")}, "token"),
        ("https://a.example/", {"token": SecretStr(f"{SECRET} \N{SNOWMAN}")}, "token"),
        ("https://a.example/", {"timeout_seconds": 0}, "timeout_seconds"),
        ("https://a.example/", {"timeout_seconds": 301}, "timeout_seconds"),
        ("https://a.example/", {"rejecting_statuses": frozenset({200})}, "rejecting_statuses"),
    ],
)
def test_a_webhook_that_is_unsafe_or_senseless_is_refused(url: str, setting: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        WebhookEndpoint(url, **setting)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"host": "a.example:25"}, "host"),
        ({"host": "smtp://a.example"}, "host"),
        ({"sender": "Ops <ops@a.example>"}, "sender"),
        ({"sender": "ops@a.example\r\nBcc: x@b.example"}, "sender"),
        ({"port": 70000}, "port"),
        ({"tls": "maybe"}, "tls"),
        ({"tls": "none"}, "allow_cleartext"),
        ({"tls": "none", "allow_cleartext": True, "user": "u", "password": SecretStr(SECRET)}, "password is never sent"),
        ({"user": "u"}, "belong together"),
        ({"password": SecretStr(SECRET)}, "belong together"),
        ({"user": "u\r\n", "password": SecretStr(SECRET)}, "user"),
        ({"message_id_domain": "a b"}, "message_id_domain"),
        ({"timeout_seconds": 301}, "timeout_seconds"),
    ],
)
def test_a_mail_server_that_is_unsafe_or_senseless_is_refused(setting: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        SmtpEndpoint(**{"host": "a.example", "sender": "ops@a.example", **setting})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"token": SecretStr("")}, "token"),
        ({"token": SecretStr(f"{SECRET}\n")}, "token"),
        ({"base_url": "https://slack.com/api"}, "slash"),
        ({"base_url": "http://slack.com/api/"}, "http"),
        ({"timeout_seconds": 121}, "timeout_seconds"),
    ],
)
def test_a_slack_that_is_unsafe_or_senseless_is_refused(setting: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        SlackEndpoint(**{"token": SecretStr(SECRET), **setting})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", ["", "Acme", "../x", "a b", "a" * 65])
def test_a_webhooks_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        ProviderSettings(webhooks={name: WebhookEndpoint("https://a.example/")})


def test_no_secret_is_in_a_repr() -> None:
    """A webhook's address often is its password."""
    settings = ProviderSettings(
        webhooks={"a": WebhookEndpoint(f"https://a.example/{SECRET}", f"https://a.example/{SECRET}", SecretStr(SECRET))},
        smtp=SmtpEndpoint("a.example", "ops@a.example", user="u", password=SecretStr(SECRET)),
        slack=SlackEndpoint(SecretStr(SECRET)),
    )
    assert SECRET not in repr(settings)


def test_ports_and_domains_that_are_not_given_are_the_usual_ones() -> None:
    assert [SmtpEndpoint("localhost", "o@a.example", tls=tls).usual_port for tls in ("implicit", "starttls", "none")] == [
        465,
        587,
        25,
    ]
    assert SmtpEndpoint("a.example", "o@b.example").domain == "b.example"

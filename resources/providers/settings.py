"""Which providers there are and how each is reached: frozen values. Everything here was checked, or it was not made: `ValueError`.

Secrets are `SecretStr`; addresses that may hold one (a webhook's path often is its password) are left out of `repr`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from guards.delivery.registry import Provider
from guards.delivery.registry_fields import ADDRESSES
from resources.providers.patience import LONGEST_SECONDS, SLACK_SECONDS, SMTP_SECONDS, WEBHOOK_SECONDS

REJECTING_STATUSES: Final = frozenset({400, 401, 403, 404, 405, 410, 413, 415, 422})
"""Answers that an endpoint gives instead of taking a message. Left out, since each is also said after the message was passed on or
taken: 408 and 5xx (by what stands before it), 409 (a key that was used), 425 and 429 (by some that queue). See docs/providers.md."""
_NO_SECRET: Final = SecretStr("")
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def is_address(provider: Provider, address: str) -> bool:
    """The registry's own grammar of a route's address: what it refuses there is not sent to from anywhere."""
    return ADDRESSES[provider].form.fullmatch(address) is not None


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """An HTTP(S) address that takes one POST per message."""

    url: str = field(repr=False)
    lookup_url: str = field(default="", repr=False)
    """With `{key}` in it, or the key is appended as the last part of the path. "" when the endpoint cannot be asked."""
    token: SecretStr = _NO_SECRET
    """Sent as `Authorization: Bearer`."""
    timeout_seconds: int = WEBHOOK_SECONDS
    """All of one call."""
    rejecting_statuses: frozenset[int] = REJECTING_STATUSES
    """Answers that prove it was not taken. Empty: nothing does."""
    must_echo_key: bool = False
    """Accepted counts only when the answer names the key."""
    lookup_is_authoritative: bool = False
    """A 404 of the look-up means "was never taken", not "not known here (yet)"."""
    ca_file: Path | None = None
    allow_cleartext: bool = False
    """Allow http:// to another machine: token and message travel readable by anybody between."""

    def __post_init__(self) -> None:
        for name, url in (("url", self.url), ("lookup_url", self.lookup_url)):
            if url or name == "url":
                _check_url(url, name, allow_cleartext=self.allow_cleartext)
        _check_seconds(self.timeout_seconds)
        if not all(300 <= status <= 599 for status in self.rejecting_statuses):
            raise ValueError("rejecting_statuses are HTTP statuses from 300 to 599: a 2xx cannot prove that nothing was taken")
        if not re.fullmatch(r"[!-~]*", self.token.get_secret_value()):
            raise ValueError("a webhook's token is printable ASCII without blanks")


@dataclass(frozen=True, slots=True)
class SmtpEndpoint:
    """A mail server that takes messages for others (a submission service, a relay)."""

    host: str
    sender: str
    """The address in From and in the envelope."""
    tls: Literal["implicit", "starttls", "none"] = "implicit"
    port: int = 0
    """0: 465, 587 or 25, by `tls`."""
    user: str = ""
    password: SecretStr = _NO_SECRET
    message_id_domain: str = ""
    """The right side of every Message-ID; "" takes the sender's."""
    timeout_seconds: int = SMTP_SECONDS
    """All of one mail."""
    ca_file: Path | None = None
    allow_cleartext: bool = False

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host):
            raise ValueError("smtp host is a host name or an address, without scheme, port or user")
        if self.tls not in ("implicit", "starttls", "none"):
            raise ValueError('smtp tls is "implicit" (port 465), "starttls" (587) or "none"')
        if not 0 <= self.port <= 65535:
            raise ValueError("smtp port is 1 to 65535, or 0 for the usual one")
        if not is_address(Provider.SMTP, self.sender):
            raise ValueError("smtp sender is one plain mail address: name@example.com")
        if self.message_id_domain and not is_address(Provider.SMTP, f"id@{self.message_id_domain}"):
            raise ValueError("smtp message_id_domain is a domain name")
        if self.tls == "none" and not (self.allow_cleartext or self.host in _LOOPBACK):
            raise ValueError(
                'smtp tls = "none" lets anybody between read every message: set allow_cleartext = true to accept that'
            )
        if self.tls == "none" and self.password.get_secret_value():
            raise ValueError(
                'a password is never sent without TLS: set smtp tls = "starttls" or "implicit", or remove the password'
            )
        if bool(self.user) != bool(self.password.get_secret_value()):
            raise ValueError("smtp user and password belong together: give both or neither")
        if not self.user.isprintable():
            raise ValueError("smtp user is printable")
        _check_seconds(self.timeout_seconds)

    @property
    def usual_port(self) -> int:
        return self.port or {"implicit": 465, "starttls": 587, "none": 25}[self.tls]

    @property
    def domain(self) -> str:
        return self.message_id_domain or self.sender.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class SlackEndpoint:
    """A bot that may post (chat:write) and, for look-ups, read the channel (channels:history or groups:history)."""

    token: SecretStr
    base_url: str = "https://slack.com/api/"
    timeout_seconds: int = SLACK_SECONDS

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[!-~]+", self.token.get_secret_value()):
            raise ValueError("a Slack token is printable ASCII without blanks, and not empty")
        _check_url(self.base_url, "base_url", allow_cleartext=False)
        if not self.base_url.endswith("/"):
            raise ValueError("base_url ends with a slash")
        _check_seconds(self.timeout_seconds, most=120)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """What is not given is not there: `open_providers` opens only the others."""

    file_provider_dir: Path | None = None
    webhooks: Mapping[str, WebhookEndpoint] = field(default_factory=lambda: MappingProxyType({}))
    """By the name that a route's address gives."""
    smtp: SmtpEndpoint | None = None
    slack: SlackEndpoint | None = None

    def __post_init__(self) -> None:
        for name in self.webhooks:
            if not is_address(Provider.WEBHOOK, name):
                raise ValueError(
                    "a webhook's name is 1 to 64 of a-z, 0-9, dash and underscore, and begins with a letter or digit"
                )


def _check_url(url: str, name: str, *, allow_cleartext: bool) -> None:
    """Sentences never repeat the address: it may hold a secret."""
    if not re.fullmatch(r"[!-~]{1,2000}", url):
        raise ValueError(f"{name} is an encoded address of printable ASCII")
    try:
        parts: SplitResult = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(f"{name} is not an address: host or port cannot be read") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ValueError(f"{name} is http://host/… or https://host/…")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{name} holds a user or password: give the secret as token")
    if parts.fragment:
        raise ValueError(f"{name} has a fragment (#…), which is never sent")
    if parts.scheme == "http" and not (allow_cleartext or host in _LOOPBACK):
        raise ValueError(f"{name} is http:// to another machine: use https://, or set allow_cleartext = true to accept that")


def _check_seconds(seconds: int, *, most: int = LONGEST_SECONDS) -> None:
    if not 1 <= seconds <= most:
        raise ValueError(f"timeout_seconds is 1 to {most}")

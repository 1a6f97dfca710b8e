"""The tables below a delivery watch: webhooks, mail, Slack, check-ins. Each knows the endpoint it stands for and what it still lacks."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from opsguard_defs.settings.fields import File
from resources.delivery.route import CheckInFile, CheckInSource, CheckInTable
from resources.providers.patience import SLACK_SECONDS, SMTP_SECONDS, WEBHOOK_SECONDS
from resources.providers.settings import REJECTING_STATUSES, SlackEndpoint, SmtpEndpoint, WebhookEndpoint

_NONE: Final = SecretStr("")
_ABSENT: Final = SecretStr("absent")
"""Stands in for a secret that is not here yet, so that the rest of a table can be checked without it."""

_TABLE: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WebhookTable(Table):
    """`[watch.webhooks.NAME]`: an address that takes one POST per message."""

    url: str = Field(default="", repr=False, description="The address that takes the messages: https://host/path.")
    url_env: str = Field(default="", description="Variable that holds the address, where the address itself is a secret.")
    lookup_url: str = Field(
        default="", repr=False, description="Where an acceptance can be asked for; {key} in it is the message's key."
    )
    token_env: str = Field(default="", description="Variable that holds the bearer token.")
    token: SecretStr = Field(default=_NONE, description="From the environment only.")
    timeout_seconds: int = Field(default=WEBHOOK_SECONDS, description="All of one call.", ge=1, le=300)
    rejecting_statuses: tuple[int, ...] = Field(
        default=tuple(sorted(REJECTING_STATUSES)), description="Answers that prove that nothing was taken; [] proves nothing."
    )
    must_echo_key: bool = Field(default=False, description="Accepted counts only when the answer names the key.")
    lookup_is_authoritative: bool = Field(default=False, description="Not found there means: was never taken.")
    ca_file: File = Field(default=None, description="PEM file of the authority that signed the certificate.")
    allow_cleartext: bool = Field(default=False, description="Accept http:// to another machine.")

    @field_validator("rejecting_statuses", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _can_be_made(self) -> "WebhookTable":
        if not self.url and not self.url_env:
            raise ValueError("url: this key is missing; https://host/path, or url_env where the address itself is a secret")
        self._made(self.url or "https://absent.invalid/")
        return self

    def endpoint(self) -> WebhookEndpoint | None:
        """None while something is `missing`."""
        return None if self.missing() else self._made(self.url)

    def missing(self) -> list[str]:
        problems = [] if self.url else [f"url: set {self.url_env} in the environment"]
        if self.token_env and not self.token.get_secret_value():
            problems.append(f"token: set {self.token_env} in the environment")
        return problems + _no_file("ca_file", self.ca_file)

    def _made(self, url: str) -> WebhookEndpoint:
        return WebhookEndpoint(
            url=url,
            lookup_url=self.lookup_url,
            token=self.token,
            timeout_seconds=self.timeout_seconds,
            rejecting_statuses=frozenset(self.rejecting_statuses),
            must_echo_key=self.must_echo_key,
            lookup_is_authoritative=self.lookup_is_authoritative,
            ca_file=self.ca_file,
            allow_cleartext=self.allow_cleartext,
        )


class SmtpTable(Table):
    """`[watch.smtp]`: the mail server that takes messages for others."""

    host: str = Field(description="The mail server's host name.")
    sender: str = Field(description="The address that messages come from.")
    tls: Literal["implicit", "starttls", "none"] = Field(default="implicit", description="implicit, starttls or none.")
    port: int = Field(default=0, description="0: 465, 587 or 25, by tls.", ge=0, le=65535)
    user: str = Field(default="", description="Account on the mail server, if it asks for one.")
    password_env: str = Field(default="", description="Variable that holds the account's password.")
    password: SecretStr = Field(default=_NONE, description="From the environment only.")
    message_id_domain: str = Field(default="", description="Right side of every Message-ID; empty takes the sender's.")
    timeout_seconds: int = Field(default=SMTP_SECONDS, description="All of one mail.", ge=1, le=300)
    ca_file: File = Field(default=None, description="PEM file of the authority that signed the certificate.")
    allow_cleartext: bool = Field(default=False, description="Accept mail without TLS to another machine.")

    @model_validator(mode="after")
    def _can_be_made(self) -> "SmtpTable":
        self._made((self.password if self.password.get_secret_value() else _ABSENT) if self.user else _NONE)
        return self

    def endpoint(self) -> SmtpEndpoint | None:
        """None while something is `missing`."""
        return None if self.missing("") else self._made(self.password if self.user else _NONE)

    def missing(self, variable: str) -> list[str]:
        without = self.user and not self.password.get_secret_value()
        problems = [f"password: set {self.password_env or variable} in the environment"] if without else []
        return problems + _no_file("ca_file", self.ca_file)

    def _made(self, password: SecretStr) -> SmtpEndpoint:
        return SmtpEndpoint(
            host=self.host,
            sender=self.sender,
            tls=self.tls,
            port=self.port,
            user=self.user,
            password=password,
            message_id_domain=self.message_id_domain,
            timeout_seconds=self.timeout_seconds,
            ca_file=self.ca_file,
            allow_cleartext=self.allow_cleartext,
        )


class SlackTable(Table):
    """`[watch.slack]`: the bot that posts to customers' channels. The `[slack]` of the whole file is for alerts."""

    token_env: str = Field(default="", description="Variable that holds the bot's token.")
    token: SecretStr = Field(default=_NONE, description="From the environment only.")
    base_url: str = Field(default="https://slack.com/api/", description="Slack's API; the sandbox's sink is another.")
    timeout_seconds: int = Field(default=SLACK_SECONDS, description="All of one call.", ge=1, le=120)

    @model_validator(mode="after")
    def _can_be_made(self) -> "SlackTable":
        self._made(self.token if self.token.get_secret_value() else _ABSENT)
        return self

    def endpoint(self) -> SlackEndpoint | None:
        """None while something is `missing`."""
        return None if self.missing("") else self._made(self.token)

    def missing(self, variable: str) -> list[str]:
        return [] if self.token.get_secret_value() else [f"token: set {self.token_env or variable} in the environment"]

    def _made(self, token: SecretStr) -> SlackEndpoint:
        return SlackEndpoint(token=token, base_url=self.base_url, timeout_seconds=self.timeout_seconds)


class CheckInsTable(Table):
    """`check_ins`: the path of a JSON lines file, or `{postgres = "...", table = "..."}`."""

    path: File = Field(default=None, description="JSON lines: customer, at, source.")
    postgres: str = Field(default="", description="postgresql://user@host:port/database, without a password.")
    table: str = Field(default="", description="Table or view with the columns customer, at, source.")
    password_env: str = Field(default="", description="Variable that holds the password.")
    password: SecretStr = Field(default=_NONE, description="From the environment only.")

    @model_validator(mode="after")
    def _one_of_two(self) -> "CheckInsTable":
        if (self.path is None) == (not self.postgres):
            raise ValueError(
                'give the path of a JSON lines file, or { postgres = "postgresql://user@host/database", table = "name" }'
            )
        if self.postgres:
            _check_address(self.postgres)
            if not _TABLE.fullmatch(self.table):
                raise ValueError("table: must be name or schema.name, lower-case letters, digits and _")
        elif self.table:
            raise ValueError("table: belongs to postgres, and check_ins is a file")
        return self

    def source(self) -> CheckInSource:
        if self.path is not None:
            return CheckInFile(self.path)
        return CheckInTable(url=self.postgres, table=self.table, password=self.password)


def _check_address(text: str) -> None:
    """Sentences never repeat it: it may hold a password."""
    try:
        parts = urlsplit(text if text.isprintable() and " " not in text else "")
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in {"postgresql", "postgres"} or len(parts.path) < 2 or parts.fragment:
        raise ValueError("postgres: must be postgresql://user@host:port/database")
    if parts.password is not None or "password" in parts.query:
        raise ValueError("postgres: a password in a URL is refused, because URLs are shown: take it out, and set its variable")


def _no_file(key: str, path: Path | None) -> list[str]:
    return [f"{key}: there is no file {path}"] if path is not None and not path.is_file() else []


def under(key: str, problems: Sequence[str]) -> list[str]:
    return [f"{key}.{problem}" for problem in problems]

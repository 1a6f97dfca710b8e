"""The whole of the settings, as one frozen value."""

import re
from pathlib import Path
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from opsguard_defs.settings.delivery_watch import DeliveryWatch
from opsguard_defs.settings.owners import Owners
from opsguard_defs.settings.spool_watch import SpoolWatch
from resources.errors import ConfigurationError

Watch: TypeAlias = SpoolWatch | DeliveryWatch
"""The union over `guard`. A further guard is one more member here and in `WATCH_TYPES`."""

WATCH_TYPES: dict[str, type[SpoolWatch] | type[DeliveryWatch]] = {"spool": SpoolWatch, "delivery": DeliveryWatch}

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def _web_address(value: str, *, cleartext: bool) -> str:
    parts = urlsplit(value) if value.isprintable() and " " not in value else urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError("must be http://host or https://host, without user, query or fragment")
    if parts.scheme == "http" and not cleartext and parts.hostname not in _LOOPBACK:
        raise ValueError("must be https://, since a token travels there (http:// only on this machine)")
    return value


class SlackSettings(BaseModel):
    """Where alerts go. Without token and webhook they go to the log."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    token_env: str = Field(default="OPSGUARD_SLACK_TOKEN", description="Variable that holds the bot token.")
    webhook_env: str = Field(default="OPSGUARD_SLACK_WEBHOOK", description="Variable that holds the webhook's URL.")
    channel: str = Field(default="", description="Channel for alerts, for example #data-handoffs.", max_length=100)
    base_url: str = Field(default="https://slack.com/api/", description="Slack's API; the sandbox's sink is another.")
    token: SecretStr = Field(default=SecretStr(""), description="From the environment only.")
    webhook: SecretStr = Field(default=SecretStr(""), description="From the environment only.")

    @field_validator("channel")
    @classmethod
    def _channel(cls, value: str) -> str:
        if value and not re.fullmatch(r"[#@]?[\w.-]+", value):
            raise ValueError("must be a channel such as #data-handoffs, or its id")
        return value

    @field_validator("base_url")
    @classmethod
    def _base_url(cls, value: str) -> str:
        return _web_address(value, cleartext=False).rstrip("/") + "/"


class Settings(BaseModel):
    """`home` holds state, logs and the sandbox. `config_file` is None when there was none, and then there are no watches."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    home: Path = Field(default=Path(".opsguard"), description="Where state, logs and the sandbox live (OPSGUARD_HOME).")
    ui_url: str = Field(default="http://127.0.0.1:3000", description="Address of the Dagster UI, for links.")
    approve_in_ui: bool = Field(default=True, description="false: decisions are accepted from the command line only.")
    lease_seconds: int = Field(default=120, description="How long a silent writer keeps its place.", ge=15, le=3600)
    retention_days: int = Field(default=90, description="Findings of undecided reports are kept this long.", ge=1, le=36_500)
    owners: Owners = Field(default=("team:data-platform",), description="Owners of watches that name none.")
    slack: SlackSettings = Field(default_factory=SlackSettings, description="Where alerts go.")
    watches: tuple[Watch, ...] = Field(default=(), description="The [[watch]] blocks.")
    config_file: Path | None = Field(default=None, description="The file these came from.")

    @field_validator("ui_url")
    @classmethod
    def _ui_url(cls, value: str) -> str:
        return _web_address(value, cleartext=True).rstrip("/")

    def select(self, wanted: str) -> tuple[Watch, ...]:
        """The watches that `spool` or `spool/acme` names. Raises `ConfigurationError` when there is none."""
        guard, slash, name = wanted.partition("/")
        if guard not in WATCH_TYPES:
            raise ConfigurationError(f"unknown guard {guard!a}: known are {', '.join(WATCH_TYPES)}")
        chosen = tuple(watch for watch in self.watches if watch.guard == guard and (not slash or watch.name == name))
        if chosen:
            return chosen
        where = self.config_file or "opsguard.toml (there is none)"
        known = ", ".join(f"{watch.guard}/{watch.name}" for watch in self.watches) or "none"
        raise ConfigurationError(
            f"no watch {wanted!a} in {where}; known watches: {known}. `opsguard init {guard} NAME` prints a block to fill in"
        )

    def watch(self, guard: str, name: str) -> Watch:
        return self.select(f"{guard}/{name}")[0]

    def only(self, watch: Watch) -> Self:
        """As if it were the only watch: the definitions of four take Dagster 0.16 s, of one 0.02 s."""
        return self.model_copy(update={"watches": (watch,)})

"""One `[[watch]]` block with `guard = "delivery"`: customers who are owed messages, and how each goes out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationInfo, field_validator, model_validator

from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Provider
from opsguard_defs.settings.cron import check_cron
from opsguard_defs.settings.delivery_tables import CheckInsTable, SlackTable, SmtpTable, WebhookTable, under
from opsguard_defs.settings.fields import File, WatchName, read_path
from opsguard_defs.settings.owners import Owners
from opsguard_defs.settings.secrets import SecretKey, secret_variable
from resources.delivery.route import DeliveryRoute
from resources.errors import ConfigurationError
from resources.providers.settings import ProviderSettings, is_address

EVERY_TEN_MINUTES = "*/10 * * * *"


def _needed_path(value: object, info: ValidationInfo) -> Path:
    path = read_path(value, info)
    if path is None:
        raise ValueError("must be a path, as text between quotes")
    return path


Needed = Annotated[Path, PlainValidator(_needed_path)]


class DeliveryWatch(BaseModel):
    """A watch of guard `delivery`. `route()` is what the product works with."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    SECRETS: ClassVar[tuple[str, ...]] = ("token", "password")
    """Fields of its tables."""

    guard: Literal["delivery"] = Field(description="Always delivery.")
    name: WatchName = Field(description="Names this watch everywhere.")
    registry: Needed = Field(description="The customers' registry, a YAML file.")
    ledger: Literal["file", "postgres"] = Field(
        default="file", description="Where reservations are kept: files on this host, or the state database."
    )
    ledger_dir: File = Field(default=None, description="Directory of the file ledger; empty: ledger in the home.")
    templates: Needed = Field(description="Directory with approved.yaml and one file per template.")
    outbox: Needed = Field(description="Directory into which upstream jobs put bodies.")
    check_ins: CheckInsTable | None = Field(default=None, description="Where check-ins are read; without it no reminder is sent.")
    file_provider_dir: File = Field(default=None, description="Directory of the provider file: hand-offs to other programs.")
    webhooks: dict[str, WebhookTable] = Field(default_factory=dict, description="Endpoints by the name that a route gives.")
    smtp: SmtpTable | None = Field(default=None, description="The mail server, for routes by smtp.")
    slack: SlackTable | None = Field(default=None, description="The bot, for routes by slack.")
    auto_send: bool = Field(default=False, description="true: what a standing approval names is sent without being asked again.")
    policy: DeliveryPolicy = Field(default_factory=DeliveryPolicy, description="By which rules slots are judged.")
    owners: Owners = Field(default=(), description="Who is asked about this watch; empty means the owners above.")
    schedule_cron: str = Field(default=EVERY_TEN_MINUTES, description="When a report runs: five cron fields, UTC.")

    @field_validator("schedule_cron")
    @classmethod
    def _cron(cls, value: str) -> str:
        return check_cron(value)

    @field_validator("check_ins", mode="before")
    @classmethod
    def _a_path_is_a_file(cls, value: object) -> object:
        return {"path": value} if isinstance(value, str) else value

    @field_validator("webhooks")
    @classmethod
    def _names(cls, value: dict[str, WebhookTable]) -> dict[str, WebhookTable]:
        if not all(is_address(Provider.WEBHOOK, name) for name in value):
            raise ValueError("a webhook's name is 1 to 64 of a-z, 0-9, dash and underscore, beginning with a letter or digit")
        return value

    @model_validator(mode="after")
    def _apart(self) -> "DeliveryWatch":
        """The outbox is written by others, the ledger by nobody else."""
        places = {"templates": self.templates, "outbox": self.outbox}
        places |= {key: path for key in ("ledger_dir", "file_provider_dir") if (path := getattr(self, key)) is not None}
        taken: dict[Path, str] = {}
        for key, path in places.items():
            if path in taken:
                raise ValueError(f"{key}: must not be the directory of {taken[path]}")
            taken[path] = key
        return self

    @classmethod
    def secret_keys(cls, block: Mapping[str, Any]) -> list[SecretKey]:
        webhooks = block.get("webhooks")
        keys = [SecretKey("token", cls._variable(block, "slack_token"), ("slack",))]
        keys.append(SecretKey("password", cls._variable(block, "smtp_password"), ("smtp",)))
        keys.append(SecretKey("password", cls._variable(block, "check_ins_password"), ("check_ins",)))
        for name in webhooks if isinstance(webhooks, Mapping) else ():
            keys.append(SecretKey("token", cls._variable(block, f"webhook_{name}_token"), ("webhooks", name)))
            keys.append(SecretKey("url", "", ("webhooks", name), may_stand_in_file=True))
        return keys

    @staticmethod
    def _variable(block: Mapping[str, Any], field: str) -> str:
        return secret_variable("delivery", str(block.get("name", "")), field)

    def missing(self) -> tuple[str, ...]:
        """What a run would need and is not here: files named above and secrets. Settings load without them."""
        problems = [] if self.registry.is_file() else [f"registry: there is no file {self.registry}"]
        for name, hook in self.webhooks.items():
            problems += under(f"webhooks.{name}", hook.missing())
        if self.smtp is not None:
            problems += under("smtp", self.smtp.missing(secret_variable("delivery", self.name, "smtp_password")))
        if self.slack is not None:
            problems += under("slack", self.slack.missing(secret_variable("delivery", self.name, "slack_token")))
        return tuple(problems)

    def require_complete(self) -> None:
        """Raises `ConfigurationError` naming all that is `missing`: asked before anything is contacted."""
        if missing := self.missing():
            raise ConfigurationError("\n".join(f"watch {self.name}: {problem}" for problem in missing))

    def providers(self) -> ProviderSettings:
        """Without those that still lack something: a route to one of them is a gap in the report."""
        return ProviderSettings(
            file_provider_dir=self.file_provider_dir,
            webhooks={name: made for name, hook in self.webhooks.items() if (made := hook.endpoint()) is not None},
            smtp=None if self.smtp is None else self.smtp.endpoint(),
            slack=None if self.slack is None else self.slack.endpoint(),
        )

    def route(self) -> DeliveryRoute:
        """`ledger_dir` is filled in when the settings are loaded: it depends on the home."""
        return DeliveryRoute(
            name=self.name,
            registry=self.registry,
            ledger=self.ledger,
            ledger_dir=self.ledger_dir or Path("ledger").absolute(),
            templates=self.templates,
            outbox=self.outbox,
            check_ins=None if self.check_ins is None else self.check_ins.source(),
            providers=self.providers(),
            policy=self.policy,
            owners=self.owners,
            auto_send=self.auto_send,
            schedule_cron=self.schedule_cron,
        )

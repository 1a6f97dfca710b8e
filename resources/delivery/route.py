"""The route of one delivery watch: by which registry, ledger, bodies and evidence, through which providers, by which rules."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import SecretStr

from guards.delivery.policy import DeliveryPolicy
from resources.providers.settings import ProviderSettings

_NO_SECRET: Final = SecretStr("")


@dataclass(frozen=True, slots=True)
class CheckInFile:
    """JSON lines: `{"customer": "acme-1", "at": "2026-11-30T08:55:00+09:00", "source": "app"}`."""

    path: Path


@dataclass(frozen=True, slots=True)
class CheckInTable:
    """A table or view with the columns `customer` text, `at` timestamptz, `source` text. Only ever read."""

    url: str
    """`postgresql://user@host:port/database`: no password in it."""
    table: str
    """`name` or `schema.name`."""
    password: SecretStr = _NO_SECRET


CheckInSource: TypeAlias = CheckInFile | CheckInTable | None
"""None: none is configured, and no reminder is ever sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRoute:
    """Paths are absolute. `schedule_cron` is five cron fields, UTC."""

    name: str
    registry: Path
    ledger: Literal["file", "postgres"]
    ledger_dir: Path
    """Where the file store is; unused with "postgres", which is the state store."""
    templates: Path
    """Holds `approved.yaml` and `<id>.md`."""
    outbox: Path
    """Holds `<customer>/<period>/<kind>.md`."""
    check_ins: CheckInSource
    providers: ProviderSettings
    policy: DeliveryPolicy
    owners: tuple[str, ...]
    auto_send: bool = False
    """What standing approvals cover is sent without a person's decision on the plan."""
    schedule_cron: str = "*/10 * * * *"

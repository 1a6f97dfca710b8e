"""Where a file server is, who we are there, and how far it is trusted."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from guards.canonical import Json

_NO_SECRET: Final = SecretStr("")

Scheme = Literal["ftp", "ftps", "ftps-implicit", "sftp"]
DEFAULT_PORTS: dict[Scheme, int] = {"ftp": 21, "ftps": 21, "ftps-implicit": 990, "sftp": 22}


class Profile(BaseModel):
    """What is peculiar about one server. Fields that only concern writing are the partner's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    allow_cleartext: bool = Field(
        default=False, description="Allow plain ftp://: password and feeds travel readable by anybody between."
    )
    rename_supported: Literal["probe", "yes", "no"] | bool = Field(
        default="probe", description="Can the server rename? false writes under the final name and needs allow_inplace = true."
    )
    allow_inplace: bool = Field(
        default=False,
        description="Accept writing under the final name where renaming is impossible: the partner may see a half feed.",
    )
    consumes_on_arrival: bool = Field(
        default=False, description="The partner may take feeds away at once: absence after our rename is then acceptable."
    )
    case_sensitive: bool = Field(
        default=True, description="false: names that differ only in case are treated as possible aliases."
    )
    max_tls_version: Literal["1.2", "1.3"] = Field(default="1.3", description="Newest TLS version to offer.")
    passive_address: str = Field(
        default="",
        description="Host for FTP data connections; empty means the control host. A PASV reply's address is never trusted.",
    )
    time_zone: str = Field(default="UTC", description="IANA zone of LIST output that names none.")
    temp_name: str = Field(
        default=".{name}.{run8}.part", description="Temporary name in the inbox; must hold {name} and {run8}.", max_length=100
    )
    list_command: Literal["auto", "list"] = Field(default="auto", description="auto uses MLSD where offered; list never does.")

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"unknown time zone {value!r}: give an IANA name such as Europe/Berlin") from None
        return value

    @field_validator("temp_name")
    @classmethod
    def _recognisable(cls, value: str) -> str:
        bare = value.replace("{name}", "").replace("{run8}", "")
        if value.count("{name}") != 1 or value.count("{run8}") != 1 or any(c in bare for c in "{}/\\") or not bare.isprintable():
            raise ValueError("must hold {name} and {run8} once each, and no slash or other braces")
        return value

    def as_json(self) -> dict[str, Json]:
        return self.model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One side of a watch. Secrets are `SecretStr`: never in `repr`, logs, plans or metadata."""

    side: str
    """"source" or "partner": error sentences name it."""
    scheme: Scheme
    host: str
    port: int
    user: str
    directory: str
    """Absolute path on the server."""
    password: SecretStr = _NO_SECRET
    key_file: Path | None = None
    key_passphrase: SecretStr = _NO_SECRET
    known_hosts: Path | None = None
    host_key: str = ""
    """Pinned key as `ssh-ed25519 AAAA...` or a fingerprint `SHA256:...`; either this or known_hosts for sftp."""
    ca_file: Path | None = None
    profile: Profile = field(default_factory=Profile)

    @property
    def shown(self) -> str:
        """For people: no secret in it."""
        return f"{self.scheme}://{self.user}@{self.host}:{self.port}{self.directory}"

"""One `[[watch]]` block with `guard = "spool"`: a route from an outbound spool to a partner's inbox."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    field_validator,
    model_validator,
)

from guards.spool.policy import SpoolPolicy
from opsguard_defs.settings.cron import check_cron
from opsguard_defs.settings.fields import File, WatchName
from opsguard_defs.settings.owners import Owners
from opsguard_defs.settings.secrets import SecretKey, secret_variable
from opsguard_defs.settings.server_url import ServerUrl, clean_directory, parse_server_url
from resources.errors import ConfigurationError
from resources.file_servers.endpoint import Endpoint, Profile
from resources.spool.route import SpoolRoute

_HOST_KEY = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?|[a-z0-9@.-]{5,64} [A-Za-z0-9+/]{40,2000}={0,2}( [\x21-\x7e ]{1,200})?")


def _url(value: object) -> ServerUrl:
    if not isinstance(value, str):
        raise ValueError("must be text between quotes: scheme://user@host:port/directory")  # noqa: TRY004 - pydantic reports ValueError only
    return parse_server_url(value)


def _archive(value: str) -> str:
    if "://" in value:
        raise ValueError("spool and archive are on one server: give only the directory, for example /outbound-archive")
    return clean_directory(value)


def _host_key(value: str) -> str:
    if value and not _HOST_KEY.fullmatch(value):
        raise ValueError('must be a public key such as "ssh-ed25519 AAAA..." or its fingerprint "SHA256:..." (43 characters)')
    return value


Url = Annotated[ServerUrl, PlainValidator(_url)]
HostKey = Annotated[str, AfterValidator(_host_key)]


class SpoolWatch(BaseModel):
    """A watch of guard `spool`. `route()` is what the product works with."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    SECRETS: ClassVar[tuple[str, ...]] = (
        "source_password",
        "partner_password",
        "source_key_passphrase",
        "partner_key_passphrase",
    )

    guard: Literal["spool"] = Field(description="Always spool.")
    name: WatchName = Field(description="Names this watch everywhere.")
    source: Url = Field(description="The outbound spool: scheme://user@host:port/directory.")
    archive: Annotated[str, AfterValidator(_archive)] = Field(description="Archive directory, on the source server.")
    partner: Url = Field(description="The partner's inbox: scheme://user@host:port/directory.")
    source_profile: Profile = Field(default_factory=Profile, description="What is peculiar about the source server.")
    partner_profile: Profile = Field(default_factory=Profile, description="What is peculiar about the partner's server.")
    source_known_hosts: File = Field(default=None, description="known_hosts file that pins the source's SSH host key.")
    partner_known_hosts: File = Field(default=None, description="known_hosts file that pins the partner's SSH host key.")
    source_host_key: HostKey = Field(default="", description="The source's SSH host key, or its SHA256: fingerprint.")
    partner_host_key: HostKey = Field(default="", description="The partner's SSH host key, or its SHA256: fingerprint.")
    source_ca_file: File = Field(default=None, description="PEM file of the authority that signed the source's certificate.")
    partner_ca_file: File = Field(default=None, description="PEM file of the authority that signed the partner's certificate.")
    source_key: File = Field(default=None, description="Private SSH key to log in to the source.")
    partner_key: File = Field(default=None, description="Private SSH key to log in to the partner.")
    source_password_env: str = Field(default="", description="Variable that holds the source's password.")
    partner_password_env: str = Field(default="", description="Variable that holds the partner's password.")
    source_key_passphrase_env: str = Field(default="", description="Variable that holds the passphrase of source_key.")
    partner_key_passphrase_env: str = Field(default="", description="Variable that holds the passphrase of partner_key.")
    source_password: SecretStr = Field(default=SecretStr(""), description="From the environment only.")
    partner_password: SecretStr = Field(default=SecretStr(""), description="From the environment only.")
    source_key_passphrase: SecretStr = Field(default=SecretStr(""), description="From the environment only.")
    partner_key_passphrase: SecretStr = Field(default=SecretStr(""), description="From the environment only.")
    policy: SpoolPolicy = Field(default_factory=SpoolPolicy, description="By which rules entries are judged.")
    owners: Owners = Field(default=(), description="Who is asked about this watch; empty means the owners above.")
    nightly_cron: str = Field(default="30 5 * * *", description="When the nightly report runs: five cron fields, UTC.")
    partner_id: str = Field(
        default="",
        description="Names the partner's inbox in the ledger; empty takes host, port, account and directory. Set it before the "
        "address is spelled otherwise, so that what was sent there stays known; two watches with one id share one inbox.",
        pattern=r"^(?:[a-z][a-z0-9_-]{0,39})?$",
    )

    @field_validator("nightly_cron")
    @classmethod
    def _cron(cls, value: str) -> str:
        return check_cron(value)

    @model_validator(mode="after")
    def _consistent(self) -> "SpoolWatch":
        problems = [problem for side in ("source", "partner") for problem in _side_problems(self, side)]
        archive = (self.source.host, self.source.port, self.archive)
        if archive == self.source.place:
            problems.append("archive: must not be the source's own directory, else an archived feed would be sent again")
        if archive == self.partner.place:
            problems.append("archive: must not be the partner's inbox")
        if self.source.place == self.partner.place:
            problems.append("partner: must not be the source's own directory")
        if self.source_profile.rename_supported in {False, "no"}:
            problems.append("source_profile.rename_supported: the source must be able to rename, that is how a feed is archived")
        if self.partner_profile.rename_supported in {False, "no"} and not self.partner_profile.allow_inplace:
            problems.append(
                "partner_profile.rename_supported: without renaming the partner may see a half feed; "
                "accept that with partner_profile.allow_inplace = true"
            )
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @classmethod
    def secret_keys(cls, block: Mapping[str, Any]) -> list[SecretKey]:
        return [SecretKey(field, secret_variable("spool", str(block.get("name", "")), field)) for field in cls.SECRETS]

    def missing(self) -> tuple[str, ...]:
        """What a connection would need and is not here: files named above and secrets. Settings load without them."""
        return tuple(problem for side in ("source", "partner") for problem in _missing(self, side))

    def require_complete(self) -> None:
        """Raises `ConfigurationError` naming all that is `missing`: asked before anything is contacted."""
        if missing := self.missing():
            raise ConfigurationError("\n".join(f"watch {self.name}: {problem}" for problem in missing))

    def route(self) -> SpoolRoute:
        return SpoolRoute(
            name=self.name,
            source=_endpoint(self, "source"),
            archive=self.archive,
            partner=_endpoint(self, "partner"),
            policy=self.policy,
            owners=self.owners,
            nightly_cron=self.nightly_cron,
            partner_id=self.partner_id,
        )


def _endpoint(watch: SpoolWatch, side: Literal["source", "partner"]) -> Endpoint:
    url: ServerUrl = getattr(watch, side)
    of_side: dict[str, Any] = {
        field: getattr(watch, f"{side}_{field}")
        for field in ("password", "key_passphrase", "known_hosts", "host_key", "ca_file", "profile")
    }
    return Endpoint(
        side=side,
        scheme=url.scheme,
        host=url.host,
        port=url.port,
        user=url.user,
        directory=url.directory,
        key_file=getattr(watch, f"{side}_key"),
        **of_side,
    )


def _side_problems(watch: SpoolWatch, side: str) -> list[str]:
    url: ServerUrl = getattr(watch, side)
    profile: Profile = getattr(watch, f"{side}_profile")
    if url.scheme == "sftp" and not (getattr(watch, f"{side}_known_hosts") or getattr(watch, f"{side}_host_key")):
        return [f"{side}: sftp needs {side}_known_hosts (a file) or {side}_host_key, so that only the right server is trusted"]
    if url.scheme == "ftp" and not profile.allow_cleartext:
        return [
            f"{side}: plain ftp sends password and feeds readable by anybody between; "
            f"use ftps or sftp, or accept it with {side}_profile = {{allow_cleartext = true}}"
        ]
    return []


def _missing(watch: SpoolWatch, side: str) -> list[str]:
    url: ServerUrl = getattr(watch, side)
    problems = []
    for field in ("known_hosts", "ca_file", "key"):
        path: Path | None = getattr(watch, f"{side}_{field}")
        if path is not None and not path.is_file():
            problems.append(f"{side}_{field}: there is no file {path}")
    has_key = getattr(watch, f"{side}_key") is not None
    for field, needed in (("password", not has_key and url.user not in {"anonymous", "ftp"}), ("key_passphrase", False)):
        secret: SecretStr = getattr(watch, f"{side}_{field}")
        named: str = getattr(watch, f"{side}_{field}_env")
        if not secret.get_secret_value() and (needed or named):
            problems.append(
                f"{side}_{field}: set {named or secret_variable('spool', watch.name, f'{side}_{field}')} in the environment"
            )
    return problems

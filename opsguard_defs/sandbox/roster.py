"""Which servers a sandbox has, and which watches run between them. Only words: nothing is started here."""

from dataclasses import dataclass
from typing import Final, Literal

Scheme = Literal["ftp", "ftps", "ftps-implicit", "sftp", "http"]

USER: Final = "opsguard"
HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ServerKind:
    name: str
    scheme: Scheme
    side: Literal["source", "partner", "sink"]


@dataclass(frozen=True, slots=True)
class DemoWatch:
    """One `[[watch]]` of the sandbox: a route from `/NAME/outbound` on one server to `/NAME/inbox` on another."""

    name: str
    source: str
    """A server's name."""
    partner: str
    route: str
    """For people."""

    @property
    def outbound(self) -> str:
        return f"/{self.name}/outbound"

    @property
    def archive(self) -> str:
        return f"/{self.name}/outbound-archive"

    @property
    def inbox(self) -> str:
        return f"/{self.name}/inbox"


SLACK: Final = "slack"
WEBHOOKS: Final = "webhooks"
CUSTOMERS: Final = "customers"
"""The watch of guard `delivery`: customers in two zones, by files and by webhooks."""

SERVERS: Final = (
    ServerKind("handoff_ftp", "ftp", "source"),
    ServerKind("partner_ftp", "ftp", "partner"),
    ServerKind("handoff_sftp", "sftp", "source"),
    ServerKind("partner_sftp", "sftp", "partner"),
    ServerKind("handoff_ftps", "ftps", "source"),
    ServerKind("partner_ftps", "ftps-implicit", "partner"),
    ServerKind(SLACK, "http", "sink"),
    ServerKind(WEBHOOKS, "http", "sink"),
)

WATCHES: Final = (
    DemoWatch("ftp_demo", "handoff_ftp", "partner_ftp", "FTP to FTP"),
    DemoWatch("sftp_demo", "handoff_sftp", "partner_sftp", "SFTP to SFTP"),
    DemoWatch("mixed_demo", "handoff_ftp", "partner_sftp", "FTP to SFTP"),
    DemoWatch("ftps_demo", "handoff_ftps", "partner_ftps", "FTPS (explicit TLS) to FTPS (implicit TLS)"),
)


def server(name: str) -> ServerKind:
    """Raises KeyError for a name that is not in the roster."""
    return {kind.name: kind for kind in SERVERS}[name]


def watch(name: str) -> DemoWatch:
    """Raises KeyError for a name that is not in the roster."""
    return {item.name: item for item in WATCHES}[name]

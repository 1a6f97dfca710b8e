"""The route of one spool watch: from which spool, into which archive, to which partner, and by which rules."""

from dataclasses import dataclass

from guards.spool.policy import SpoolPolicy
from resources.file_servers.endpoint import Endpoint


@dataclass(frozen=True)
class SpoolRoute:
    """`archive` is an absolute directory on the source's server. `nightly_cron` is five cron fields, UTC. `partner_id` names the inbox in
    the ledger; "" takes host, port, account and directory."""

    name: str
    source: Endpoint
    archive: str
    partner: Endpoint
    policy: SpoolPolicy
    owners: tuple[str, ...]
    nightly_cron: str
    partner_id: str = ""

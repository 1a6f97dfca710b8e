"""`opsguard init`: a commented `[[watch]]` block to fill in."""

import re
from typing import Annotated

import typer

from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line
from resources.errors import ConfigurationError

_SPOOL = """
# Settings for all watches stand above the first [[watch]] of the file; [slack] too, so that alerts go there and not to the log:
#   [slack]
#   channel = "#data-handoffs"               # and the token in OPSGUARD_SLACK_TOKEN
[[watch]]
guard   = "spool"
name    = "{name}"
# scheme://user@host:port/directory; ftp, ftps (explicit TLS), ftps-implicit or sftp. Never a password in here.
source  = "sftp://feeds@handoff.example:22/outbound"   # the producer's outbound spool
archive = "/outbound-archive"                          # on the source server; must exist
partner = "ftps://{name}@ftp.partner.example:21/inbox" # the partner's inbox

# Passwords come from the environment:
#   {source_password}
#   {partner_password}
# or from a variable of your choice:
# source_password_env = "FEEDS_PASSWORD"
# Private keys instead of passwords (their passphrases: {source_key_passphrase}):
# source_key  = "~/.ssh/id_ed25519"
# partner_key = "~/.ssh/id_ed25519"

# Which server is the right one. sftp needs one of the two; paths are relative to this file.
# `ssh-keyscan -p 22 handoff.example > known_hosts`, and compare the fingerprint with what its owner says.
source_known_hosts = "known_hosts"
# source_host_key  = "SHA256:..."          # or the whole key: "ssh-ed25519 AAAA..."
# partner_known_hosts = "known_hosts"
# partner_ca_file  = "partner-ca.pem"      # ftps: only when no public authority signed the certificate

# What is peculiar about each server. All fields: docs/spool.md.
# source_profile  = {{ time_zone = "UTC" }}
# partner_profile = {{ consumes_on_arrival = false, case_sensitive = true }}
# Plain ftp must be accepted by name: source_profile = {{ allow_cleartext = true }}

# By which rules entries are judged; these are the usual values.
policy = {{ sla_minutes = 60, max_files_per_run = 3, max_file_megabytes = 64, verify_delivered = "size" }}

# owners = ["team:data-platform"]
# nightly_cron = "30 5 * * *"               # UTC; report only
# partner_id = "{name}"                      # names the inbox in the ledger; set it before the partner's address changes
"""


def init(
    guard: Annotated[str, typer.Argument(metavar="GUARD", help="spool")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and _, beginning with a letter.")],
    as_json: AsJson = False,
) -> int:
    """Print a commented watch to fill in. Changes nothing: append it to opsguard.toml yourself."""
    block = watch_block(guard, name)
    emit({"guard": guard, "name": name, "toml": block}) if as_json else [line(text) for text in block.rstrip("\n").split("\n")]
    return Exit.DONE


def watch_block(guard: str, name: str) -> str:
    """Valid TOML as it is. Raises `ConfigurationError` for another guard or a name that cannot be a watch's."""
    if guard != "spool":
        raise ConfigurationError(f"no block for guard {guard[:40]!a}: known is spool")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name):
        raise ConfigurationError("NAME must be lower-case letters, digits and _, at most 31, beginning with a letter")
    from opsguard_defs.settings.secrets import secret_variable

    secrets = ("source_password", "partner_password", "source_key_passphrase")
    return _SPOOL.format(name=name, **{field: secret_variable("spool", name, field) for field in secrets})

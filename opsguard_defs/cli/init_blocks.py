"""The commented `[[watch]]` blocks that `opsguard init` prints: valid TOML as they are."""

from collections.abc import Callable, Mapping
from typing import Final

from opsguard_defs.settings.secrets import secret_variable

_ALERTS = """
# Settings for all watches stand above the first [[watch]] of the file; [slack] too, so that alerts go there and not to the log:
#   [slack]
#   channel = "#data-handoffs"               # and the token in OPSGUARD_SLACK_TOKEN"""

_SPOOL = """
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

_DELIVERY = """
[[watch]]
guard     = "delivery"
name      = "{name}"
# All paths are relative to this file.
registry  = "customers.yaml"                # who is owed what, when and by which route: docs/delivery.md
templates = "templates"                     # one <id>.md per template, and approved.yaml: id, SHA-256, who approved it
outbox    = "outbox"                        # upstream jobs put bodies here: outbox/<customer>/<period>/<kind>.md
check_ins = "check_ins.jsonl"               # evidence for reminders; without it no reminder is sent. Or from a table:
# check_ins = {{ postgres = "postgresql://reader@db.example/ops", table = "public.check_ins" }}   # password: {check_ins_password}

# Where reservations are kept, so that nothing is sent twice: "file" (this host, needs no database) or "postgres" (the state database).
ledger    = "file"
# ledger_dir = "/var/lib/opsguard/ledger"    # unset: ledger in the home

# By which rules slots are judged; these are the usual values.
policy = {{ max_messages_per_run = 500, look_back_days = 2, look_ahead_hours = 24, known_failure_kinds = ["reminder"] }}

# true: what a standing approval names (`opsguard standing allow`) is sent without being asked again. Nothing else ever is.
auto_send = false
# owners = ["team:data-platform"]
# schedule_cron = "*/10 * * * *"             # UTC; a report, which never sends

# Providers. A customer's route names one; only what stands here can be used.
file_provider_dir = "sent"                  # hand-offs to other programs: one file per message
# [watch.webhooks.partner]                   # route: {{provider: webhook, webhook: partner}}
# url        = "https://hooks.partner.example/messages"      # or url_env = "NAME" where the address is a secret
# lookup_url = "https://hooks.partner.example/messages/{{key}}"  # where an acceptance can be asked for; token: {webhook_partner_token}
# [watch.smtp]                               # password: {smtp_password}
# host   = "mail.example"
# sender = "ops@example.com"
# [watch.slack]                              # the bot that posts to customers' channels; its token: {slack_token}
"""


def _spool(name: str) -> str:
    fields = ("source_password", "partner_password", "source_key_passphrase")
    return _ALERTS + _SPOOL.format(name=name, **{field: secret_variable("spool", name, field) for field in fields})


def _delivery(name: str) -> str:
    fields = ("check_ins_password", "webhook_partner_token", "smtp_password", "slack_token")
    return _ALERTS + _DELIVERY.format(name=name, **{field: secret_variable("delivery", name, field) for field in fields})


BLOCKS: Final[Mapping[str, Callable[[str], str]]] = {"spool": _spool, "delivery": _delivery}

"""The `opsguard.toml`, `sandbox.env` and `known_hosts` that tell OpsGuard (and any other client) of the sandbox's servers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from opsguard_defs.sandbox import identity
from opsguard_defs.sandbox.layout import Layout, write_private
from opsguard_defs.sandbox.places import customer_places
from opsguard_defs.sandbox.roster import CUSTOMERS, SLACK, WATCHES, WEBHOOKS, DemoWatch
from opsguard_defs.sandbox.state_file import SandboxServer

# Names of their own: a real token must never reach the sink, and a real webhook never a message of the sandbox.
SLACK_TOKEN: Final = "OPSGUARD_SANDBOX_SLACK_TOKEN"  # noqa: S105
SLACK_WEBHOOK: Final = "OPSGUARD_SANDBOX_SLACK_WEBHOOK"
NOT_A_TOKEN: Final = "xoxb-sandbox"  # noqa: S105 - the sink takes anything

_HEAD: Final = """\
# The sandbox's watches, written by `opsguard sandbox up`. Ports are kept when they are free; when one is not, this file is
# written anew and a version that you changed is kept as opsguard.toml.yours.
# Passwords: in sandbox.env beside this file, and printed by `opsguard sandbox env`.
home = "."
"""


def secret_name(watch: str, side: str) -> str:
    return f"OPSGUARD_SPOOL_{watch}_{side}_password".upper()


def secrets(servers: Mapping[str, SandboxServer]) -> dict[str, str]:
    """What `opsguard.toml` needs from the environment."""
    found = {}
    for watch in WATCHES:
        found[secret_name(watch.name, "source")] = servers[watch.source].password
        found[secret_name(watch.name, "partner")] = servers[watch.partner].password
    if SLACK in servers:
        found[SLACK_TOKEN] = NOT_A_TOKEN
    return found


def env_lines(servers: Mapping[str, SandboxServer]) -> str:
    return "".join(f"{name}={value}\n" for name, value in secrets(servers).items())


def known_hosts(layout: Layout, servers: Mapping[str, SandboxServer]) -> str:
    return "".join(
        f"[{server.host}]:{server.port} {identity.public_host_key(layout, server.name)}\n"
        for server in servers.values()
        if server.scheme == "sftp"
    )


def render_config(layout: Layout, servers: Mapping[str, SandboxServer]) -> str:
    blocks = [_HEAD]
    if SLACK in servers:
        sink = servers[SLACK]
        blocks.append(
            "[slack]  # a sink on this machine that records what would be posted\n"
            'channel = "#opsguard-sandbox"\n'
            f'token_env = "{SLACK_TOKEN}"\n'
            f'webhook_env = "{SLACK_WEBHOOK}"\n'
            f'base_url = "http://{sink.host}:{sink.port}/api/"\n'
        )
    blocks += [_watch_block(layout, watch, servers) for watch in WATCHES]
    if WEBHOOKS in servers:
        blocks.append(_customers_block(layout, servers[WEBHOOKS]))
    return "\n".join(blocks)


def _watch_block(layout: Layout, watch: DemoWatch, servers: Mapping[str, SandboxServer]) -> str:
    source, partner = servers[watch.source], servers[watch.partner]
    lines = [
        f"[[watch]]  # {watch.route}",
        'guard = "spool"',
        f"name = {_text(watch.name)}",
        f"source = {_text(source.url.rstrip('/') + watch.outbound)}",
        f"archive = {_text(watch.archive)}",
        f"partner = {_text(partner.url.rstrip('/') + watch.inbox)}",
        *_trust(layout, "source", source),
        *_trust(layout, "partner", partner),
        "policy = {sla_minutes = 0}  # a sandbox has no night to wait for: a feed that you drop is late at once",
    ]
    return "\n".join(lines) + "\n"


def _customers_block(layout: Layout, webhooks: SandboxServer) -> str:
    places = customer_places(layout)
    address = f"http://{webhooks.host}:{webhooks.port}"
    lines = [
        "[[watch]]  # messages to customers in Seoul and Berlin, each at most once",
        'guard = "delivery"',
        f"name = {_text(CUSTOMERS)}",
        f"registry = {_text(_beside(layout, places.registry))}",
        'ledger = "file"',
        f"templates = {_text(_beside(layout, places.templates))}",
        f"outbox = {_text(_beside(layout, places.outbox))}",
        f"check_ins = {_text(_beside(layout, places.check_ins))}",
        f"file_provider_dir = {_text(_beside(layout, places.sent))}",
        "policy = {look_back_days = 0, look_ahead_hours = 0}  # only what is due now: a sandbox has no yesterday",
        "[watch.webhooks.rejects]  # says no, provably before acceptance",
        f'url = "{address}/reject"',
        "[watch.webhooks.dies]  # takes the message and hangs up, and has no look-up: doubt that only a person can end",
        f'url = "{address}/die"',
        "[watch.webhooks.slow]  # takes the message and answers late: time to kill whoever waits",
        f'url = "{address}/slow"',
    ]
    return "\n".join(lines) + "\n"


def _trust(layout: Layout, side: Literal["source", "partner"], server: SandboxServer) -> list[str]:
    match server.scheme:
        case "sftp":
            return [f"{side}_known_hosts = {_text(_beside(layout, layout.known_hosts))}"]
        case "ftps" | "ftps-implicit":
            _, _, authority = identity.certificate(layout)
            return [f"{side}_ca_file = {_text(_beside(layout, authority))}"]
        case _:
            return [f"{side}_profile = {{allow_cleartext = true}}"]


def write_config(layout: Layout, text: str) -> None:
    """Leaves a file that a person changed alone while it is still true; else keeps it under another name."""
    before = _read(layout.written_config)
    present = _read(layout.config)
    if present is not None and before == text:
        return
    if present not in {None, before, text}:
        write_private(layout.config.with_name("opsguard.toml.yours"), present or "")
    write_private(layout.config, text)
    write_private(layout.written_config, text)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _beside(layout: Layout, path: Path) -> str:
    """Relative to the settings file, so that a home may be moved."""
    return path.relative_to(layout.config.parent).as_posix()


def _text(value: str) -> str:
    """A TOML basic string: JSON's, with DEL escaped as well."""
    return json.dumps(value).replace("\x7f", "\\u007f")

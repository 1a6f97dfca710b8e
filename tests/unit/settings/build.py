"""Small builders of settings files."""

from pathlib import Path

from opsguard_defs.settings import Settings, load_settings
from resources.errors import ConfigurationError

ACME = """
[[watch]]
guard = "spool"
name = "acme"
source = "sftp://feeds@handoff.example:22/outbound"
archive = "/outbound-archive"
partner = "ftps://acme@ftp.acme.example/inbox"
source_known_hosts = "known_hosts"
"""


def watch(**changed: str) -> str:
    """A good watch with keys replaced (the value is TOML), removed (None is written as "-") or added."""
    keys = {
        "guard": '"spool"',
        "name": '"acme"',
        "source": '"sftp://feeds@handoff.example/outbound"',
        "archive": '"/outbound-archive"',
        "partner": '"sftp://acme@partner.example/inbox"',
        "source_known_hosts": '"known_hosts"',
        "partner_known_hosts": '"known_hosts"',
        **changed,
    }
    return "[[watch]]\n" + "\n".join(f"{key} = {value}" for key, value in keys.items() if value != "-") + "\n"


def delivery(*tables: str, **changed: str) -> str:
    """The same for guard delivery; `tables` are what stands below it, such as "[watch.slack]"."""
    keys = {
        "guard": '"delivery"',
        "name": '"customers"',
        "registry": '"customers.yaml"',
        "templates": '"templates"',
        "outbox": '"outbox"',
        **changed,
    }
    lines = [f"{key} = {value}" for key, value in keys.items() if value != "-"]
    return "\n".join(["[[watch]]", *lines, *tables, ""])


def load(directory: Path, text: str, **environ: str) -> Settings:
    path = directory / "opsguard.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, environ)


def problems(directory: Path, text: str, **environ: str) -> list[str]:
    """The sentences of the refusal; fails when the settings are accepted."""
    try:
        load(directory, text, **environ)
    except ConfigurationError as error:
        return str(error).split("\n")
    raise AssertionError("these settings were accepted")

"""What comes from the environment, where the settings file is looked for, and that no secret is ever shown."""

import os
import traceback
from pathlib import Path

import pytest

from opsguard_defs.settings import config_path, load_settings
from resources.errors import ConfigurationError
from tests.unit.settings.build import load, problems, watch

pytestmark = pytest.mark.fast

CANARY = "canary-5f1c0a"


def test_secrets_come_from_the_variable_of_the_watch_and_are_never_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, watch(), OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD=CANARY)
    route = settings.watches[0].route()

    assert route.source.password.get_secret_value() == CANARY
    assert CANARY not in f"{settings!r} {settings} {route!r} {route} {settings.watches[0].source_password}"


def test_a_secret_may_come_from_a_variable_of_ones_own(tmp_path: Path) -> None:
    text = watch(partner_key_passphrase_env='"MY_KEY"', partner_key='"id"')

    assert load(tmp_path, text, MY_KEY=CANARY).watches[0].route().partner.key_passphrase.get_secret_value() == CANARY


def test_no_problem_repeats_a_secret(tmp_path: Path) -> None:
    """The incident: the validation error of a mistyped port printed the whole model, password included."""
    text = watch(policy="{sla_minutes = -1}", source="3", slak=f'"{CANARY}"', source_password=f'"{CANARY}"')
    environ = {"OPSGUARD_SPOOL_ACME_PARTNER_PASSWORD": CANARY, "OPSGUARD_SLACK_TOKEN": CANARY}
    path = tmp_path / "opsguard.toml"
    path.write_text(text)

    with pytest.raises(ConfigurationError) as refused:
        load_settings(path, environ)

    assert CANARY not in "".join(traceback.format_exception(refused.value))


def test_a_line_break_in_a_password_is_refused(tmp_path: Path) -> None:
    """It would be a second command to an FTP server."""
    found = problems(tmp_path, watch(), OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD=f"{CANARY}\r\nDELE x")

    assert "OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD holds a control character" in found[0]
    assert CANARY not in found[0]


def test_what_a_connection_needs_is_named_without_stopping_other_commands(tmp_path: Path) -> None:
    made = load(tmp_path, watch(source_key='"id_feeds"', partner_password_env='"PW"')).watches[0]

    assert made.missing() == (
        f"source_known_hosts: there is no file {tmp_path / 'known_hosts'}",
        f"source_key: there is no file {tmp_path / 'id_feeds'}",
        f"partner_known_hosts: there is no file {tmp_path / 'known_hosts'}",
        "partner_password: set PW in the environment",
    )
    with pytest.raises(ConfigurationError, match="watch acme: source_key: there is no file"):
        made.require_complete()


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    environ = {
        "OPSGUARD_HOME": str(tmp_path / "home"),
        "OPSGUARD_LEASE_SECONDS": "30",
        "OPSGUARD_APPROVE_IN_UI": "false",
        "OPSGUARD_OWNERS": "team:a, b@example.org",
        "OPSGUARD_UI_URL": "https://ops.example/",
    }
    settings = load(tmp_path, 'home = "elsewhere"\nlease_seconds = 60\n' + watch(), **environ)

    assert settings.home == tmp_path / "home"
    assert (settings.lease_seconds, settings.approve_in_ui, settings.ui_url) == (30, False, "https://ops.example")
    assert settings.watches[0].owners == ("team:a", "b@example.org")


@pytest.mark.parametrize(
    ("name", "value"),
    [("LEASE_SECONDS", "1"), ("LEASE_SECONDS", "x"), ("RETENTION_DAYS", "-3"), ("APPROVE_IN_UI", "maybe"), ("UI_URL", "x")],
)
def test_a_bad_variable_is_refused(tmp_path: Path, name: str, value: str) -> None:
    assert name.lower() in problems(tmp_path, "", **{f"OPSGUARD_{name}": value})[0].lower()


def test_a_home_in_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    assert load(tmp_path, 'home = "."').home == tmp_path


def test_the_file_is_looked_for_in_three_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, here, named = tmp_path / "home", tmp_path / "here", tmp_path / "named.toml"
    home.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    environ = {"OPSGUARD_HOME": str(home)}

    assert config_path(environ) is None
    (home / "opsguard.toml").write_text("")
    assert config_path(environ) == home / "opsguard.toml"
    (here / "opsguard.toml").write_text("")
    assert config_path(environ) == here / "opsguard.toml"
    named.write_text("")
    assert config_path({**environ, "OPSGUARD_CONFIG": str(named)}) == named


def test_without_a_file_there_are_no_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(environ={})

    assert (settings.watches, settings.config_file, settings.home) == ((), None, tmp_path / ".opsguard")


def test_a_named_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A misspelt path must not look like "no watches, nothing wrong"."""
    with pytest.raises(ConfigurationError, match="there is no such file"):
        load_settings(environ={"OPSGUARD_CONFIG": str(tmp_path / "opsgard.toml")})


def test_the_sandbox_variables_lie_beside_its_file_and_give_way_to_the_environment(tmp_path: Path) -> None:
    private(
        tmp_path / "sandbox.env", "# written\nOPSGUARD_SPOOL_ACME_SOURCE_PASSWORD=a=b\nOPSGUARD_SPOOL_ACME_PARTNER_PASSWORD=c\n"
    )
    route = load(tmp_path, watch(), OPSGUARD_SPOOL_ACME_PARTNER_PASSWORD="mine").watches[0].route()

    assert route.source.password.get_secret_value() == "a=b"
    assert route.partner.password.get_secret_value() == "mine"


def test_sandbox_variables_that_others_may_read_are_refused(tmp_path: Path) -> None:
    private(tmp_path / "sandbox.env", "X=1\n")
    (tmp_path / "sandbox.env").chmod(0o644)

    assert "open to others" in problems(tmp_path, watch())[0]


def test_a_broken_line_among_the_sandbox_variables_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "sandbox.env", f"OPSGUARD_X {CANARY}\n")
    found = problems(tmp_path, watch())

    assert "line 1: must be NAME=value" in found[0]
    assert CANARY not in found[0]


def private(path: Path, text: str) -> None:
    handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(handle, text.encode())
    os.close(handle)

"""What the sandbox offers is real: its watches load, its servers are reached and trusted, and nobody else may read its secrets."""

import shlex
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsguard_defs.sandbox import Running, Sandbox, incident
from opsguard_defs.sandbox.layout import is_locked
from opsguard_defs.settings import Settings, load_settings
from resources.file_servers import open_server
from tests.integration.sandbox_processes import processes_of

WATCHES = ("ftp_demo", "sftp_demo", "mixed_demo", "ftps_demo")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("sandbox") / "home")
    with sandbox.running():
        yield sandbox


@pytest.fixture(scope="module")
def running(sandbox: Sandbox) -> Running:
    running = sandbox.status()
    assert running is not None
    return running


@pytest.fixture(scope="module")
def settings(sandbox: Sandbox) -> Settings:
    return load_settings(sandbox.config, {})


def test_its_settings_load_with_nothing_missing_and_no_variable_set(sandbox: Sandbox, settings: Settings) -> None:
    assert tuple(watch.name for watch in settings.watches) == (*WATCHES, "customers")
    assert sandbox.watches == WATCHES
    assert [watch.missing() for watch in settings.watches] == [()] * (len(WATCHES) + 1)
    assert settings.home == sandbox.home
    assert settings.slack.base_url.startswith("http://127.0.0.1:")


def test_a_real_slack_webhook_in_the_environment_gets_no_message_of_the_sandbox(sandbox: Sandbox) -> None:
    environment = {"OPSGUARD_SLACK_WEBHOOK": "https://hooks.slack.example/T/B/X", "OPSGUARD_SLACK_TOKEN": "xoxb-real"}
    slack = load_settings(sandbox.config, environment).slack
    assert slack.webhook.get_secret_value() == ""
    assert slack.token.get_secret_value() == "xoxb-sandbox"


@pytest.mark.parametrize("watch", WATCHES)
def test_each_watch_sees_its_incident_through_its_own_servers(sandbox: Sandbox, settings: Settings, watch: str) -> None:
    """Plain FTP, SFTP with a pinned host key, FTPS explicit and implicit with a verified certificate."""
    night = incident(sandbox, watch)
    route = settings.watch("spool", watch).route()
    with open_server(route.source).reader() as source, open_server(route.partner).reader() as partner:
        outbound = source.list(route.source.directory, limit=100)
        archive = source.list(route.archive, limit=100)
        inbox = partner.list(route.partner.directory, limit=100)
    assert {entry.name for entry in outbound} == set(night.expected)
    assert len(archive) == 0
    prices, returns, orders = (next(n for n in night.expected if n.startswith(feed)) for feed in ("prices", "returns", "orders"))
    assert {entry.name for entry in inbox} == {prices, returns, orders}
    size = {entry.name: (entry.size_bytes or 0) for entry in outbound}
    held = {entry.name: (entry.size_bytes or 0) for entry in inbox}
    assert held[prices] < size[prices]
    assert held[returns] > size[returns]
    assert held[orders] == size[orders]


def test_files_are_for_their_owner_only(sandbox: Sandbox) -> None:
    open_to_others = [
        f"{path} {stat.filemode(path.lstat().st_mode)}"
        for path in [sandbox.home, *sandbox.home.rglob("*")]
        if "postgres" not in path.relative_to(sandbox.home).parts[:1] and path.lstat().st_mode & 0o077
    ]
    assert not open_to_others


def test_no_password_is_on_a_command_line_in_the_settings_or_in_the_state(sandbox: Sandbox, running: Running) -> None:
    passwords = [server.password for server in running.servers if server.user]
    assert len(passwords) == 6
    assert all(len(password) >= 32 for password in passwords)
    places = [
        *processes_of(sandbox.home).values(),
        sandbox.config.read_text(),
        sandbox.layout.state.read_text(),
        repr(running),
        *(path.read_text(errors="replace") for path in sandbox.layout.logs.iterdir()),
    ]
    assert not [place[:80] for place in places for password in passwords if password in place]


def test_env_can_be_evaluated_by_a_shell(sandbox: Sandbox, running: Running) -> None:
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in sandbox.env().items())
    script = f'{exports}\nprintf "%s\\n" "$OPSGUARD_HOME" "$OPSGUARD_CONFIG" "$OPSGUARD_SPOOL_SFTP_DEMO_PARTNER_PASSWORD"'
    said = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [str(sandbox.home), str(sandbox.config), running.server("partner_sftp").password]


def test_the_env_file_holds_the_same_passwords(sandbox: Sandbox) -> None:
    lines = dict(line.split("=", 1) for line in sandbox.layout.env_file.read_text().splitlines())
    assert lines.items() <= sandbox.env().items()
    assert {f"OPSGUARD_SPOOL_{w.upper()}_{side}_PASSWORD" for w in WATCHES for side in ("SOURCE", "PARTNER")} <= lines.keys()


def test_the_keeper_holds_its_lock_for_as_long_as_it_lives(sandbox: Sandbox) -> None:
    assert is_locked(sandbox.layout.keeper_lock)


def test_the_database_is_up_with_the_servers(sandbox: Sandbox) -> None:
    assert any("bin/postgres" in command for command in processes_of(sandbox.home).values())


def test_places_on_disk_are_what_the_servers_show(sandbox: Sandbox, settings: Settings) -> None:
    marker: Path = sandbox.places("mixed_demo").inbox / "seen.csv"
    marker.write_bytes(b"x")
    route = settings.watch("spool", "mixed_demo").route()
    with open_server(route.partner).reader() as partner:
        entry = partner.stat(route.partner.directory, "seen.csv")
    assert entry is not None
    assert entry.size_bytes == 1

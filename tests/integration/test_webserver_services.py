"""Webserver and daemon start whole or not at all, say why not, and end with the process that started them."""

import hashlib
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from opsguard_defs.dagster_home import InstanceFile, dagster_url, instance_of, prepare
from opsguard_defs.instance import INSTANCE_FILE, WORKSPACE
from opsguard_defs.processes import PROJECT_ROOT
from opsguard_defs.services import services
from resources.errors import ConfigurationError, Unreachable
from tests.integration.sandbox_processes import processes_of, wait_until_gone
from tests.integration.webserver_tiny.serving import workspace_of
from tests.patience import until

HOLD = """
import sys, time
from pathlib import Path
from opsguard_defs.services import services
home = Path(sys.argv[1])
with services(home=home, state_url=sys.argv[2], workspace=home / "workspace.yaml") as running:
    print(running.url, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "workspace.yaml").write_text(json.dumps(workspace_of()))
    return tmp_path / "home"


def test_a_location_that_does_not_load_is_an_error_with_its_text(home: Path, database_url: str) -> None:
    """Dagster calls such a location LOADED: the UI came up with nothing in it, and nobody knew why."""
    workspace = home / "workspace.yaml"
    workspace.write_text(json.dumps(workspace_of("tests.integration.webserver_tiny.broken")))
    with (
        pytest.raises(Unreachable, match=r"(?s)opsguard does not load.*the settings name a watch twice"),
        services(home=home, state_url=database_url, daemon=False, workspace=workspace),
    ):
        pytest.fail("it loaded")
    wait_until_gone(home)


def test_killed_by_sigkill_they_leave_nothing_running(home: Path, database_url: str) -> None:
    """`dagster dev` left webserver, daemon and code servers, and with them its sensors."""
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLD, home, database_url], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline().startswith("http://127.0.0.1:")
    roles = " ".join(processes_of(home).values())
    assert "opsguard_defs.webserver" in roles
    assert "dagster._daemon" in roles
    assert "dagster api grpc" in roles

    parent.send_signal(signal.SIGKILL)
    parent.communicate()

    wait_until_gone(home)


def test_one_that_ends_by_itself_is_noticed(home: Path, database_url: str) -> None:
    with services(home=home, state_url=database_url, daemon=False, workspace=home / "workspace.yaml") as running:
        running.check()
        running.children[0].kill()
        until(lambda: running.children[0].poll() is not None, "the webserver's end")
        with pytest.raises(Unreachable, match="webserver ended with exit code -9"):
            running.check()
    wait_until_gone(home)


def test_a_port_that_is_taken_is_said_before_anything_starts(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        port = squatter.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"Port {port} .*--port"), services(home=home, state_url="", port=port):
            pytest.fail("it started")


@pytest.mark.fast
@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2"])
def test_dagsters_storage_is_told_its_driver(scheme: str) -> None:
    rest = "u:p%40ss@db.example:5432/ops?sslmode=verify-full"
    assert dagster_url(f"{scheme}://{rest}") == f"postgresql+psycopg2://{rest}"


@pytest.mark.fast
@pytest.mark.parametrize("url", ["", "sqlite:///x", "mysql://u@h/d", "postgresql:", "db.example"])
def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL URL"):
        dagster_url(url)


URL = "postgresql://u@h/d"


@pytest.mark.fast
def test_dagsters_home_is_private_and_holds_the_projects_file(tmp_path: Path) -> None:
    variables = prepare(tmp_path, URL, {})
    directory = tmp_path / "dagster"
    instance = directory / "dagster.yaml"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert instance.read_text() == (PROJECT_ROOT / "dagster.yaml").read_text()
    assert instance.stat().st_mode & 0o777 == 0o600
    assert (variables["DAGSTER_HOME"], variables["OPSGUARD_DAGSTER_URL"]) == (str(directory), "postgresql+psycopg2://u@h/d")


@pytest.mark.fast
def test_an_instance_file_that_a_person_changed_is_left_and_an_older_one_of_ours_is_not(tmp_path: Path) -> None:
    """An operator's run limit was gone after the next report."""
    prepare(tmp_path, URL, {})
    instance = tmp_path / "dagster" / "dagster.yaml"
    instance.write_text("concurrency: {}")
    assert prepare(tmp_path, URL, {})["DAGSTER_HOME"] == str(instance.parent)
    assert instance.read_text() == "concurrency: {}"
    assert instance_of(tmp_path, {}).kind is InstanceFile.EDITED

    (tmp_path / "dagster" / "dagster.yaml.written").write_text(hashlib.sha256(b"concurrency: {}").hexdigest())
    assert instance_of(tmp_path, {}).kind is InstanceFile.OURS
    prepare(tmp_path, URL, {})
    assert instance.read_text() == (PROJECT_ROOT / "dagster.yaml").read_text()


@pytest.mark.fast
def test_an_instance_that_dagster_home_names_is_used_and_not_written_to(tmp_path: Path) -> None:
    """Runs of the command line landed in an instance of their own, and were missing in the production UI."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    named = {"DAGSTER_HOME": str(theirs)}
    assert prepare(tmp_path, URL, named)["DAGSTER_HOME"] == str(tmp_path / "dagster"), "it holds no dagster.yaml"

    (theirs / "dagster.yaml").write_text("{}")
    found = prepare(tmp_path, URL, {**named, "OPSGUARD_DAGSTER_URL": "postgresql+psycopg2://x@y/z"})
    assert (found["DAGSTER_HOME"], found["OPSGUARD_DAGSTER_URL"]) == (str(theirs), "postgresql+psycopg2://x@y/z")
    assert [path.name for path in theirs.iterdir()] == ["dagster.yaml"]
    assert instance_of(tmp_path, named).kind is InstanceFile.THEIRS


@pytest.mark.fast
@pytest.mark.parametrize("packaged", [INSTANCE_FILE, WORKSPACE])
def test_the_package_carries_the_checkouts_own_files(packaged: Path) -> None:
    """An installed wheel had no workspace.yaml, and `opsguard dev` did not start."""
    assert packaged.read_bytes() == (PROJECT_ROOT / packaged.name).read_bytes()

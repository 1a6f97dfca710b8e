"""The sandbox's FTP server as people and tests use it: any client gets in, and its log is the partner's own record."""

import ftplib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from opsguard_defs.processes import ProcessIdentity, module_environment
from resources.file_servers import open_server
from tests.patience import PATIENCE_SECONDS, until
from tests.servers.authorization import authorized
from tests.servers.ftp import PASSWORD, USER, sandbox_ftp_peer
from tests.servers.peer import Peer

PARENT = """
import subprocess, sys, time
from pathlib import Path
base = Path(sys.argv[1])
child = subprocess.Popen([sys.executable, "-m", "opsguard_defs.sandbox.servers.ftp_server", "--root", str(base / "root"), "--ready",
    str(base / "ready"), "--user", "u", "--password-file", str(base / "password")])
print(child.pid, flush=True)
time.sleep(600)
"""


def events(peer: Peer) -> list[tuple[str, str, str, int | None]]:
    assert peer.log is not None
    lines = [json.loads(line) for line in peer.log.read_text().splitlines()]
    assert all(set(line) == {"at", "event", "user", "path", "to", "bytes"} for line in lines)
    return [(line["event"], line["path"], line["to"], line["bytes"]) for line in lines]


@pytest.mark.parametrize("tls", ["", "explicit", "implicit"])
def test_the_log_tells_what_clients_did(tmp_path: Path, tls: Literal["", "explicit", "implicit"]) -> None:
    with sandbox_ftp_peer(tmp_path, tls=tls) as peer:
        server = open_server(peer.endpoint)
        with server.writer(authorized(), scope="spool/acme", directories=("/inbox",)) as session:
            session.write("/inbox", ".feed.csv.part", [b"123", b"45"])
            session.rename("/inbox", ".feed.csv.part", "/inbox", "caf\udce9.csv")
            assert b"".join(session.read("/inbox", "caf\udce9.csv", ceiling_bytes=10)) == b"12345"
            session.remove("/inbox", "caf\udce9.csv")
            session.remove("/inbox", "caf\udce9.csv")
        assert events(peer) == [
            ("login", "", "", None),
            ("upload", "/inbox/.feed.csv.part", "", 5),
            ("rename", "/inbox/.feed.csv.part", "/inbox/caf\udce9.csv", None),
            ("download", "/inbox/caf\udce9.csv", "", 5),
            ("remove", "/inbox/caf\udce9.csv", "", None),
        ]


@pytest.mark.parametrize("tls", ["", "explicit"])
def test_an_upload_that_was_cut_is_no_upload(tmp_path: Path, tls: Literal["", "explicit"]) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(300_000)
        # A data connection that is gone before the server has taken it is no upload to it, and no cut one.
        until(lambda: any(path.stat().st_size for path in tmp_path.rglob("feed.csv")), "the server to have taken the connection")
        raise OSError("source")

    with sandbox_ftp_peer(tmp_path, tls=tls) as peer:
        with (
            open_server(peer.endpoint).writer(authorized(), scope="spool/acme", directories=("/inbox",)) as session,
            pytest.raises(OSError, match="source"),
        ):
            session.write("/inbox", "feed.csv", broken())
        until(lambda: len(events(peer)) >= 2, "the second event")
        assert [event for event, *_ in events(peer)] == ["login", "upload_cut"]


def test_a_plain_client_gets_in_and_stays_in_its_root(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("secret")
    with sandbox_ftp_peer(tmp_path) as peer, ftplib.FTP() as client:
        client.connect("127.0.0.1", peer.endpoint.port, timeout=PATIENCE_SECONDS)
        client.login(USER, PASSWORD)
        assert client.nlst("/") == ["inbox"]
        assert client.pwd() == "/"
        for path in ("../secret.csv", "/../secret.csv", "/inbox/../../secret.csv"):
            with pytest.raises(ftplib.error_perm):
                client.voidcmd(f"RETR {path}")


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A killed `opsguard dev` must not leave its servers behind."""
    (tmp_path / "root").mkdir()
    (tmp_path / "password").write_text("x")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], env=module_environment(), stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = ProcessIdentity.of(int(parent.stdout.readline()))
    assert child is not None
    until((tmp_path / "ready").exists, "the server is ready")
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until(lambda: not child.is_alive(), "the server's end")

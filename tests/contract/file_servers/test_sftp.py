"""SFTP: the contract on asyncssh and OpenSSH, and what is peculiar to SSH: host keys and logins."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from resources.errors import ConfigurationError, Unreachable, UntrustedServer
from resources.file_servers import open_server
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import Reader
from resources.file_servers.sftp_session import SftpSession
from tests.contract.file_servers.suite import QUICK, FileServerContract
from tests.servers.openssh import generate_key, openssh_peer
from tests.servers.peer import Folder, Peer
from tests.servers.proftpd import proftpd_peer
from tests.servers.sftp import PASSWORD, SftpPeer, asyncssh_peer


class TestAsyncssh(FileServerContract):
    """The sandbox's server."""

    @pytest.fixture(scope="class")
    def peer(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with asyncssh_peer(tmp_path_factory.mktemp("asyncssh")) as peer:
            yield peer

    def test_the_password_was_not_written_to_the_servers_log_or_ours(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        folder.put("feed.csv")
        reader.list(folder.path, limit=10)
        assert peer.log is not None
        assert PASSWORD not in peer.log.read_text()
        assert PASSWORD not in repr(peer.endpoint)


class TestOpenSsh(FileServerContract):
    """What most partners run."""

    @pytest.fixture(scope="class")
    def peer(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with openssh_peer(tmp_path_factory.mktemp("openssh")) as peer:
            yield peer

    def test_the_cipher_is_aes_gcm(self, peer: Peer) -> None:
        session = SftpSession(peer.endpoint, patience=QUICK)
        session.open()
        try:
            assert session.cipher == "aes128-gcm@openssh.com"
        finally:
            session.drop()

    def test_a_session_cut_from_outside_goes_on_with_a_fresh_connection(self, peer: Peer, folder: Folder) -> None:
        """Firewalls end idle sessions: the next look must not fail for it, and must be on the same server."""
        folder.put("feed.csv")
        with open_server(peer.endpoint, patience=QUICK).reader() as reader:
            before = reader.identity
            _end_sessions_of(peer)
            assert len(reader.list(folder.path, limit=10)) == 1
            assert reader.identity == before


class TestProFtpd(FileServerContract):
    """mod_sftp: the only server at hand with `check-file-name`, which it does not announce; its files are not root's."""

    @pytest.fixture(scope="class")
    def peer(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with proftpd_peer(tmp_path_factory.mktemp("proftpd"), mode="sftp") as peer:
            yield peer


@pytest.fixture(scope="module")
def openssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpPeer]:
    with openssh_peer(tmp_path_factory.mktemp("openssh-keys")) as peer:
        yield peer


def logs_in(endpoint: Endpoint) -> str:
    """The fingerprint of the server that let us in and listed."""
    with open_server(endpoint, patience=QUICK).reader() as reader:
        reader.list(endpoint.directory, limit=10)
        return reader.identity.fingerprint


def fingerprint(key: Path) -> str:
    said = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], check=True, capture_output=True, text=True)
    return said.stdout.split()[1]


# Host keys, as OpenSSH's own tools write them


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
@pytest.mark.parametrize("form", ["key line", "key without comment", "keyscan line", "fingerprint"])
def test_any_of_a_servers_keys_can_be_pinned_in_any_form(openssh: SftpPeer, kind: str, form: str) -> None:
    """The operator pins what ssh-keygen or ssh-keyscan showed, not always the key that the client would have asked for."""
    key = Path(str(openssh.inbox.parent.parent / f"host_key_{kind}.pub"))
    line = key.read_text().strip()
    pins = {
        "key line": line,
        "key without comment": " ".join(line.split()[:2]),
        "keyscan line": f"[127.0.0.1]:{openssh.endpoint.port} {line}",
        "fingerprint": fingerprint(key),
    }
    assert logs_in(replace(openssh.endpoint, host_key=pins[form])) == fingerprint(key)


@pytest.mark.parametrize("hashed", [False, True])
def test_known_hosts_as_ssh_keyscan_and_ssh_keygen_write_it(openssh: SftpPeer, tmp_path: Path, hashed: bool) -> None:
    known_hosts = tmp_path / "known_hosts"
    scanned = subprocess.run(
        ["ssh-keyscan", "-p", str(openssh.endpoint.port), "-t", "rsa", "127.0.0.1"], check=True, capture_output=True, text=True
    )
    lines = [line for line in scanned.stdout.splitlines() if not line.startswith("#")]
    known_hosts.write_text("\n".join([*lines, ""]))
    if hashed:
        subprocess.run(["ssh-keygen", "-H", "-f", str(known_hosts)], check=True, capture_output=True)
        assert "127.0.0.1" not in known_hosts.read_text()
    known_hosts.write_text("# a comment\n\nnot a key line\n" + known_hosts.read_text())
    endpoint = replace(openssh.endpoint, host_key="", known_hosts=known_hosts)
    assert logs_in(endpoint) == fingerprint(openssh.inbox.parent.parent / "host_key_rsa.pub")


def test_a_key_known_for_another_port_or_host_is_not_trusted(openssh: SftpPeer, tmp_path: Path) -> None:
    known_hosts = tmp_path / "known_hosts"
    key = openssh.endpoint.host_key
    known_hosts.write_text(f"127.0.0.1 {key}[127.0.0.1]:{openssh.endpoint.port + 1} {key}*.example,!127.0.0.1 {key}")
    with pytest.raises(UntrustedServer, match="holds no key for"):
        logs_in(replace(openssh.endpoint, host_key="", known_hosts=known_hosts))


def test_a_revoked_key_is_refused_although_it_is_also_listed(openssh: SftpPeer, tmp_path: Path) -> None:
    known_hosts = tmp_path / "known_hosts"
    host = f"[127.0.0.1]:{openssh.endpoint.port}"
    known_hosts.write_text(f"{host} {openssh.endpoint.host_key}@revoked {host} {openssh.endpoint.host_key}")
    with pytest.raises(UntrustedServer, match="revokes"):
        logs_in(replace(openssh.endpoint, host_key="", known_hosts=known_hosts))


@pytest.mark.parametrize("pin", ["ssh-ed25519", "SHA256:short", "MD5:00:11", "ssh-ed25519 AAAA", "ssh-rsa {ed25519}", "x y z"])
def test_a_malformed_pin_is_a_configuration_error(openssh: SftpPeer, pin: str) -> None:
    text = pin.replace("{ed25519}", openssh.endpoint.host_key.split()[1])
    with pytest.raises(ConfigurationError, match="partner_host_key is neither"):
        logs_in(replace(openssh.endpoint, host_key=text))


def test_a_wrong_fingerprint_shows_the_one_that_was_seen(openssh: SftpPeer) -> None:
    with pytest.raises(UntrustedServer) as refused:
        logs_in(replace(openssh.endpoint, host_key="SHA256:" + "A" * 43))
    assert fingerprint(openssh.inbox.parent.parent / "host_key_ed25519.pub") in str(refused.value)


# Logins by key


@pytest.mark.parametrize(
    ("kind", "passphrase", "pem"),
    [
        ("ed25519", "", False),
        ("ed25519", "canary phrase", False),
        ("rsa", "canary phrase", True),
        ("ecdsa", "", True),
        ("rsa", "", False),
    ],
)
def test_every_kind_of_private_key_logs_in(openssh: SftpPeer, tmp_path: Path, kind: str, passphrase: str, pem: bool) -> None:
    key = generate_key(tmp_path / "key", kind, passphrase=passphrase, pem=pem)
    with (openssh.inbox.parent.parent / "authorized_keys").open("a") as file:
        file.write((tmp_path / "key.pub").read_text())
    logs_in(replace(openssh.endpoint, key_file=key, key_passphrase=SecretStr(passphrase)))


def test_a_key_that_the_server_does_not_know_is_refused(openssh: SftpPeer, tmp_path: Path) -> None:
    key = generate_key(tmp_path / "key", "ed25519")
    with pytest.raises(Unreachable, match="refused the key of user root"):
        logs_in(replace(openssh.endpoint, key_file=key))


def test_a_key_file_that_cannot_be_used_is_a_configuration_error(openssh: SftpPeer, tmp_path: Path) -> None:
    locked = generate_key(tmp_path / "locked", "ed25519", passphrase="canary phrase")
    (tmp_path / "text").write_text("not a key")
    for key, phrase in ((locked, ""), (locked, "canary wrong"), (tmp_path / "text", ""), (tmp_path / "absent", "")):
        with pytest.raises(ConfigurationError, match="partner_key") as refused:
            logs_in(replace(openssh.endpoint, key_file=key, key_passphrase=SecretStr(phrase)))
        assert "canary" not in str(refused.value)


def test_neither_key_nor_password_is_a_configuration_error(openssh: SftpPeer) -> None:
    """The keys of the user's agent or of ~/.ssh must never log in by themselves."""
    with pytest.raises(ConfigurationError, match="neither a password nor a key"):
        logs_in(replace(openssh.endpoint, key_file=None))


def test_the_sandbox_lets_an_authorised_key_in_and_no_other_user(tmp_path: Path) -> None:
    generate_key(tmp_path / "key", "ed25519")
    with asyncssh_peer(tmp_path, authorized_keys=tmp_path / "key.pub") as peer:
        by_key = replace(peer.endpoint, password=SecretStr(""), key_file=tmp_path / "key")
        logs_in(by_key)
        with pytest.raises(Unreachable, match=r"does not accept|refused"):
            logs_in(replace(by_key, user="other"))
        with_both = replace(peer.endpoint, key_file=generate_key(tmp_path / "stranger", "ed25519"))
        logs_in(with_both)


def _end_sessions_of(peer: Peer) -> None:
    """Ends sshd's children, which hold one session each."""
    assert isinstance(peer, SftpPeer)
    children = Path(f"/proc/{peer.process.pid}/task/{peer.process.pid}/children").read_text().split()
    assert children
    subprocess.run(["kill", "-9", *children], check=True)

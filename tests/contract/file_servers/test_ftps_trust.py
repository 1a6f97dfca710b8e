"""TLS: who is not proven to be the server gets no password and lists nothing."""

import hashlib
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from opsguard_defs.sandbox.servers.certificate import write_self_signed
from resources.errors import ConfigurationError, Unreachable, UntrustedServer
from resources.file_servers import open_server
from resources.file_servers.connect import Patience
from resources.file_servers.endpoint import Endpoint, Profile
from tests.contract.file_servers.quick import QUICK
from tests.patience import PATIENCE_SECONDS
from tests.servers.ftp import sandbox_ftp_peer
from tests.servers.ftp_faults import Faults, faulty_ftp
from tests.servers.peer import Peer
from tests.servers.proftpd import proftpd_peer
from tests.servers.vsftpd import vsftpd_peer

_AUTHORITY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module", params=["explicit", "implicit"])
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with sandbox_ftp_peer(tmp_path_factory.mktemp("ftps"), tls=request.param) as running:
        yield running


def refused(endpoint: Endpoint, *, patience: Patience = QUICK) -> Unreachable:
    with pytest.raises(Unreachable) as raised, open_server(endpoint, patience=patience).reader():
        pytest.fail("let in")
    return raised.value


def logins(peer: Peer) -> int:
    assert peer.log is not None
    return peer.log.read_text().count('"login"') if peer.log.exists() else 0


def test_an_unknown_certificate_is_refused_with_its_fingerprint_and_how_to_pin_it(peer: Peer) -> None:
    before = logins(peer)
    assert peer.endpoint.ca_file is not None
    digits = hashlib.sha256(ssl.PEM_cert_to_DER_cert(peer.endpoint.ca_file.read_text())).hexdigest()
    with open_server(peer.endpoint).reader() as session:
        fingerprint = session.identity.fingerprint
    assert fingerprint.removeprefix("SHA256:").replace(":", "").lower() == digits
    error = refused(peer.at(ca_file=None))
    assert isinstance(error, UntrustedServer)
    assert fingerprint in str(error)
    assert "partner_ca_file" in str(error)
    assert logins(peer) == before + 1


def test_a_certificate_that_an_unknown_authority_signed_can_be_pinned_by_the_command_that_the_refusal_prints(
    tmp_path: Path,
) -> None:
    """The file that the advice made held the server's certificate only, and OpenSSL wanted the root as well; the command never ended."""
    write_signed_by_unknown_authority(tmp_path)
    with sandbox_ftp_peer(tmp_path, tls="explicit") as peer:
        said = str(refused(peer.at(ca_file=None)))
        command = said[said.index("openssl s_client") :].removesuffix(".")
        made = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
        assert made.returncode == 0, (command, made.stderr)
        with open_server(peer.at(ca_file=tmp_path / "partner-cert.pem"), patience=QUICK).reader() as session:
            assert session.list("/inbox", limit=10).is_complete
            assert session.identity.fingerprint in said


def test_pinning_one_certificate_trusts_no_other_of_the_same_authority(tmp_path: Path) -> None:
    write_signed_by_unknown_authority(tmp_path)
    pinned = tmp_path / "pinned.pem"
    (tmp_path / "cert.pem").rename(pinned)
    write_signed_by_unknown_authority(tmp_path)
    with sandbox_ftp_peer(tmp_path, tls="implicit") as peer:
        assert isinstance(refused(peer.at(ca_file=pinned)), UntrustedServer)


def write_signed_by_unknown_authority(base: Path) -> None:
    """`cert.pem` and `key.pem`; the authority signs more than one, and its own certificate is kept nowhere."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority that nobody knows")])
    secret = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "partner")]))
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(_AUTHORITY.public_key()), critical=False)
        .sign(_AUTHORITY, hashes.SHA256())
    )
    (base / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (base / "key.pem").write_bytes(secret.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))


def test_a_changed_certificate_is_refused(peer: Peer, tmp_path: Path) -> None:
    write_self_signed(cert=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    assert isinstance(refused(peer.at(ca_file=tmp_path / "cert.pem")), UntrustedServer)


def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    """The authority is trusted, but its certificate names somebody else."""
    write_self_signed(cert=tmp_path / "cert.pem", key=tmp_path / "key.pem", hosts=("ftp.other.example",))
    with sandbox_ftp_peer(tmp_path, tls="explicit") as peer:
        error = refused(peer.endpoint)
        assert isinstance(error, UntrustedServer)
        assert "127.0.0.1" in str(error)
        assert logins(peer) == 0


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_ca_file_that_cannot_be_read_is_a_setting_to_mend(peer: Peer, tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with (
        pytest.raises(ConfigurationError, match="partner_ca_file"),
        open_server(peer.at(ca_file=file), patience=QUICK).reader(),
    ):
        pytest.fail("let in")


def test_both_tls_versions_work_and_the_older_can_be_asked_for(peer: Peer) -> None:
    for version in ("1.2", "1.3"):
        with open_server(peer.at(profile=Profile(max_tls_version=version)), patience=QUICK).reader() as session:
            assert session.list("/inbox", limit=10).is_complete


def test_the_wrong_kind_of_tls_is_said_and_not_waited_for_long(peer: Peer) -> None:
    other: Literal["ftps", "ftps-implicit"] = "ftps" if peer.endpoint.scheme == "ftps-implicit" else "ftps-implicit"
    impatient = replace(QUICK, connect_seconds=2, stall_seconds=2)  # each waits for the other to begin
    assert "partner" in str(refused(replace(peer.endpoint, scheme=other), patience=impatient))


def test_a_server_without_tls_gets_neither_user_nor_password() -> None:
    """Falling back to cleartext is what an attacker between would like."""
    with faulty_ftp(Faults()) as server:
        error = refused(replace(server.endpoint(), scheme="ftps"))
        assert isinstance(error, UntrustedServer)
        assert "offers no TLS" in str(error)
        assert (server.said("USER"), server.said("AUTH")) == (0, 1)


def test_a_server_that_wants_tls_refuses_plain_ftp(peer: Peer) -> None:
    if peer.endpoint.scheme == "ftps":
        error = refused(peer.at(scheme="ftp", profile=Profile(allow_cleartext=True)))
        assert "TLS required" in str(error)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("maker", ["vsftpd", "vsftpd implicit", "proftpd", "proftpd implicit"])
def test_servers_that_demand_the_control_session_get_it_on_every_data_connection(
    tmp_path: Path, maker: str, version: Literal["1.2", "1.3"]
) -> None:
    """Without it: 522 or 425, or the handshake ends, and the listing with it."""
    implicit = maker.endswith("implicit")
    running = (
        vsftpd_peer(tmp_path, tls=True, implicit=implicit)
        if maker.startswith("vsftpd")
        else proftpd_peer(tmp_path, mode="ftps-implicit" if implicit else "ftps")
    )
    with running as peer:
        folder = peer.folder("case")
        folder.put("feed.csv", b"12345")
        with open_server(peer.at(profile=Profile(max_tls_version=version)), patience=QUICK).reader() as session:
            for _ in range(40):
                assert session.list(folder.path, limit=10).is_complete
            assert b"".join(session.read(folder.path, "feed.csv", ceiling_bytes=10)) == b"12345"

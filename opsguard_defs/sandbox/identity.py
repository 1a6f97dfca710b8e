"""By what the sandbox's servers are recognised and entered: SSH host keys, a TLS certificate with its own authority, passwords.

Random, made at the first start and kept: host-key fingerprints are part of a plan's scope, so new ones would end every open approval.
"""

import secrets
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from opsguard_defs.sandbox.layout import Layout, write_private

CERTIFICATE_DAYS = 365
RENEW_DAYS = 30
"""A certificate with fewer days left is replaced at the next start."""


def password_file(layout: Layout, server: str) -> Path:
    """0600, made when missing: 192 random bits, only URL-safe characters, so that it also works inside a client's URL."""
    path = layout.identity / f"{server}.password"
    if not path.exists():
        write_private(
            path, secrets.token_urlsafe(24).replace("-", "x") + "\n"
        )  # a leading dash reads as an option in some clients
    return path


def read_password(layout: Layout, server: str) -> str:
    return password_file(layout, server).read_text(encoding="ascii").strip()


def host_key(layout: Layout, server: str) -> Path:
    """An OpenSSH private key (Ed25519), made when missing."""
    path = layout.identity / f"{server}.host_key"
    if not path.exists():
        key = ed25519.Ed25519PrivateKey.generate()
        write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return path


def public_host_key(layout: Layout, server: str) -> str:
    """`ssh-ed25519 AAAA...`"""
    key = load_ssh_private_key(host_key(layout, server).read_bytes(), password=None)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def certificate(layout: Layout) -> tuple[Path, Path, Path]:
    """(certificate, its private key, the authority to verify it with), for 127.0.0.1 and localhost; made when missing or nearly over."""
    paths = (layout.identity / "tls.crt", layout.identity / "tls.key", layout.identity / "ca.crt")
    if not all(path.exists() for path in paths) or _days_left(paths[0]) < RENEW_DAYS:
        for path, content in zip(paths, _issue(), strict=True):
            write_private(path, content)
    return paths


def _days_left(path: Path) -> float:
    ends_at = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    return (ends_at - datetime.now(UTC)) / timedelta(days=1)


def _issue() -> tuple[bytes, bytes, bytes]:
    """The authority's key is forgotten at once: nobody can sign a second certificate with it."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpsGuard sandbox authority")])
    authority = (
        _builder(authority_key, subject=authority_name, issuer=authority_name, issuer_key=authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpsGuard sandbox")])
    leaf = (
        _builder(key, subject=subject, issuer=authority_name, issuer_key=authority_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("localhost")]), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return leaf.public_bytes(Encoding.PEM), private, authority.public_bytes(Encoding.PEM)


def _builder(
    key: ec.EllipticCurvePrivateKey, *, subject: x509.Name, issuer: x509.Name, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=25))  # a client whose clock is a zone off still verifies it
        .not_valid_after(now + timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )

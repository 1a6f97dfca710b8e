"""A self-signed certificate for loopback, good for a week: the sandbox's FTPS servers show it, its clients trust exactly it."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_self_signed(*, cert: Path, key: Path, days: int = 7, hosts: Sequence[str] = ("localhost", "127.0.0.1")) -> None:
    """PEM files for these host names and addresses, the key readable by its owner only. `cert` serves clients as `ca_file`.

    It carries every extension that Python 3.13's strict verification asks of an authority.
    """
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpsGuard sandbox")])
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    identity = x509.SubjectKeyIdentifier.from_public_key(secret.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identity, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_alternative(host) for host in hosts]),
            critical=False,
        )
        .sign(secret, hashes.SHA256())
    )
    key.touch(mode=0o600)
    key.write_bytes(
        secret.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

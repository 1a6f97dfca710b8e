"""One SFTP connection: TCP, host key, login, session. In that order, and nothing is told to a server before its key is known.

paramiko's own look-ups (agent, ~/.ssh keys, ~/.ssh/known_hosts) are never used: what is not in the settings does not log in.
"""

import io
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from resources.errors import ConfigurationError, Transient, Unreachable
from resources.file_servers.connect import Patience, dial, hang_up, shown
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import ServerIdentity
from resources.file_servers.sftp_host_keys import HostKey, TrustedKeys, trusted_keys, untrusted
from resources.file_servers.sftp_protocol import Session, SessionLost

# paramiko reports each failure on its logger too, with a traceback; ours is raised. Without a handler Python would print it.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_CIPHERS: Final = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
"""AES-GCM first: one pass instead of cipher and MAC. CBC and 3DES are not offered."""
_MACS: Final = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")

_KEY_FAMILIES: Final = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)
"""A fingerprint does not say of what type its key is: each family is asked for in turn, one connection each."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Logged in. `close` says goodbye without waiting."""

    session: Session
    identity: ServerIdentity
    transport: paramiko.Transport

    def close(self) -> None:
        self.transport.close()


class StallingSocket(socket.socket):
    """paramiko retries a blocked `send` for ever: a server that stops reading would hang an upload. This one gives up."""

    stall_seconds: float = 0.0
    _blocked_since: float = 0.0

    def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
        try:
            sent = super().send(data, flags)
        except TimeoutError:
            self._blocked_since = self._blocked_since or time.monotonic()
            if time.monotonic() - self._blocked_since > self.stall_seconds:
                raise ConnectionAbortedError(f"the server took nothing for {self.stall_seconds:g} s") from None
            raise
        self._blocked_since = 0.0
        return sent


class LoginRefused(Unreachable):
    """The server answered: no. Not tried again."""


def connect(endpoint: Endpoint, patience: Patience) -> Connection:
    """One attempt. `UntrustedServer`, `Transient`, `Unreachable` (a wrong password among them), `ConfigurationError` (nothing contacted)."""
    trusted = trusted_keys(endpoint)
    key = _private_key(endpoint)
    password = endpoint.password.get_secret_value()
    if key is None and not password:
        raise ConfigurationError(
            f"{endpoint.side}: neither a password nor a key file is set for {endpoint.shown}: "
            f"set {endpoint.side}_key or the {endpoint.side} password's environment variable"
        )
    try:
        return _connect(endpoint, trusted, key, patience)
    except LoginRefused:
        if key is None or not password:
            raise
        # On a fresh connection: asyncssh closes one on which paramiko begins a second way to log in.
        return _connect(endpoint, trusted, None, patience)


def _connect(endpoint: Endpoint, trusted: TrustedKeys, key: paramiko.PKey | None, patience: Patience) -> Connection:
    transport, seen = _trusted_transport(endpoint, trusted, patience)
    try:
        with _deadline(transport, endpoint, "logging in", patience.stall_seconds):
            _log_in(transport, endpoint, key)
        with _deadline(transport, endpoint, "opening the SFTP session", patience.stall_seconds):
            channel = transport.open_session(timeout=patience.stall_seconds)
            channel.invoke_subsystem("sftp")
            session = Session(channel, stall_seconds=patience.stall_seconds)
    except BaseException:
        transport.close()
        raise
    identity = ServerIdentity(host=endpoint.host, port=endpoint.port, protocol="sftp", fingerprint=seen.fingerprint)
    return Connection(session, identity, transport)


def _trusted_transport(endpoint: Endpoint, trusted: TrustedKeys, patience: Patience) -> tuple[paramiko.Transport, HostKey]:
    """Encrypted to a server whose key is pinned; raises `UntrustedServer` with the first key seen otherwise."""
    orders = _orders(trusted)
    first_seen: HostKey | None = None
    for number, order in enumerate(orders):
        transport = _transport(endpoint, order, patience)
        try:
            with _deadline(transport, endpoint, "the SSH key exchange", patience.connect_seconds * 2):
                transport.start_client()
            shown_key = transport.get_remote_server_key()
            seen = HostKey(shown_key.get_name(), shown_key.asbytes())
        except BaseException as error:
            transport.close()
            if first_seen is not None and number and isinstance(error, Unreachable) and not isinstance(error, Transient):
                continue  # it has no key of this family
            raise
        if trusted.trusts(seen):
            return transport, seen
        transport.close()
        first_seen = first_seen or seen
        if seen.blob in trusted.revoked:
            break
    assert first_seen is not None  # the first round either raises or sees a key
    raise untrusted(endpoint, trusted, first_seen)


def _orders(trusted: TrustedKeys) -> list[tuple[str, ...]]:
    """Host key algorithms to offer, per connection."""
    everything = tuple(name for family in _KEY_FAMILIES for name in family)
    if not trusted.fingerprint:
        wanted = tuple(name for name in trusted.algorithms if name in everything)
        return [wanted + tuple(name for name in everything if name not in wanted)]
    return [everything, *_KEY_FAMILIES[1:]]


def _transport(endpoint: Endpoint, key_types: tuple[str, ...], patience: Patience) -> paramiko.Transport:
    dialled = dial(endpoint, patience=patience)
    connection = StallingSocket(fileno=dialled.detach())
    connection.stall_seconds = patience.stall_seconds
    try:
        transport = paramiko.Transport(connection)
        options = transport.get_security_options()
        options.ciphers = _CIPHERS
        options.digests = _MACS
        options.key_types = key_types
    except BaseException:
        hang_up(connection)
        raise
    transport.banner_timeout = patience.connect_seconds
    transport.handshake_timeout = patience.connect_seconds
    transport.auth_timeout = patience.stall_seconds
    return transport


@contextmanager
def _deadline(transport: paramiko.Transport, endpoint: Endpoint, step: str, seconds: float) -> Iterator[None]:
    """Ends a step that paramiko would wait for without limit, and says which step it was."""
    expired = threading.Event()

    def give_up() -> None:
        expired.set()
        transport.close()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (paramiko.SSHException, SessionLost, EOFError, OSError) as error:
        if expired.is_set():
            raise Unreachable(
                f"{endpoint.side}: {step} at {endpoint.host}:{endpoint.port} was not finished in {seconds:g} s: "
                "the server hangs, or it is not an SFTP server"
            ) from error
        raise _explained(endpoint, step, error) from error
    finally:
        timer.cancel()


def _explained(endpoint: Endpoint, step: str, error: Exception) -> Unreachable:
    where = f"{endpoint.side}: {step} at {endpoint.host}:{endpoint.port}"
    reason = shown(str(error) or type(error).__name__)
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return Unreachable(f"{where} failed: client and server have no algorithm in common ({reason})")
    if isinstance(error, paramiko.ChannelException):
        return Unreachable(f"{where} was refused ({reason}): may {endpoint.user} use SFTP there?")
    return Transient(f"{where} failed: the server closed the connection or does not speak SSH ({reason})")


def _private_key(endpoint: Endpoint) -> paramiko.PKey | None:
    """Loaded by cryptography, which knows every format; `PKey.from_path` of paramiko 5.1 opens no key that has a passphrase."""
    if endpoint.key_file is None:
        return None
    passphrase = endpoint.key_passphrase.get_secret_value() or None
    try:
        data = endpoint.key_file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{endpoint.side}_key = {endpoint.key_file} cannot be read: {error.strerror}") from error
    try:
        return _key_class(data, passphrase).from_private_key(io.StringIO(data.decode()), passphrase)
    except (ValueError, TypeError, KeyError, UnsupportedAlgorithm, paramiko.SSHException):
        # Without the cause: its text may quote the file.
        raise ConfigurationError(
            f"{endpoint.side}_key = {endpoint.key_file} is not a private key that its passphrase opens: "
            "it must be an Ed25519, ECDSA or RSA key in OpenSSH or PEM format"
        ) from None


def _key_class(data: bytes, passphrase: str | None) -> type[paramiko.PKey]:
    password = passphrase.encode() if passphrase else None
    try:
        loaded: object = serialization.load_ssh_private_key(data, password)
    except ValueError:
        loaded = serialization.load_pem_private_key(data, password)
    match loaded:
        case ed25519.Ed25519PrivateKey():
            return paramiko.Ed25519Key
        case ec.EllipticCurvePrivateKey():
            return paramiko.ECDSAKey
        case rsa.RSAPrivateKey():
            return paramiko.RSAKey
        case _:
            raise ValueError("another kind of key")


def _log_in(transport: paramiko.Transport, endpoint: Endpoint, key: paramiko.PKey | None) -> None:
    """By key where there is one, then by password when the server asks for both."""
    password = endpoint.password.get_secret_value()
    where = f"{endpoint.side}: {endpoint.host}:{endpoint.port}"
    way = "password" if key is None else "key"
    try:
        if key is not None:
            transport.auth_publickey(endpoint.user, key)
        if password and not transport.is_authenticated():
            way = "password" if key is None else "key and password"
            transport.auth_password(endpoint.user, password)
    except paramiko.BadAuthenticationType as error:
        offered = ", ".join(shown(str(offer)) for offer in error.allowed_types)
        raise LoginRefused(f"{where} does not accept a {way} from user {endpoint.user}; it offers: {offered}") from None
    except paramiko.AuthenticationException as error:
        if not transport.is_active() or "timeout" in str(error).lower():
            raise paramiko.SSHException(str(error)) from None
        raise LoginRefused(
            f"{where} refused the {way} of user {endpoint.user}: check user and credentials; "
            "this is not tried again, so that the account is not locked"
        ) from None
    if not transport.is_authenticated():
        raise LoginRefused(f"{where} wants more than the {way} of user {endpoint.user}: set a password or a key as well")

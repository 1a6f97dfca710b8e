"""Which SSH host keys are trusted, and what an operator is told about one that is not.

Only pinned keys: `host_key` in the settings or a `known_hosts` file (plain, hashed, `[host]:port`, wildcards, `!not`, `@revoked`).
Nothing is ever trusted because it was the first to be seen, and the user's own ~/.ssh is not read.
"""

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from guards.text import one_line
from resources.errors import ConfigurationError, UntrustedServer
from resources.file_servers.endpoint import Endpoint

_FINGERPRINT: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_KEY_TYPE: Final = re.compile(r"(ssh-[a-z0-9]+|ecdsa-sha2-nistp(256|384|521))")
_DEFAULT_PORT: Final = 22

_ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
"""Negotiated names where they differ from the key's own type. SHA-1 signatures (`ssh-rsa`) are not offered at all."""


@dataclass(frozen=True, slots=True)
class HostKey:
    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    @property
    def line(self) -> str:
        return f"{self.type} {base64.b64encode(self.blob).decode()}"


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """What was pinned for one server. `configured` says in words where from; "" when nothing was."""

    keys: frozenset[HostKey] = frozenset()
    fingerprint: str = ""
    revoked: frozenset[bytes] = frozenset()
    configured: str = ""

    def trusts(self, seen: HostKey) -> bool:
        if seen.blob in self.revoked:
            return False
        return seen in self.keys or (bool(self.fingerprint) and hmac.compare_digest(self.fingerprint, seen.fingerprint))

    @property
    def algorithms(self) -> tuple[str, ...]:
        """To be asked for first: a server with several keys must show the pinned one."""
        types = sorted({key.type for key in self.keys})
        return tuple(name for key_type in types for name in _ALGORITHMS.get(key_type, (key_type,)))


def trusted_keys(endpoint: Endpoint) -> TrustedKeys:
    """Reads the pins. `ConfigurationError` for a malformed `host_key` or a file that cannot be read; a missing file pins nothing."""
    if endpoint.host_key:
        return _from_setting(endpoint)
    if endpoint.known_hosts is None:
        return TrustedKeys()
    return _from_file(endpoint.known_hosts, host_id(endpoint), endpoint.side)


def host_id(endpoint: Endpoint) -> str:
    """As known_hosts spells it."""
    host = endpoint.host.lower()
    return host if endpoint.port == _DEFAULT_PORT else f"[{host}]:{endpoint.port}"


def untrusted(endpoint: Endpoint, trusted: TrustedKeys, seen: HostKey) -> UntrustedServer:
    """The sentence: what was seen, what was expected, and exactly how to pin it."""
    server = f"the {endpoint.side} server {endpoint.host}:{endpoint.port}"
    shown = f"{server} shows the host key {seen.type} {seen.fingerprint}"
    pinned = trusted.fingerprint or ", ".join(sorted(key.fingerprint for key in trusted.keys))
    if seen.blob in trusted.revoked:
        return UntrustedServer(
            f"{shown}, which {trusted.configured} revokes. Nothing was sent or listed. Do not use this server."
        )
    if pinned:
        problem = f"{shown}, but {trusted.configured} pins {pinned}: the key was changed, or this is another server"
    elif trusted.configured:
        problem = f"{shown}, and {trusted.configured} holds no key for {host_id(endpoint)}"
    else:
        problem = f"{shown}, and no host key is pinned for it"
    file = endpoint.known_hosts or "your known_hosts file"
    return UntrustedServer(
        f"{problem}. Nothing was sent or listed. Ask the server's operator, by another way, whether this fingerprint is theirs. "
        f'If it is, pin it in opsguard.toml: {endpoint.side}_host_key = "{seen.line}" '
        f"or add this line to {file}: {host_id(endpoint)} {seen.line}"
    )


def _from_setting(endpoint: Endpoint) -> TrustedKeys:
    name = f"{endpoint.side}_host_key"
    text = endpoint.host_key.strip()
    if _FINGERPRINT.fullmatch(text.rstrip("=")):
        return TrustedKeys(fingerprint=text.rstrip("="), configured=name)
    words = text.split()
    if len(words) > 1 and not _KEY_TYPE.fullmatch(words[0]):
        words = words[1:]  # a whole known_hosts line, as ssh-keyscan prints it
    key = _key(words)
    if key is None:
        raise ConfigurationError(
            f"{name} is neither a key (`ssh-ed25519 AAAA...`) nor a fingerprint (`SHA256:` and 43 characters): {one_line(text)}"
        )
    return TrustedKeys(keys=frozenset({key}), configured=name)


def _from_file(path: Path, host: str, side: str) -> TrustedKeys:
    try:
        lines = path.read_text("utf-8", "surrogateescape").splitlines()
    except FileNotFoundError:
        lines = []
    except OSError as error:
        raise ConfigurationError(f"{side}_known_hosts = {path} cannot be read: {error.strerror}") from error
    keys: set[HostKey] = set()
    revoked: set[bytes] = set()
    for line in lines:
        marker, words = "", line.split()
        if words and words[0].startswith("@"):
            marker, words = words[0], words[1:]
        if len(words) < 3 or words[0].startswith("#") or not _names_host(words[0], host):
            continue
        key = _key(words[1:])
        if key is not None and marker == "@revoked":
            revoked.add(key.blob)
        elif key is not None and not marker:
            keys.add(key)
    return TrustedKeys(keys=frozenset(keys), revoked=frozenset(revoked), configured=str(path))


def _key(words: list[str]) -> HostKey | None:
    """`type base64 [comment]`; the type inside the blob must be the one outside."""
    if len(words) < 2 or not _KEY_TYPE.fullmatch(words[0]):
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    named = words[0].encode()
    return HostKey(words[0], blob) if blob.startswith(len(named).to_bytes(4, "big") + named) else None


def _names_host(patterns: str, host: str) -> bool:
    if patterns.startswith("|"):
        return _hash_names_host(patterns, host)
    named = False
    for pattern in patterns.lower().split(","):
        wanted = pattern.removeprefix("!")
        if _fits(wanted, host):
            if pattern.startswith("!"):
                return False
            named = True
    return named


def _fits(pattern: str, host: str) -> bool:
    """OpenSSH's `*` and `?`; brackets are literal, they belong to `[host]:port`."""
    return fnmatchcase(host, pattern.replace("[", "[[]"))


def _hash_names_host(entry: str, host: str) -> bool:
    """`|1|salt|hash`: HMAC-SHA1 of the host under the salt, as `ssh-keygen -H` writes it."""
    parts = entry.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    try:
        salt, wanted = (base64.b64decode(part, validate=True) for part in parts[2:])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, host.encode(), hashlib.sha1).digest(), wanted)

"""URLs of file servers: `scheme://user@host:port/directory`, read by a closed grammar.

A URL in a settings file ends up in plans, logs and on pages, so a password in one is refused, and no message repeats the URL.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import get_args
from urllib.parse import unquote

from resources.file_servers.endpoint import DEFAULT_PORTS, Scheme

SHAPE = "scheme://user@host:port/directory, where scheme is ftp, ftps, ftps-implicit or sftp"

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<directory>/[^?#]*)?(?P<rest>[?#].*)?", re.DOTALL
)
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """`directory` is absolute, without `.`, `..`, doubled or trailing slashes. `host` is lower case, IPv6 without brackets."""

    scheme: Scheme
    user: str
    host: str
    port: int
    directory: str

    @property
    def place(self) -> tuple[str, int, str]:
        """Two URLs with one place are one directory, whoever logs in."""
        return (self.host, self.port, self.directory)


def parse_server_url(text: str) -> ServerUrl:
    """Raises `ValueError` with a sentence that says what is allowed and never repeats the text."""
    if not text.isprintable() or " " in text:
        raise ValueError("the URL holds a blank or a control character: write blanks as %20")
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError(f"that is not a URL: it must look like {SHAPE}")
    scheme = _scheme(found["scheme"])
    if found["rest"]:
        raise ValueError("a query or fragment (? or #) has no meaning here: write a # or ? in a directory as %23 or %3F")
    user, host, port = _authority(found["authority"], scheme)
    if not found["directory"]:
        raise ValueError(f"the directory is missing: {SHAPE}")
    return ServerUrl(scheme, user, host, port, clean_directory(_decoded(found["directory"], "the directory", keep="/")))


def clean_directory(text: str) -> str:
    """An absolute directory in its one spelling. Raises `ValueError`."""
    if not text.startswith("/"):
        raise ValueError("a directory must be absolute: begin it with /")
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        raise ValueError("a directory must not hold control characters")
    parts = [part for part in text.split("/") if part]
    if any(part in {".", ".."} for part in parts):
        raise ValueError("a directory must not hold . or .. as a part of its path")
    if len(text.encode("utf-8", "surrogatepass")) > 1000:
        raise ValueError("a directory may have 1000 bytes at most")
    return "/" + "/".join(parts)


def _scheme(text: str) -> Scheme:
    for known in get_args(Scheme):
        if text.lower() == known:
            scheme: Scheme = known
            return scheme
    raise ValueError("unknown scheme: ftp, ftps (explicit TLS), ftps-implicit and sftp are known")


def _authority(text: str, scheme: Scheme) -> tuple[str, str, int]:
    userinfo, at, address = text.rpartition("@")
    if ":" in userinfo or (at and "@" in userinfo):
        raise ValueError(
            "a password in a URL is refused, because URLs are shown: take it out, and set the environment variable for it"
        )
    user = _decoded(userinfo, "the user")
    if not user:
        raise ValueError(f"the user is missing: {SHAPE}")
    if len(user) > 255 or ":" in user or any(ord(character) < 32 or 127 <= ord(character) < 160 for character in user):
        raise ValueError("the user must be 1 to 255 characters, without a colon or control characters")
    if address.startswith("["):
        inside, closed, port = address[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            raise ValueError("an IPv6 address is written in brackets: [::1]:22")
        return user, _ipv6(inside), _port(port[1:] if port else "", scheme)
    host, _, port = address.partition(":")
    return user, _host(host), _port(port, scheme) if ":" in address else DEFAULT_PORTS[scheme]


def _ipv6(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise ValueError("what stands in brackets is not an IPv6 address") from None


def _host(text: str) -> str:
    host = text.lower()
    bare = host.removesuffix(".")
    if not bare or len(bare) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in bare.split(".")):
        raise ValueError("the host must be a name of ASCII letters, digits, dots and hyphens, an IPv4 address, or [IPv6]")
    return host


def _port(text: str, scheme: Scheme) -> int:
    if not text:
        return DEFAULT_PORTS[scheme]
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise ValueError("the port must be a number from 1 to 65535")
    return int(text)


def _decoded(text: str, what: str, *, keep: str = "") -> str:
    """Percent-decoding; bytes that are not UTF-8 become lone surrogates, as in every name here. `%2F` is never a separator."""
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError(f"{what} holds a % that is not followed by two hex digits: write it as %25")
    if keep and re.search("%2f", text, re.IGNORECASE):
        raise ValueError(f"{what} holds %2F: an encoded slash cannot be part of a name")
    return unquote(text, errors="surrogateescape")

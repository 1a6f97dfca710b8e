"""Names and paths on their way to a server and back: exact bytes, single components, nothing that could end a command.

A name is text whose undecodable bytes are lone surrogates (PEP 383). Every name a server lists is listed; but a name that is no single
component, or that holds a line end, is never put into a command: `refusal` says why.
"""

from typing import Final

from resources.errors import ConfigurationError

_NEVER_SENT: Final = {"\0": "a NUL", "\r": "a carriage return", "\n": "a line feed", "/": "a slash", "\\": "a backslash"}
"""A backslash separates directories on Windows servers: `..\\x` would leave the inbox there."""
_LONGEST_BYTES: Final = 255
"""NAME_MAX of every file system a feed has come from; a command line of 512 bytes (RFC 959) still holds it."""


def decoded(raw: bytes) -> str:
    """Bytes from a server as text that gives exactly these bytes back."""
    return raw.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The inverse of `decoded`. Raises UnicodeEncodeError for surrogates that stand for no byte."""
    return text.encode("utf-8", "surrogateescape")


def refusal(name: str) -> str:
    """Why no server is asked about this name; "" when it may be asked."""
    if name in ("", ".", ".."):
        return "it is no file name"
    for character, what in _NEVER_SENT.items():
        if character in name:
            return f"it holds {what}"
    try:
        raw = encoded(name)
    except UnicodeEncodeError:
        return "it holds a surrogate that stands for no byte"
    if b"\xff" in raw:
        return "it holds the byte 0xFF, which FTP servers read as Telnet's escape: ProFTPD takes two of them for one"
    if len(raw) > _LONGEST_BYTES:
        return f"it is {len(raw)} bytes long, more than {_LONGEST_BYTES}"
    return ""


def directory_refusal(directory: str) -> str:
    """Why this is no directory to work in; "" when it is: absolute, without `.` and `..`, without line ends."""
    if not directory.startswith("/"):
        return "it is not absolute: begin it with a slash"
    if any(character in directory for character in "\0\r\n\\"):
        return "it holds a control character or a backslash"
    parts = directory.strip("/").split("/") if directory.strip("/") else []
    if any(part in ("", ".", "..") for part in parts):
        return "it holds an empty part, . or .."
    try:
        encoded(directory)
    except UnicodeEncodeError:
        return "it holds a surrogate that stands for no byte"
    return ""


def checked_directory(directory: str, *, side: str) -> str:
    """The directory, without a slash at the end. Raises `ConfigurationError`."""
    if why := directory_refusal(directory):
        raise ConfigurationError(f"{side}: {directory!a} cannot be a directory here: {why}")
    return directory.rstrip("/") or "/"


def joined(directory: str, name: str) -> str:
    """Absolute path of one entry: it begins with a slash, so no server takes it for an option or a time."""
    return f"{directory.rstrip('/')}/{name}"

"""What an answer of Slack proves about a message: posted, provably not, or nobody can tell."""

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

MOST_RETRY_AFTER_SECONDS: Final = 3600
CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,59}")
"""Slack's error codes; anything else in their place was not written by Slack."""
_MAYBE_POSTED: Final = frozenset({"internal_error", "fatal_error"})
"""Slack: "it's possible some aspect of the operation succeeded before the error was raised"."""


@dataclass(frozen=True, slots=True)
class Posted:
    """`ts` is Slack's identity of the message; "" from a webhook, which tells none."""

    ts: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Provably not posted. `retry_after` in seconds, when Slack said one."""

    code: str
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """It may or may not have been posted; `why` is for the log."""

    why: str


@dataclass(frozen=True, slots=True)
class Absent:
    """A look-up read the channel completely and the message is not there."""


Answer: TypeAlias = Posted | Rejected | Ambiguous


def refusal(status: int, code: str, headers: Mapping[str, str]) -> Answer:
    """What an answer without `ok` proves."""
    known = code if CODE.fullmatch(code) else f"http_{status}"
    if status == 429:
        return Rejected("ratelimited", _retry_after(headers))
    if status == 503 or code == "service_unavailable":
        return Rejected("service_unavailable", _retry_after(headers))
    if status >= 500 or code in _MAYBE_POSTED or (status < 400 and known.startswith("http_")):
        return Ambiguous(f"Slack answered {known}")
    return Rejected(known)


def _retry_after(headers: Mapping[str, str]) -> int | None:
    said = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    return min(max(int(said), 1), MOST_RETRY_AFTER_SECONDS) if re.fullmatch(r"[0-9]{1,9}", said) else None


def not_sent(reason: object) -> Rejected | None:
    """Failures that come before the first byte of the message."""
    if isinstance(reason, ConnectionRefusedError | socket.gaierror):
        return Rejected("unreachable")
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Rejected("untrusted_certificate")
    return Rejected("proxy_refused") if str(reason).startswith("Tunnel connection failed") else None

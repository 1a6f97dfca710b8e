"""What a provider does, whichever it is: one attempt per call, and an answer that says what was proven.

    sender = provider.writer(authorization, scope=...)               # sending asks for an authorization, looking up does not
    answer = sender.send(message, key=provider_key(held))            # once per grant; nothing in here tries again
    match answer:
        case Accepted(receipt): ...                                 # it said so, about this key
        case Rejected(code, why): ...                               # provably before acceptance
        case Ambiguous(why): ...                                    # anything else: doubt, for evidence or a person

Neither `send` nor `lookup` raises for anything that a network, a disk or the other side can cause. A wrong `Rejected` lets a second
message go out and a wrong `Accepted` loses one, so whatever is not proven is `Ambiguous`. `why` is one sentence for a log or a note:
printable, at most 300 characters, never a secret.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeAlias, final

from guards.canonical import Json
from guards.gate import Authorization, require_authentic

MOST_BODY_BYTES: Final = 32 * 1024
LONGEST_SUBJECT: Final = 200
LONGEST_DISPLAY: Final = 200
_JOINERS: Final = str.maketrans("", "", "\u200c\u200d")
"""Letters of Persian and Indic names are told apart by them; they are not printable to Python."""
_KEY: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Message:
    """`destination` is a route's address: a channel id, a webhook's name, a mail address, a directory's name.

    `body` is text, 32 KiB of UTF-8 at most. `subject` and `display` (the customer's name, for people) are one line each and may be "".
    """

    destination: str
    body: str
    subject: str = ""
    display: str = ""

    @property
    def body_sha256(self) -> str:
        """Over the UTF-8 bytes. `UnicodeEncodeError` for a body that has none."""
        return hashlib.sha256(self.body.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took it. `receipt` is what it said: small, never empty, never a secret."""

    receipt: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Rejected:
    """Provably not taken. `code` is `[a-z][a-z0-9_]*`, from us or from the provider's own closed set."""

    code: str
    why: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """It may or may not have been taken."""

    why: str


@dataclass(frozen=True, slots=True)
class Found:
    """The provider holds the message of this key."""

    receipt: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class NotFound:
    """Everything named in `searched` was read completely and the message is not there. It may have been there before."""

    searched: str


@dataclass(frozen=True, slots=True)
class CannotTell:
    why: str


Answer: TypeAlias = Accepted | Rejected | Ambiguous
Sighting: TypeAlias = Found | NotFound | CannotTell


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the other side can do. `says` is one sentence for the person who has to decide a doubt."""

    refuses_duplicates: bool
    """The same key a second time provably changes nothing."""
    says: str


@final
class Sender:
    """What can send. `attempt` is the provider's one attempt; `NotAuthorized` without an authorization of the gate's for `scope`."""

    def __init__(self, attempt: Callable[[Message, str], Answer], authorization: Authorization, *, scope: str) -> None:
        require_authentic(authorization, scope=scope)
        self._attempt = attempt

    def send(self, message: Message, *, key: str) -> Answer:
        """The one attempt. `key` is that of the reservation (`guards.delivery.message.provider_key`), 32 hex digits."""
        return self._attempt(message, key)


class Provider(Protocol):
    """It looks up. What sends is opened by `writer`, as with every other outside system."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def writer(self, authorization: Authorization, *, scope: str) -> Sender: ...

    def asks(self, message: Message) -> str:
        """Who is asked by a `lookup` of this message: one name for all that is waited for together. "" when nobody can be."""
        ...

    def lookup(self, key: str, *, message: Message, since: datetime, until: datetime) -> Sighting:
        """Is the message of this key there? It can have been taken between `since` and `until` only. Changes nothing."""
        ...


def unfit(message: Message, key: str) -> Rejected | None:
    """Why this is not sent at all, by any provider."""
    if not _KEY.fullmatch(key):
        return Rejected("invalid_key", "a key is 32 hex digits")
    try:
        size = len(message.body.encode())
    except UnicodeEncodeError:
        return Rejected("invalid_body", "the body is not text: it holds characters that UTF-8 cannot spell")
    if not size or not message.body.strip():
        return Rejected("empty_body", "the body is empty")
    if "\x00" in message.body:
        return Rejected("invalid_body", "the body holds a NUL")
    if size > MOST_BODY_BYTES:
        return Rejected("body_too_large", f"a body takes {MOST_BODY_BYTES:,} bytes at most, this has {size:,}")
    for name, line, longest in (
        ("subject", message.subject, LONGEST_SUBJECT),
        ("display name", message.display, LONGEST_DISPLAY),
    ):
        if len(line) > longest or not line.translate(_JOINERS).isprintable():
            return Rejected(f"invalid_{name.split(' ')[0]}", f"a {name} is one printable line of {longest} characters at most")
    return None

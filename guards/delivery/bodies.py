"""Bodies: what a message says. From a file that an upstream job drops, or rendered from an approved template; never cut, never repaired."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from guards.delivery.slot import Slot

MOST_BODY_BYTES: Final = 32 * 1024


@dataclass(frozen=True)
class Body:
    """Text of 32 KiB of UTF-8 at most, without NUL, not blank. `template` and its digest are "" for a body from the outbox."""

    text: str
    template: str = ""
    template_sha256: str = ""

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def size_bytes(self) -> int:
        return len(self.text.encode())


@dataclass(frozen=True, slots=True)
class NoBody:
    """`why` says what was found and what to do, as one sentence without its full stop."""

    why: str


@dataclass(frozen=True, slots=True)
class NoTemplate:
    """The rule's template is not one that somebody approved as it is."""

    why: str


def outbox_path(slot: Slot) -> tuple[str, str, str]:
    """Below the outbox: `<customer>/<period>/<kind>.md`. A slot's grammar has no dot and no slash, so no part leaves the outbox."""
    return (slot.customer, slot.period, f"{slot.kind}.md")


def body_of(data: bytes) -> Body | NoBody:
    """The body that an upstream job dropped. `data`: the file's bytes, or more of them than a body may have."""
    if len(data) > MOST_BODY_BYTES:
        return NoBody(f"its body has more than {MOST_BODY_BYTES:,} bytes: have the upstream job shorten it")
    if not data.strip():
        return NoBody("its body is empty: the upstream job dropped nothing but blanks")
    if b"\x00" in data:
        return NoBody("its body holds a NUL byte, so it is not text: have the upstream job write it again")
    try:
        return Body(data.decode("utf-8"))
    except UnicodeDecodeError as problem:
        return NoBody(f"its body is not UTF-8 (byte {problem.start}): have the upstream job write it again")

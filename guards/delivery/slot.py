"""Slots: what is owed once. A slot is filled by reservations, one attempt at a time; its key never changes.

Slot(customer="acme-1", period="2026-W48", kind="weekly").key == "acme-1:2026-W48:weekly"
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final

CUSTOMER_KEY: Final = re.compile(r"[a-z0-9][a-z0-9_-]{2,63}")
CUSTOMER_KEY_WORDS: Final = "3 to 64 of a-z, 0-9, dash and underscore, beginning with a letter or digit"
_PERIOD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
RESERVATION_DIGITS: Final = 32


def is_customer_key(text: str) -> bool:
    """The grammar of customer keys, in registries and everywhere else."""
    return CUSTOMER_KEY.fullmatch(text) is not None


class NotASlot(ValueError):
    """Outside the closed grammar of slot keys."""


class Kind(StrEnum):
    """What kind of effect a slot is for. `feed` is a file re-sent by guard `spool`."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    CUTOFF = "cutoff"
    REMINDER = "reminder"
    FEED = "feed"

    @property
    def may_fail_known(self) -> bool:
        """A proven "not accepted" is believed, and a person may then allow another attempt. For the others every failure is doubt,
        unless the reservation's pins say otherwise (`Pins.may_fail_known`)."""
        return self in (Kind.REMINDER, Kind.FEED)


_KINDS: Final = frozenset(kind.value for kind in Kind)


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """`customer` `[a-z0-9][a-z0-9_-]{2,63}`, `period` `[A-Za-z0-9][A-Za-z0-9_-]{0,127}`, `kind` a `Kind`; else `NotASlot`."""

    customer: str
    period: str
    kind: str

    def __post_init__(self) -> None:
        if not is_customer_key(self.customer):
            raise NotASlot(f"a customer key is {CUSTOMER_KEY_WORDS}")
        if not _PERIOD.fullmatch(self.period):
            raise NotASlot("a period is 1 to 128 of letters, digits, dash and underscore, and begins with a letter or digit")
        if self.kind not in _KINDS:
            raise NotASlot(f"a slot's kind is one of {', '.join(Kind)}")

    @property
    def key(self) -> str:
        return f"{self.customer}:{self.period}:{self.kind}"

    @property
    def rules(self) -> Kind:
        return Kind(self.kind)

    def reservation_id(self, attempt: int) -> str:
        """32 hex digits, the same wherever the ledger is kept: asking again for the same attempt finds it."""
        return _reservation_id(self.customer, self.period, self.kind, attempt)


@lru_cache(maxsize=4096)
def _reservation_id(customer: str, period: str, kind: str, attempt: int) -> str:
    named = f'{{"attempt":{attempt},"slot":"{customer}:{period}:{kind}"}}'  # canonical JSON: no key needs an escape
    return hashlib.sha256(named.encode("ascii")).hexdigest()[:RESERVATION_DIGITS]


def parse_slot(key: str) -> Slot:
    """The inverse of `Slot.key`; `NotASlot` for anything else."""
    parts = key.split(":")
    if len(parts) != 3:
        raise NotASlot("a slot key is customer:period:kind")
    return Slot(*parts)


@dataclass(frozen=True, slots=True)
class Grant:
    """Held by the one caller that moved a reservation from `prepared` to `sending`: only it may call the provider, once."""

    slot: Slot
    reservation_id: str
    attempt: int
    fence: int
    holder: str
    lease_expires_at: datetime | None = None
    """By the store's clock; None where the lease ends with the holder's process."""

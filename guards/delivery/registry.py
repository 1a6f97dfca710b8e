"""The customers' registry: who is owed what, when, and by which route. Values only; `registry_file` reads the YAML.

Everything here was validated when it was read: a `Registry` that exists is a good one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from guards.canonical import Json
from guards.delivery.slot import Kind


class Provider(StrEnum):
    SLACK = "slack"
    WEBHOOK = "webhook"
    SMTP = "smtp"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a customer's messages go. `address` is what the provider needs and nothing secret: a channel id, the name of a webhook in
    the settings, a mail address, a directory name below `file_provider_dir`."""

    provider: Provider
    address: str

    def as_json(self) -> dict[str, Json]:
        return {"provider": self.provider.value, "address": self.address}


class UntilWindowEnd(StrEnum):
    """Catch-up windows that the calendar ends."""

    NONE = "none"
    """Due only in the minute it is due in: what was not sent then is missed."""
    UNTIL_MIDNIGHT = "until_midnight"
    UNTIL_WEEK_END = "until_week_end"
    UNTIL_MONTH_END = "until_month_end"


CatchUp: TypeAlias = UntilWindowEnd | timedelta
"""How long after the due time a slot that was not reserved may still be sent. A timedelta is positive, whole minutes, `LONGEST_CATCH_UP`
at most, and counts time as it passes: two days are 48 hours, whatever the clocks do."""

LONGEST_CATCH_UP: Final = timedelta(days=31)
TEMPLATE_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,58}-v[1-9][0-9]{0,3}")
"""The version is part of the name: another text is another template."""


class Overflow(StrEnum):
    """What day 31 means in a month that has none."""

    CLAMP = "clamp"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of message owed to one customer. `weekday` 0 (Monday) to 6 only with `weekly`, `day` 1 to 31 only with `monthly`,
    `not_after` only with `reminder` (then `at` is its not_before, and `catch_up` says nothing). Local wall-clock times, whole minutes."""

    kind: Kind
    at: time
    catch_up: CatchUp
    weekday: int = 0
    day: int = 1
    not_after: time | None = None
    overflow: Overflow = Overflow.CLAMP
    template: str = ""
    """Id of an approved template; "" when an upstream job drops the body into the outbox."""


@dataclass(frozen=True, slots=True)
class Customer:
    key: str
    display_name: str
    enabled: bool
    zone: str
    """IANA name."""
    route: Route
    rules: tuple[Rule, ...]
    """At most one per kind, in the order of `Kind`."""


class SlotIdentity(StrEnum):
    """What names a slot's period."""

    PERIOD = "period"
    """The period itself: date, ISO week, month. Moving a weekday never opens a second slot for the week."""
    DAY = "day"
    """The due date, for stores that have always used it."""


@dataclass(frozen=True, slots=True)
class Registry:
    """`digest` is SHA-256 of the file's bytes: a pin."""

    digest: str
    zone: str
    """The default one; the UI's day partitions are in it."""
    customers: Mapping[str, Customer]
    """By key, in the file's order."""
    slot_identity: SlotIdentity = SlotIdentity.PERIOD

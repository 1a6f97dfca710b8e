"""The guards that there are, one value each, and what the parts of one watch are called. Imports nothing heavy: the command line asks too.

A further guard is one more value here; runs, jobs, pages and commands take their names from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from assets.plan_words import Wording


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """`verb` ends the apply job's name, `written` is the asset that it writes, `checked` are those with closing checks."""

    name: str
    verb: str
    written: str
    checked: tuple[str, ...]
    wording: Wording
    entry: str
    """Head of the column of subjects."""
    unconfirmed: str
    """What to do about a write that ended without proof and without a sentence of its own."""


SPOOL: Final = Guard(
    name="spool",
    verb="redeliver",
    written="delivered_files",
    checked=("delivered_files",),
    wording=Wording(noun="feed", nouns="feeds", gap="not proven to have reached the partner"),
    entry="feed",
    unconfirmed="uploaded but not confirmed: look at the inbox by hand before the next run",
)
DELIVERY: Final = Guard(
    name="delivery",
    verb="send",
    written="sent",
    checked=("ledger",),
    wording=Wording(noun="message", nouns="messages", gap="owed and not proven to have been sent"),
    entry="slot",
    unconfirmed="called and not confirmed: `opsguard ledger show SLOT` says what is in doubt; it is never sent again by itself",
)
GUARDS: Final[Mapping[str, Guard]] = {guard.name: guard for guard in (SPOOL, DELIVERY)}


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts of one watch are called, in Dagster and elsewhere."""

    guard: Guard
    watch: str

    @property
    def label(self) -> str:
        """`spool/acme`: tag, lease and first words of a sentence."""
        return f"{self.guard.name}/{self.watch}"

    @property
    def group(self) -> str:
        return f"{self.guard.name}_{self.watch}"

    @property
    def apply_job(self) -> str:
        return self.named(self.guard.verb)

    @property
    def tags(self) -> dict[str, str]:
        return {"opsguard/guard": self.guard.name, "opsguard/watch": self.label}

    def named(self, what: str) -> str:
        """Of a job, an op, a sensor or a schedule: names are global in a code location."""
        return f"{self.group}_{what}"

    def path(self, thing: str) -> list[str]:
        """An asset's key, as a list."""
        return [self.guard.name, self.watch, thing]


def names_of(guard: str, watch: str) -> Names:
    return Names(GUARDS[guard], watch)

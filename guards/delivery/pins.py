"""Pins: what a reservation is for, fixed over its life. Equal pins are the same request; others are refused."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from guards.canonical import Json, canonical_json
from guards.delivery.nesting import MOST_NESTED, is_too_deep
from guards.stored import is_sha256

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
MOST_BYTES: Final = 48 * 1024
"""Of canonical JSON: a row, which is 64 KiB at most, holds its pins and then some. A body of 32 KiB fits."""
AUTHORITY: Final = frozenset(
    {
        "authority",
        "customer_identity",
        "candidate",
        "canonical_registry",
        "canonical_binding",
        "sidecar_authority",
        "sidecar_history",
        "ledger_authority",
        "owner",
        "consent",
        "route",
        "canonical",
        "feature_epoch",
        "canonical_sequence",
    }
)
"""All of these or none: digests, and for the last two whole numbers in decimal."""
_NUMBERS: Final = frozenset({"feature_epoch", "canonical_sequence"})


MAY_FAIL_KNOWN: Final = "may_fail_known"
"""A fact that widens a kind's rules for one reservation: fixed with the other pins, so that the chain can be verified by itself."""


class NotPins(ValueError):
    """Pins outside the closed form: nothing was reserved."""


@lru_cache(maxsize=1024)
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class Pins:
    """`facts`: names `[a-z][a-z0-9_]*` to JSON (for a feed: name, destination, sha256, size_bytes). `authority` may be empty."""

    facts: Mapping[str, Json]
    authority: Mapping[str, str] = field(default_factory=dict)
    digest: str = field(init=False, repr=False, compare=False)
    """Of the canonical JSON of both."""

    def __post_init__(self) -> None:
        if not self.facts or not all(map(_is_name, self.facts)):
            raise NotPins("pins are named facts, at least one; a name is lower-case letters, digits and underscore")
        if self.authority and set(self.authority) != AUTHORITY:
            raise NotPins(f"an authority is whole or absent: it lacks or exceeds {sorted(AUTHORITY ^ set(self.authority))}")
        for name, value in self.authority.items():
            if not (value.isascii() and value.isdigit() and len(value) <= 18 if name in _NUMBERS else is_sha256(value)):
                raise NotPins(f"authority {name} is not {'a whole number' if name in _NUMBERS else '64 hex digits'}")
        if is_too_deep(self.facts):
            raise NotPins(f"pins are nested {MOST_NESTED} deep at most")
        spelt = canonical_json(self.as_json())
        if len(spelt) > MOST_BYTES:
            raise NotPins(f"pins take {MOST_BYTES} bytes at most")
        object.__setattr__(self, "digest", hashlib.sha256(spelt).hexdigest())

    def as_json(self) -> dict[str, Json]:
        return {"facts": dict(self.facts), "authority": dict(self.authority)}

    @property
    def may_fail_known(self) -> bool:
        return self.facts.get(MAY_FAIL_KNOWN) is True

    def thin(self) -> "Pins":
        """The same digest and rules without the facts (which may hold a body of 32 KiB): for judging a hundred thousand of them."""
        if not self.authority and self.facts.keys() <= {MAY_FAIL_KNOWN}:
            return self
        made = object.__new__(Pins)
        facts: dict[str, Json] = {MAY_FAIL_KNOWN: True} if self.may_fail_known else {}
        made.__dict__.update(facts=facts, authority={}, digest=self.digest)
        return made

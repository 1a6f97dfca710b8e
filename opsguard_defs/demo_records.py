"""What the sandbox's providers were given, by their own records: the demo's oracle. Not one word of it is OpsGuard's."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsguard_defs.sandbox.places import CustomerPlaces


@dataclass(frozen=True, slots=True)
class Accepted:
    """One message that a provider took. `key` as the provider was told it."""

    provider: str
    key: str
    body: str


@dataclass(frozen=True, slots=True)
class Records:
    accepted: tuple[Accepted, ...]

    @classmethod
    def of(cls, places: CustomerPlaces) -> "Records":
        files = [_of_file(path) for path in sorted(places.sent.glob("*/*.json"))]
        return cls((*files, *_of_webhooks(places.webhooks)))

    def since(self, before: "Records") -> Mapping[str, Accepted]:
        """What was taken meanwhile, by key. Raises `ValueError` for a key that was taken twice, or a record that went away."""
        fresh = Counter(self.accepted) - Counter(before.accepted)
        gone = Counter(before.accepted) - Counter(self.accepted)
        by_key = {one.key: one for one in fresh}
        if gone or sum(fresh.values()) != len(by_key) or by_key.keys() & {one.key for one in before.accepted}:
            raise ValueError("a message was taken twice, or the record of one went away")
        return by_key

    def times(self, key: str) -> int:
        return sum(one.key == key for one in self.accepted)


def _of_file(path: Path) -> Accepted:
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if said["key"] != path.stem:
        raise ValueError(f"{path.name} holds another key")
    return Accepted("file", said["key"], said["body"])


def _of_webhooks(path: Path) -> list[Accepted]:
    if not path.exists():
        return []
    said = [json.loads(text) for text in path.read_text(encoding="ascii").splitlines()]
    return [Accepted(f"webhook {one['path']}", one["key"], one["body"]["body"]) for one in said]

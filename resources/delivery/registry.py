"""The registry file: its bytes, its digest, and what it says. Read again for every message; parsed again only when it changed."""

import hashlib
from pathlib import Path

from guards.delivery.marked_yaml import MOST_BYTES
from guards.delivery.registry import Registry
from guards.delivery.registry_file import parse_registry
from resources.delivery.reading import read_file, said
from resources.errors import ConfigurationError

MOST_PROBLEMS_SHOWN = 10


class RegistryFile:
    """Holds the last reading. Not shared between threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: Registry | None = None

    def read(self) -> Registry:
        """`ConfigurationError` when it cannot be read or says something that is not allowed, with line and column."""
        try:
            data = read_file(self._path, most_bytes=MOST_BYTES)
        except OSError as error:
            raise ConfigurationError(f"the registry {self._path.name} cannot be read: {said(error)}. Nothing was sent") from None
        if self._held is not None and self._held.digest == hashlib.sha256(data).hexdigest():
            return self._held
        parsed = parse_registry(data)
        if isinstance(parsed, Registry):
            self._held = parsed
            return parsed
        lines = [str(problem) for problem in parsed[:MOST_PROBLEMS_SHOWN]]
        more = f"\nand {len(parsed) - MOST_PROBLEMS_SHOWN} more" if len(parsed) > MOST_PROBLEMS_SHOWN else ""
        raise ConfigurationError(
            f"the registry {self._path.name} is not usable, so nothing is sent. Correct:\n" + "\n".join(lines) + more
        )

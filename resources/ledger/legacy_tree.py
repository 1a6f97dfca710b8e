"""Reading the older layout's files: bytes through descriptors, never through a link, never changed.

Everything is read below one directory that was opened once. A name that does not belong there is refused, not skipped.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

ROWS: Final = "scheduled-deliveries.jsonl"
FENCE: Final = "scheduled-deliveries-fence.json"
CLAIMS: Final = "customer-schedule-claims"
_LARGEST_BYTES: Final = 256 * 1024 * 1024
"""Of the one file: about 250,000 rows of 1 KiB."""
_CLAIM_BYTES: Final = 64 * 1024
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CLAIM_NAME: Final = re.compile(r"([a-z]{1,20})\.claim")


class NotThatLayout(Exception):
    """The tree is not what the format says; one sentence, with the file's name below the tree."""


@dataclass(frozen=True, slots=True)
class ClaimFile:
    """One file below `customer-schedule-claims`: the slot that its place says, and its bytes."""

    customer: str
    day: str
    kind: str
    content: bytes

    @property
    def name(self) -> str:
        return f"{CLAIMS}/{self.customer}/{self.day}/{self.kind}.claim"


class Tree:
    """The directory that holds the three names. Raises `NotThatLayout`, and `OSError` as the kernel says it."""

    def __init__(self, root: Path) -> None:
        self._directory = os.open(root, _DIRECTORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._directory)

    def rows(self) -> bytes:
        return _content(self._directory, ROWS, ROWS, at_most=_LARGEST_BYTES)

    def fence(self) -> bytes:
        return _content(self._directory, FENCE, FENCE, at_most=_CLAIM_BYTES)

    def claims(self) -> Iterator[ClaimFile]:
        """In the order of customer, day, kind. None when there is no directory of claims."""
        if CLAIMS not in os.listdir(self._directory):  # noqa: PTH208 - by descriptor
            return
        with _Below(self._directory, CLAIMS, CLAIMS) as customers:
            for customer in customers.names():
                with _Below(customers.descriptor, customer, f"{CLAIMS}/{customer}") as days:
                    for day in days.names():
                        with _Below(days.descriptor, day, f"{CLAIMS}/{customer}/{day}") as files:
                            yield from _claims_of(files, customer, day)


def _claims_of(files: "_Below", customer: str, day: str) -> Iterator[ClaimFile]:
    for name in files.names():
        found = _CLAIM_NAME.fullmatch(name)
        if found is None:
            raise NotThatLayout(f"{files.path} holds {name!a}, which is no claim")
        content = _content(files.descriptor, name, f"{files.path}/{name}", at_most=_CLAIM_BYTES)
        yield ClaimFile(customer, day, found[1], content)


class _Below:
    """A directory below another, by descriptor."""

    def __init__(self, above: int, name: str, path: str) -> None:
        self.path = ascii(path)[1:-1]
        try:
            self.descriptor = os.open(name, _DIRECTORY, dir_fd=above)
        except NotADirectoryError:
            raise NotThatLayout(f"{self.path} is not a directory, or is a link") from None
        except OSError as error:
            raise NotThatLayout(f"{self.path} cannot be opened ({error.strerror})") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self.descriptor)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.descriptor))  # noqa: PTH208 - by descriptor


def _content(directory: int, name: str, path: str, *, at_most: int) -> bytes:
    shown = ascii(path)[1:-1]
    try:
        # O_NONBLOCK: a pipe under such a name must not hold us for ever.
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        raise NotThatLayout(f"{shown} cannot be read ({error.strerror}; a link is never followed)") from None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotThatLayout(f"{shown} is not a file")
        content = file.read(at_most + 1)
    if len(content) > at_most:
        raise NotThatLayout(f"{shown} is larger than {at_most} bytes")
    return content

"""Nights to play: feeds put on disk behind the sandbox's servers, as a producer and a handoff job would have left them.

Contents follow from watch, feed and night alone, so two machines show the same digests. Every night has its own names and bytes: a digest
that was once delivered is never sent again, so a repeated one could not be repaired twice.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from guards.spool.verdict import SpoolVerdict
from opsguard_defs.sandbox.layout import locked, private_directory, write_private
from opsguard_defs.sandbox.lifecycle import Sandbox
from opsguard_defs.sandbox.places import Places

HOUR: Final = 3600.0
_FIRST_NIGHT: Final = date(2026, 1, 1)
_FEEDS: Final = {  # what the producer drops: name, rows
    "orders": ("csv", 2400),
    "stock": ("csv", 1800),
    "invoices": ("edi", 900),
    "prices": ("csv", 3000),
    "returns": ("dat", 600),
    "catalog": ("csv", 1500),
}
_OURS: Final = re.compile(rf"(?:{'|'.join(_FEEDS)})_\d{{8}}\.(?:csv|edi|dat)(?:\..+)?")
"""Also what we archived under a longer name, and a writer's marker."""

_MARKER: Final = ".writing"


@dataclass(frozen=True, slots=True)
class Incident:
    """What was put where, and what a report must therefore say."""

    watch: str
    night: int
    expected: Mapping[str, SpoolVerdict]
    """Every entry of the outbound spool."""
    sha256: Mapping[str, str]
    """Of every whole feed in the outbound spool, 64 hex digits."""

    @property
    def to_send(self) -> tuple[str, ...]:
        """Names that a repair sends, oldest first."""
        return tuple(name for name, verdict in self.expected.items() if verdict.is_repairable)

    @property
    def for_a_person(self) -> tuple[str, ...]:
        return tuple(name for name, verdict in self.expected.items() if verdict.needs_person)


def clean_night(sandbox: Sandbox, watch: str, *, night: int | None = None) -> Incident:
    """Everything that left reached the partner. Feeds of earlier nights are taken away first; files of other names are left alone."""
    night, places = _begin(sandbox, watch, night)
    stage = _Stage(watch, night, places, now=time.time())
    for hours, feed in ((9.0, "orders"), (8.5, "stock"), (8.0, "invoices")):
        stage.delivered(feed, hours=hours)
    return stage.incident()


def incident(sandbox: Sandbox, watch: str, *, night: int | None = None, needs_person: bool = True) -> Incident:
    """A night on which the handoff job reported success, and two feeds never arrived, and one arrived short.

    needs_person: also one feed of which the partner holds more than we ever sent (nobody may repair that by machine), and one that
    its producer is still writing. Without them a repair leaves no gap behind.
    """
    night, places = _begin(sandbox, watch, night)
    stage = _Stage(watch, night, places, now=time.time())
    stage.delivered("orders", hours=9.0)
    stage.missing("stock", hours=8.5)
    stage.missing("invoices", hours=8.0)
    stage.short("prices", hours=7.5)
    if needs_person:
        stage.diverged("returns", hours=7.0)
        stage.still_written("catalog", hours=0.3)
    return stage.incident()


def waiting(sandbox: Sandbox, watch: str) -> bool:
    """Is there anything in the outbound spool?"""
    outbound = sandbox.places(watch).outbound
    return outbound.is_dir() and any(outbound.iterdir())


def is_played(path: Path) -> bool:
    """A file that a night put there, or that we archived of it."""
    return _OURS.fullmatch(path.name) is not None and path.is_file()


def unrepaired(sandbox: Sandbox, watch: str) -> bool:
    """Does a feed of a played night wait whose copy at the partner is absent or short?

    One that its producer still writes, or of which the partner holds as much or more, is nothing to repair: a night of which only
    those are left has been dealt with.
    """
    if not waiting(sandbox, watch):
        return False
    places = sandbox.places(watch)
    names = {path.name for path in places.outbound.iterdir() if is_played(path)}
    whole = {name for name in names if f"{name}{_MARKER}" not in names and not name.endswith(_MARKER)}
    return any(_size(places.inbox / name) < _size(places.outbound / name) for name in whole)


def _size(path: Path) -> int:
    """-1 when it is not there."""
    return path.stat().st_size if path.is_file() else -1


def feed_name(feed: str, night: int) -> str:
    return f"{feed}_{_FIRST_NIGHT + timedelta(days=night):%Y%m%d}.{_FEEDS[feed][0]}"


def feed_bytes(watch: str, feed: str, night: int) -> bytes:
    """CSV-like rows, 20 to 120 KB; the same for the same arguments, on every machine."""
    digest = hashlib.sha256(f"{watch}/{feed_name(feed, night)}".encode())
    rows = [f"{feed};line;article;quantity;price"]
    for line in range(_FEEDS[feed][1]):
        digest.update(line.to_bytes(4, "big"))
        value = digest.digest()
        article, quantity, cents = (
            int.from_bytes(value[:4], "big"),
            value[4] % 96 + 1,
            int.from_bytes(value[5:8], "big") % 100_000,
        )
        rows.append(f"{feed};{line + 1};A{article:010d};{quantity};{cents // 100}.{cents % 100:02d}")
    return ("\n".join(rows) + "\n").encode("ascii")


class _Stage:
    """One night being put on disk."""

    def __init__(self, watch: str, night: int, places: Places, *, now: float) -> None:
        self._watch, self._night, self._places, self._now = watch, night, places, now
        self._expected: dict[str, SpoolVerdict] = {}
        self._sha256: dict[str, str] = {}

    def delivered(self, feed: str, *, hours: float) -> None:
        name, content = self._drop(feed, hours=hours, verdict=SpoolVerdict.DELIVERED_SIZE_ONLY)
        self._put(self._places.inbox / name, content, hours=hours - 0.2)

    def missing(self, feed: str, *, hours: float) -> None:
        self._drop(feed, hours=hours, verdict=SpoolVerdict.MISSING)

    def short(self, feed: str, *, hours: float) -> None:
        """The upload was cut at three fifths."""
        name, content = self._drop(feed, hours=hours, verdict=SpoolVerdict.SHORT_DELIVERY)
        self._put(self._places.inbox / name, content[: len(content) * 3 // 5], hours=hours - 0.2)

    def diverged(self, feed: str, *, hours: float) -> None:
        """Somebody at the partner, or another job, added rows."""
        name, content = self._drop(feed, hours=hours, verdict=SpoolVerdict.DIVERGED)
        self._put(self._places.inbox / name, content + b"corrected by hand;;;;\n", hours=hours - 0.2)

    def still_written(self, feed: str, *, hours: float) -> None:
        """A producer's marker beside a feed of which only the beginning is there."""
        name = feed_name(feed, self._night)
        content = feed_bytes(self._watch, feed, self._night)
        self._put(self._places.outbound / name, content[: len(content) // 3], hours=hours)
        self._put(self._places.outbound / f"{name}{_MARKER}", b"", hours=hours)
        self._expected[name] = SpoolVerdict.WRITER_ACTIVE
        self._expected[f"{name}{_MARKER}"] = SpoolVerdict.WRITER_MARKER

    def incident(self) -> Incident:
        return Incident(self._watch, self._night, expected=self._expected, sha256=self._sha256)

    def _drop(self, feed: str, *, hours: float, verdict: SpoolVerdict) -> tuple[str, bytes]:
        name, content = feed_name(feed, self._night), feed_bytes(self._watch, feed, self._night)
        self._put(self._places.outbound / name, content, hours=hours)
        self._expected[name] = verdict
        self._sha256[name] = hashlib.sha256(content).hexdigest()
        return name, content

    def _put(self, path: Path, content: bytes, *, hours: float) -> None:
        """Whole seconds: what FTP and SFTP can say."""
        write_private(path, content)
        at = int(self._now - hours * HOUR)
        os.utime(path, (at, at))


def _begin(sandbox: Sandbox, watch: str, night: int | None) -> tuple[int, Places]:
    places = sandbox.places(watch)
    for directory in places.all():
        private_directory(directory)
        for path in directory.iterdir():
            if is_played(path):
                path.unlink()
    return (next_night(sandbox, watch) if night is None else night), places


def next_night(sandbox: Sandbox, watch: str) -> int:
    """Counted in the home, since the ledger that remembers what was sent lives there too."""
    layout = sandbox.layout
    with locked(layout.start_lock):
        try:
            nights: dict[str, int] = json.loads(layout.nights.read_text(encoding="utf-8"))
        except FileNotFoundError:
            nights = {}
        nights[watch] = nights.get(watch, 0) + 1
        write_private(layout.nights, json.dumps(nights, indent=2) + "\n")
        return nights[watch]

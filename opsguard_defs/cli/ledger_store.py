"""Which ledger a command means, and opening it. The file store is opened without the state database, and without importing it.

Delivery watches say where their messages are kept (`ledger = "file"` or `"postgres"`); feeds are always kept in the state database.
Where there is no delivery watch, a directory `ledger` in the home is a ledger too. Commands that only look take every ledger in use;
the others need to know which one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from opsguard_defs.cli.state_store import open_state
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from opsguard_defs.settings import DeliveryWatch, Settings
    from resources.ledger.interface import Health, Ledger

StoreOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="file|postgres|DIR",
        help="Which ledger: that of the delivery watches' directory, that in the state database, or the directory of a copy.",
    ),
]
POSTGRES = "postgres"
FILE = "file"


@dataclass(frozen=True, slots=True)
class Place:
    """`directory` None: in the state database."""

    directory: Path | None = None
    is_named: bool = False
    """By `--store DIR`: then it has to be there to be looked at."""

    @property
    def said(self) -> str:
        return f"file ({self.directory})" if self.directory else "postgres (the state database)"


def in_use(settings: "Settings", *, kind: str = "") -> tuple[Place, ...]:
    """File stores first: they answer when the database does not. `kind` narrows it to where slots of that kind are kept."""
    from guards.delivery.slot import Kind

    watches = delivery_watches(settings)
    directories = [directory_of(settings, watch) for watch in watches if watch.ledger == FILE]
    if not watches and usual_directory(settings).is_dir():
        directories = [usual_directory(settings)]
    files = tuple(Place(directory) for directory in dict.fromkeys(directories))
    messages_in_database = any(watch.ledger == POSTGRES for watch in watches)
    feeds = len(watches) < len(settings.watches)
    match kind:
        case Kind.FEED:
            return (Place(),)
        case "":
            return (*files, Place()) if feeds or messages_in_database or not files else files
        case _:
            return (*files, Place()) if messages_in_database or not files else files


def delivery_watches(settings: "Settings") -> "tuple[DeliveryWatch, ...]":
    from opsguard_defs.settings import DeliveryWatch

    return tuple(watch for watch in settings.watches if isinstance(watch, DeliveryWatch))


def watches_of(settings: "Settings", place: Place) -> "tuple[DeliveryWatch, ...]":
    """Those whose messages are kept there."""
    return tuple(
        watch
        for watch in delivery_watches(settings)
        if place.directory == (directory_of(settings, watch) if watch.ledger == FILE else None)
    )


def directory_of(settings: "Settings", watch: "DeliveryWatch") -> Path:
    return watch.ledger_dir or usual_directory(settings)


def usual_directory(settings: "Settings") -> Path:
    return settings.home / "ledger"


def places(settings: "Settings", asked: str, *, kind: str = "") -> tuple[Place, ...]:
    """What `--store` names, else all in use."""
    if not asked:
        return in_use(settings, kind=kind)
    if asked == POSTGRES:
        return (Place(),)
    if asked == FILE:
        return tuple(place for place in in_use(settings) if place.directory) or (Place(usual_directory(settings)),)
    if "/" in asked or Path(asked).is_dir():
        return (Place(Path(asked).absolute(), is_named=True),)
    raise ConfigurationError(f"--store is file, postgres or a directory, not {asked[:60]!a}")


def only_place(settings: "Settings", asked: str, *, kind: str = "") -> Place:
    found = places(settings, asked, kind=kind)
    if len(found) == 1:
        return found[0]
    choices = ", ".join(f"--store {place.directory or POSTGRES}" for place in found)
    raise ConfigurationError(f"more than one ledger is in use here: say which one is meant: {choices}")


@contextmanager
def opened(settings: "Settings", place: Place, *, create: bool = False) -> "Iterator[Ledger]":
    """Only with `create` a file store that is not there yet is made: see `is_absent`. Raises `Unreachable`."""
    if place.directory is None:
        with open_state(settings) as store:
            yield store.ledger
        return
    from resources.ledger.file.store import FileLedger

    with FileLedger.open(place.directory, create=create) as ledger:
        yield ledger


def is_absent(place: Place) -> bool:
    """Looking must not make a store: neither in an empty directory nor between the files of another one."""
    from resources.ledger.places import is_store

    return place.directory is not None and not is_store(place.directory)


@contextmanager
def looking(settings: "Settings", place: Place) -> "Iterator[Ledger]":
    """For commands that only look: in place of a file store that is not there an empty ledger, and nothing is made."""
    if not is_absent(place):
        with opened(settings, place) as ledger:
            yield ledger
        return
    if place.is_named:
        raise ConfigurationError(f"there is no ledger in {place.directory}")
    from resources.ledger.memory import MemoryLedger

    with MemoryLedger() as nothing:
        yield nothing


def health_of(ledger: "Ledger", place: Place) -> "Health":
    from dataclasses import replace

    found = ledger.health()
    return replace(found, store=f"file (nothing in {place.directory} yet)") if is_absent(place) else found

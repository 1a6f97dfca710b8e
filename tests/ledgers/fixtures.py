"""`world`: a fresh ledger in each store. `ledger`: one handle on it. Imported by the conftest of who needs them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.ledger.interface import Ledger
from tests.ledgers.worlds import STORES, FileWorld, MemoryWorld, PostgresWorld, World


@pytest.fixture
def memory_disk() -> Iterator[Path]:
    """A directory in memory, where there is one: thousands of small syncs on a disk would measure the disk."""
    shared = Path("/dev/shm")
    where = Path(tempfile.mkdtemp(prefix="opsguard-", dir=shared if shared.is_dir() else None))
    yield where
    shutil.rmtree(where)


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, memory_disk: Path) -> Iterator[World]:
    yield from _made(request, request.param, memory_disk / "ledger")


@pytest.fixture(params=STORES)
def other_world(request: pytest.FixtureRequest, memory_disk: Path) -> Iterator[World]:
    """A second ledger, in each store in turn."""
    yield from _made(request, request.param, memory_disk / "other", database="other_database_url")


@pytest.fixture
def ledger(world: World) -> Ledger:
    return world.open()


def _made(request: pytest.FixtureRequest, kind: str, root: Path, *, database: str = "database_url") -> Iterator[World]:
    made: World
    match kind:
        case "memory":
            made = MemoryWorld()
        case "file":
            made = FileWorld(root)
        case _:
            made = PostgresWorld(request.getfixturevalue(database))
    yield made
    made.close()

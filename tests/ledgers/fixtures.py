"""`world`: a fresh ledger in each store. `ledger`: one handle on it. Imported by the conftest of who needs them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.ledger.interface import Ledger
from tests.ledgers.worlds import STORES, FileWorld, MemoryWorld, PostgresWorld, World


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    yield from _made(request, request.param, tmp_path / "ledger")


@pytest.fixture(params=STORES)
def other_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A second ledger, in each store in turn."""
    yield from _made(request, request.param, tmp_path / "other", database="other_database_url")


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

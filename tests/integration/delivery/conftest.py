"""The watch of one test, on each of the two real ledgers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from resources.state import StateStore
from tests.integration.delivery.watch import Watch, watch


@pytest.fixture(params=["file", "postgres"])
def made(request: pytest.FixtureRequest, tmp_path: Path, state_store: StateStore) -> Callable[..., Watch]:
    """`made(policy=..., providers=...)`"""
    return lambda **more: watch(tmp_path, state_store, request.param, **more)

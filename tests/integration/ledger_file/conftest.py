import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.ledger.file.store import FileLedger


@pytest.fixture
def root() -> Iterator[Path]:
    """In memory where there is one: hundreds of small stores would otherwise measure the disk."""
    shared = Path("/dev/shm")
    where = Path(tempfile.mkdtemp(prefix="opsguard-ledger-", dir=shared if shared.is_dir() else None))
    yield where / "ledger"
    shutil.rmtree(where)


@pytest.fixture
def ledger(root: Path) -> Iterator[FileLedger]:
    with FileLedger.open(root) as opened:
        yield opened

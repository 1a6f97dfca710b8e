"""Every test of this directory runs on the model, on the file store and on a real PostgreSQL."""

from tests.ledgers.fixtures import ledger as ledger
from tests.ledgers.fixtures import memory_disk as memory_disk
from tests.ledgers.fixtures import other_world as other_world
from tests.ledgers.fixtures import world as world

"""Fixtures of the ledger's crash tests."""

from tests.ledgers.fixtures import memory_disk as memory_disk

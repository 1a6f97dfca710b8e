"""Fixtures shared by all tests. Fixtures of one kind of server live beside it in `tests/servers/`."""

pytest_plugins: list[str] = ["tests.servers.postgres", "tests.servers.slack"]

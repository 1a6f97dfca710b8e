"""Fixtures shared by all tests. Fixtures of one kind of server live beside it in `tests/servers/`."""

from hypothesis import HealthCheck, settings

pytest_plugins: list[str] = ["tests.servers.postgres", "tests.servers.slack"]

settings.register_profile("opsguard", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
settings.load_profile("opsguard")

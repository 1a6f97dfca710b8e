"""How a test asks for a server that may not be here.

A test that needs a server calls `need(...)`: with the server's URL in the environment that one is used, else the sandbox's is started,
else the test is skipped and says what to install. With OPSGUARD_REQUIRE_ALL=1 (CI) such a skip is a failure.
"""

import os
from typing import NoReturn

import pytest


def unavailable(what: str, how_to_get_it: str) -> NoReturn:
    """Skip, or fail where everything is required."""
    message = f"{what} is not here: {how_to_get_it}"
    if os.environ.get("OPSGUARD_REQUIRE_ALL") == "1":
        pytest.fail(f"OPSGUARD_REQUIRE_ALL=1, but {message}")
    pytest.skip(message)

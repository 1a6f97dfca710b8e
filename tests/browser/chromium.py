"""The system's Chromium, driven by Playwright; no browser of its own is downloaded."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.need import unavailable

Page: TypeAlias = Any
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@contextmanager
def browser_page(*more_flags: str) -> Iterator[Page]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if not CHROMIUM.exists():
        unavailable("Chromium", "apt-get install -y --no-install-recommends chromium fonts-dejavu-core")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=[*FLAGS, *more_flags])
        try:
            yield browser.new_page(viewport={"width": 1440, "height": 900})
        finally:
            browser.close()

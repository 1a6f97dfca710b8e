"""The system's Chromium, driven by Playwright; no browser of its own is downloaded."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from tests.need import unavailable

Page: TypeAlias = Any
PATIENCE_MS = 120_000
"""Bounds a hang. Pages take 2 to 4 s on idle cores, many times that on busy ones."""
RUN_PATIENCE_MS = 300_000
"""A launched run waits for the daemon, starts a process, and works: 20 s on idle cores; 150 s were seen on two cores with a load of 17."""
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
def chromium(*more_flags: str) -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("Playwright", "pip install playwright")
    if not CHROMIUM.exists():
        unavailable("Chromium", "apt-get install -y --no-install-recommends chromium fonts-dejavu-core")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=[*FLAGS, *more_flags])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def browser_page(*more_flags: str) -> Iterator[Page]:
    with chromium(*more_flags) as browser:
        yield browser.new_page(viewport={"width": 1440, "height": 900})


def seen(page: Page, text: str, *, patience_ms: int = PATIENCE_MS) -> None:
    page.get_by_text(text).first.wait_for(timeout=patience_ms)


def seen_times(page: Page, text: str, times: int) -> None:
    """What a page lists comes one by one."""
    page.wait_for_function(
        "([text, times]) => document.body.innerText.split(text).length === times + 1", arg=[text, times], timeout=PATIENCE_MS
    )


def picture(page: Page, name: str) -> None:
    """Kept with OPSGUARD_PICTURES=DIR."""
    directory = os.environ.get("OPSGUARD_PICTURES")
    if directory:
        page.wait_for_timeout(2500)  # graphs and tables settle
        page.screenshot(path=Path(directory) / f"{name}.png")


def fill_in_the_name(page: Page, name: str) -> None:
    """Between the quotes of `approved_by: ''` in the Launchpad."""
    lines = page.locator(".cm-line, .CodeMirror-line")
    lines.filter(has_text="approved_by:").last.click()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.type(name)
    lines.filter(has_text=name).wait_for(timeout=PATIENCE_MS)
    page.wait_for_timeout(1500)  # the editor hands its text to the form only when typing has paused

"""The analyst's path in headless Chromium: lineage, plan, check, filled-in form, launch, and the graph after the repair.

The Launchpad link is a page of Dagster's own, and undocumented: this test is what notices when it changes. With OPSGUARD_PICTURES=DIR
it keeps the pictures that the README shows.
"""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opsguard_defs.dev import TROUBLED, everything
from opsguard_defs.ports import held_port
from opsguard_defs.sandbox import Sandbox
from opsguard_defs.sandbox.incident import waiting
from opsguard_defs.services import Services
from tests.browser.chromium import PATIENCE_MS, RUN_PATIENCE_MS, Page, browser_page, fill_in_the_name, picture, seen

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LINK = "Open the approval form, filled in"


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, Services]]:
    """`opsguard dev` whole: sandbox, one incident, a first report, UI and daemon."""
    assert threading.current_thread() is threading.main_thread()
    said: list[str] = []
    home = tmp_path_factory.mktemp("dev") / "home"
    with held_port() as port, everything(home, port=port, say=said.append) as (sandbox, services):
        assert not any("exit code" in line for line in said), said
        yield sandbox, services


@pytest.fixture
def page() -> Iterator[Page]:
    with browser_page() as page:
        yield page


def test_an_analyst_finds_the_gap_decides_and_sees_the_checks_turn_green(dev: tuple[Sandbox, Services], page: Page) -> None:
    sandbox, services = dev
    outside: list[str] = []
    page.on(
        "request",
        lambda request: None if request.url.startswith((services.url, "data:", "blob:")) else outside.append(request.url),
    )
    group = f"{services.url}/locations/opsguard/asset-groups/spool_{TROUBLED}/lineage"

    page.goto(f"{group}/spool%2F{TROUBLED}%2Fplan", wait_until="domcontentloaded")
    seen(page, LINK)
    seen(page, "0 / 1 Passed")
    picture(page, "1-lineage-and-plan")

    page.goto(
        f"{services.url}/assets/spool/{TROUBLED}/plan?view=checks&checkDetail=plan_needs_a_decision",
        wait_until="domcontentloaded",
    )
    seen(page, LINK)
    seen(page, "short_delivery")
    picture(page, "2-check")

    page.get_by_text(LINK).first.click()
    seen(page, "You are approving plan")
    launch = page.get_by_role("button", name="Launch Run")
    page.wait_for_function("button => !button.disabled", arg=launch.element_handle(), timeout=PATIENCE_MS)
    picture(page, "3-launchpad-filled-in")
    launch.click()
    seen(page, "approved_by is empty")  # no name, no run
    page.get_by_role("button", name="OK").click()
    fill_in_the_name(page, "ana.lyst@example.com")
    launch.click()
    page.wait_for_url("**/runs/**", timeout=PATIENCE_MS)
    try:
        seen(page, "RUN_SUCCESS", patience_ms=RUN_PATIENCE_MS)
    except BaseException:
        picture(page, "failed")
        raise
    places = sandbox.places(TROUBLED)
    sent = {path.name: digest(path) for path in places.archive.iterdir()}
    assert sent, "nothing was archived"
    assert {name: digest(places.inbox / name) for name in sent} == sent
    assert waiting(sandbox, TROUBLED), "what needs a person is still in the spool"

    page.goto(f"{group}/spool%2F{TROUBLED}%2Fdelivered_files", wait_until="domcontentloaded")
    seen(page, "6 / 6 Passed")
    picture(page, "4-after")
    assert not outside, outside


def test_a_file_dropped_into_the_spool_shows_up_by_itself(dev: tuple[Sandbox, Services], page: Page) -> None:
    """In the sandbox the arrival sensor runs: any client can cause trouble, and the graph says so without a command."""
    sandbox, services = dev
    name = "dropped_by_hand.csv"
    (sandbox.places("sftp_demo").outbound / name).write_bytes(b"a,b\n1,2\n")
    page.goto(
        f"{services.url}/assets/spool/sftp_demo/plan?view=checks&checkDetail=plan_needs_a_decision", wait_until="domcontentloaded"
    )
    seen(page, name)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_pictures_are_where_the_readme_looks() -> None:
    pictures: list[Any] = sorted(path.name for path in (Path(__file__).parents[2] / "docs" / "pictures").glob("*.png"))
    assert pictures == [
        "1-lineage-and-plan.png",
        "2-check.png",
        "3-launchpad-filled-in.png",
        "4-after.png",
        "5-messages-plan.png",
        "6-messages-ledger.png",
    ]

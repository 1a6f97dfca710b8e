"""The analyst's path of guard `delivery` in headless Chromium: what is owed, the decision, the form, what was sent, and a message in doubt.

Customers and providers choose names and texts, so the registry, the bodies and a check-in here try to become markup on every page.
With OPSGUARD_PICTURES=DIR it keeps the pictures that docs/delivery.md shows.
"""

import json
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from guards.delivery.registry import Registry
from guards.delivery.registry_file import parse_registry
from guards.delivery.schedule import due
from opsguard_defs.dev import everything
from opsguard_defs.ports import held_port
from opsguard_defs.processes import module_command, module_environment
from opsguard_defs.sandbox import Sandbox
from opsguard_defs.sandbox.customers import owe_messages
from opsguard_defs.sandbox.places import customer_places
from opsguard_defs.services import Services
from tests.browser.chromium import PATIENCE_MS, RUN_PATIENCE_MS, Page, browser_page, fill_in_the_name, picture, seen, seen_times

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

LINK = "Open the approval form, filled in"
HOSTILE = "<img src=x onerror=alert(1)> [x](http://evil.example)"
WHO = "ana.lyst@example.com"
WEBHOOKS = "sandbox/files/webhooks/messages.jsonl"


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, Services]]:
    """`opsguard dev` whole, on a morning of messages whose every text is hostile."""
    assert threading.current_thread() is threading.main_thread()
    sandbox, said = Sandbox(tmp_path_factory.mktemp("dev") / "home"), []
    with sandbox.running():
        owe_messages(sandbox, needs_person=True)
        make_hostile(sandbox)
        with held_port() as port, everything(sandbox.home, port=port, say=said.append) as (same, services):
            assert not any("exit code" in line for line in said), said
            yield same, services


@pytest.fixture
def page() -> Iterator[Page]:
    with browser_page() as page:
        yield page


def test_an_analyst_approves_messages_and_is_told_what_to_type_about_the_one_in_doubt(
    dev: tuple[Sandbox, Services], page: Page
) -> None:
    sandbox, services = dev
    acted: list[str] = []
    page.on("dialog", lambda dialog: (acted.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda one: None if one.url.startswith((services.url, "data:", "blob:")) else acted.append(one.url))
    asset = f"{services.url}/assets/delivery/customers"

    def look(url: str, *texts: str) -> str:
        page.goto(url, wait_until="domcontentloaded")
        for text in texts:
            seen(page, text)
        assert page.locator("img[src=x], a[href*=evil]").count() == 0, url
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), f"{url} spills"
        return str(page.inner_text("body"))

    # what is owed
    plan = f"{services.url}/locations/opsguard/asset-groups/delivery_customers/lineage/delivery%2Fcustomers%2Fplan"
    assert "waiting for approval" in look(plan, LINK, "0 / 1 Passed", "7 messages")
    picture(page, "5-messages-plan")
    check = f"{asset}/plan?view=checks&checkDetail=plan_needs_a_decision"
    told = look(check, LINK, "template_unapproved")
    assert "2 messages need a person" in told
    assert "; by webhook to dies." in row(told, "lantern-1")
    assert "an upstream job has to drop it there" in row(told, "vacant-1")

    # the decision
    page.get_by_text(LINK).first.click()
    seen(page, "You are approving plan")
    seen(page, "- send quarry-1")
    launch = page.get_by_role("button", name="Launch Run")
    page.wait_for_function("button => !button.disabled", arg=launch.element_handle(), timeout=PATIENCE_MS)
    launch.click()
    seen(page, "approved_by is empty")  # no name, no run
    page.get_by_role("button", name="OK").click()
    assert taken(sandbox) == (0, 0)
    fill_in_the_name(page, WHO)
    launch.click()
    page.wait_for_url("**/runs/**", timeout=PATIENCE_MS)
    seen(page, "RUN_FAILURE", patience_ms=RUN_PATIENCE_MS)  # one message is in doubt: no run that leaves one is green
    assert taken(sandbox) == (5, 1)

    # what came of it
    told = look(f"{asset}/sent", "messages_sent", WHO)
    assert number(told, "messages_sent") == 5
    assert number(told, "messages_in_doubt") == 1
    assert "it may have been sent" in row(told, "lantern-1")
    assert "422" in row(told, "quarry-1")
    assert row(told, "harbor-1", holds=WHO)
    told = look(f"{asset}/ledger", "7 messages", "oldest_sending")
    assert "5 sent, 1 provably not sent, 1 in doubt" in told
    assert (number(told, "state_delivered"), number(told, "state_unknown"), number(told, "stale_sending")) == (5, 1, 0)
    picture(page, "6-messages-ledger")
    page.get_by_text("Plots", exact=True).first.click()
    page.locator("canvas").first.wait_for(timeout=PATIENCE_MS)
    look(f"{asset}/ledger?view=checks&checkDetail=no_stale_sending", "Checks (6)", "left in the middle")
    seen_times(page, "Succeeded", 6)
    told = look(f"{asset}/due_slots?view=partitions&partition={day_of(sandbox)}", "Materialized (1)", "lantern-1")
    assert (number(told, "sent"), number(told, "in_doubt"), number(told, "failed"), number(told, "due")) == (5, 1, 1, 0)
    assert HOSTILE in row(told, "meadow-1"), "a check-in's source is shown as it is, and is no markup"

    # the doubt ends with what the page says to type
    command = re.search(r"`opsguard (ledger resolve lantern-1:[^`]+)`", row(look(check, "in_doubt"), "lantern-1"))
    assert command is not None
    done = opsguard(sandbox, *shlex.split(command[1].replace("YOU", WHO)))
    assert (done.returncode, "recorded, by" in done.stdout) == (0, True), done.stderr
    assert taken(sandbox) == (5, 1)
    assert not acted, acted


def make_hostile(sandbox: Sandbox) -> None:
    """As a person would, with an editor: names, bodies and a check-in's source."""
    places = customer_places(sandbox.layout)
    text = places.registry.read_text()
    places.registry.write_text(re.sub(r"display_name: .*", lambda _: f"display_name: {json.dumps(HOSTILE)}", text))
    for body in places.outbox.rglob("*.md"):
        body.write_text(f"# {HOSTILE}\n\n**bold** ![i](http://evil.example/i.png) <script>alert(1)</script>\n")
    rows = [json.loads(line) for line in places.check_ins.read_text().splitlines()]
    places.check_ins.write_text("".join(json.dumps({**one, "source": HOSTILE}) + "\n" for one in rows))


def taken(sandbox: Sandbox) -> tuple[int, int]:
    """By the providers' own records: hand-off files, and calls that the receiver took before it hung up."""
    webhooks = sandbox.home / WEBHOOKS
    calls = webhooks.read_text().splitlines() if webhooks.exists() else []
    return len(list(customer_places(sandbox.layout).sent.rglob("*.json"))), len(calls)


def day_of(sandbox: Sandbox) -> date:
    """On which the messages were due, in the registry's zone: where its midnight is near, this may be yesterday."""
    registry = parse_registry(customer_places(sandbox.layout).registry.read_bytes())
    assert isinstance(registry, Registry)
    (lantern,) = [one for one in due(registry, datetime.now(UTC)) if one.slot.customer == "lantern-1"]
    return lantern.due_at.astimezone(ZoneInfo(registry.zone)).date()


def row(text: str, begins: str, *, holds: str = "") -> str:
    """Of a table on the page: cells of one row stand on one line."""
    found = [line for line in text.splitlines() if line.startswith(begins) and "\t" in line and holds in line]
    assert found, f"no row {begins} in:\n{text}"
    return found[-1]


def number(text: str, name: str) -> int:
    """The metadata entry of that name."""
    found = re.search(rf"^{name}\s+(?:\w{{3}} \d+, [\d:]+ [AP]M\s+)?(\d+)$", text, re.MULTILINE)
    assert found is not None, f"no {name} in:\n{text}"
    return int(found[1])


def opsguard(sandbox: Sandbox, *arguments: str) -> Any:
    environment = module_environment(sandbox.env())
    command = module_command("opsguard_defs", *arguments)
    return subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)

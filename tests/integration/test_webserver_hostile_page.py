"""A hostile page in the operator's own browser: Chromium opens it, it tries everything it may, and nothing was launched or read.

The same page is played against Dagster's webserver without the guard first. There it launches runs and reads the plan, so what it tries is real.
"""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from opsguard_defs.dagster_home import prepare
from opsguard_defs.ports import held_port
from opsguard_defs.processes import module_command, module_environment, start_tied, stop
from tests.browser.chromium import PATIENCE_MS, chromium
from tests.integration.webserver_tiny.serving import LAUNCH, READ, SECRET, Site, served
from tests.patience import until

pytestmark = pytest.mark.browser

REBOUND = "rebound.example"
FLAGS = (
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",  # our guard is tested, not the newest browser's
)
TEMPLATE = (Path(__file__).parent / "webserver_tiny" / "hostile.html").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(*FLAGS) as started:
        yield started


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("guarded"), postgres_url) as site:
        yield site


@pytest.fixture(scope="module")
def unguarded(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Dagster's own webserver on the same instance."""
    home = tmp_path_factory.mktemp("unguarded")
    with held_port() as port, (home / "log").open("wb") as output:
        bare = Site(port, site.database, site.workspace)
        command = module_command("dagster_webserver", "-h", "127.0.0.1", "-p", bare.port, "-w", bare.workspace)
        child = start_tied(command, env=module_environment(prepare(home, site.database)), output=output, new_session=True)
        try:
            until(lambda: answers(bare), "Dagster's webserver")
            yield bare
        finally:
            stop([child], seconds=10)


def answers(site: Site) -> bool:
    try:
        return SECRET in site.ask(READ).body
    except OSError:
        return False


@contextmanager
def hostile_page(site: Site) -> Iterator[str]:
    """Its address, on another port of this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = page_against(site.url).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def page_against(target: str) -> str:
    page = TEMPLATE
    for name, value in {"%TARGET%": target, "%LAUNCH%": LAUNCH, "%READ%": READ}.items():
        page = (
            page.replace(name, json.dumps(value), 1)
            if name != "%TARGET%"
            else page.replace("= %TARGET%", f"= {json.dumps(target)}")
        )
    return page


def play(browser: Any, site: Site) -> tuple[dict[str, str], list[str]]:
    """What the page achieved by its own account, and the texts of its frames."""
    context = browser.new_context()
    page = context.new_page()
    try:
        with hostile_page(site) as address:
            page.goto(address)
            results: dict[str, str] = page.evaluate("window.finished")
            frames = [frame.url for frame in page.frames if frame != page.main_frame]
            page.click("#link")  # the reader follows a link that carries the query
            page.wait_for_url("**/graphql**")
    finally:
        context.close()
    return results, frames


def play_rebound(browser: Any, site: Site) -> dict[str, str]:
    """The page's own name points to this machine by now: for the browser, the webserver is the page's own server."""
    context = browser.new_context()
    page = context.new_page()
    own = f"http://{REBOUND}:{site.port}"
    try:
        page.route(f"{own}/page", lambda route: route.fulfill(body=page_against(own), content_type="text/html"))
        page.goto(f"{own}/page")
        results: dict[str, str] = page.evaluate("window.finished")
    finally:
        context.close()
    return results


def test_without_the_guard_the_page_launches_runs_and_reads_the_plan(browser: Any, unguarded: Site) -> None:
    """Why the guard is there; and proof that the attempts below are not merely badly made."""
    before = unguarded.runs()
    results, frames = play(browser, unguarded)
    assert unguarded.runs() - before >= 5, results
    assert results["websocket"] == "opened"
    assert any("/playground/setup" in url for url in frames)

    before = unguarded.runs()
    results = play_rebound(browser, unguarded)
    assert unguarded.runs() > before
    assert SECRET in results["read by fetch, JSON"]


def test_a_page_on_another_port_launches_nothing_and_reads_nothing(browser: Any, site: Site) -> None:
    before = site.runs()
    results, frames = play(browser, site)
    assert site.runs() == before, results
    assert SECRET not in json.dumps(results)
    assert results["websocket"] == "not opened"
    assert {results[f"{kind} by fetch, {how}"] for kind in ("launch", "read") for how in ("JSON", "GET")} == {
        "stopped: TypeError"
    }
    assert not [url for url in frames if "/playground/" in url], "the Launchpad was framed"


def test_a_page_under_a_rebound_name_launches_nothing_and_reads_nothing(browser: Any, site: Site) -> None:
    before = site.runs()
    results = play_rebound(browser, site)
    assert site.runs() == before, results
    assert SECRET not in json.dumps(results)
    assert results["read by fetch, JSON"] == "Invalid host header"


def test_the_ui_itself_works_behind_the_guard_and_asks_nobody_else(browser: Any, site: Site) -> None:
    """Scripts, styles, pictures, GraphQL and the websocket of live updates pass; the stricter policy stops nothing the UI needs."""
    page = browser.new_page()
    elsewhere: list[str] = []
    complaints: list[str] = []
    sockets: list[Any] = []
    page.on(
        "request", lambda request: None if request.url.startswith((site.url, "data:", "blob:")) else elsewhere.append(request.url)
    )
    page.on("console", lambda message: complaints.append(message.text) if "Content Security Policy" in message.text else None)
    page.on("websocket", lambda socket: sockets.append(socket))
    page.goto(f"{site.url}/assets/plan?view=overview", wait_until="domcontentloaded")
    page.get_by_text(SECRET).first.wait_for(timeout=PATIENCE_MS)
    page.goto(f"{site.url}/locations/opsguard/jobs/dangerous/playground", wait_until="domcontentloaded")
    before = site.runs()
    launch = page.get_by_role("button", name="Launch Run")
    launch.wait_for(timeout=PATIENCE_MS)
    page.wait_for_function("button => !button.disabled", arg=launch.element_handle(), timeout=PATIENCE_MS)
    launch.click()
    page.wait_for_url("**/runs/**", timeout=PATIENCE_MS)
    until(lambda: site.runs() == before + 1, "the run that its own page launched")
    until(lambda: bool(sockets), "the websocket of live updates")
    page.close()
    assert not elsewhere
    assert not complaints

"""What a hostile page could send to the webserver in its reader's name, sent one by one. The oracle is the count of runs in the database.

Dagster's webserver alone launched a run for `GET /graphql?query=mutation...` under any Host and Origin.
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.integration.webserver_tiny.serving import LAUNCH, READ, SECRET, Site, served
from tests.patience import PATIENCE_SECONDS

JSON = {"Content-Type": "application/json"}
BODY = json.dumps({"query": LAUNCH}).encode()
PATIENT: dict[str, Any] = {"subprotocols": ["graphql-ws"], "open_timeout": PATIENCE_SECONDS}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("guarded"), postgres_url) as site:
        yield site


@pytest.fixture(autouse=True)
def _nothing_was_launched(site: Site, request: pytest.FixtureRequest) -> Iterator[None]:
    before = site.runs()
    yield
    if "launches" not in request.fixturenames:
        assert site.runs() == before


@pytest.fixture
def launches() -> None:
    """This test is meant to launch something."""


@pytest.mark.usefixtures("launches")
@pytest.mark.parametrize("origin", ["http://127.0.0.1:{port}", "http://localhost:{port}", None])
def test_the_servers_own_page_and_a_program_on_this_machine_may_launch(site: Site, origin: str | None) -> None:
    """Also proves the oracle: without this, counting runs would prove nothing. A program sends no Origin."""
    before = site.runs()
    headers = {"Origin": origin.format(port=site.port), "Sec-Fetch-Site": "same-origin"} if origin else {}
    answer = site.ask(LAUNCH, headers)
    assert (answer.status, json.loads(answer.body)["data"]) == (200, {"launchRun": {"__typename": "LaunchRunSuccess"}})
    assert site.runs() == before + 1


def test_a_forwarded_port_is_an_own_page_too(site: Site) -> None:
    """`ssh -L 8080:127.0.0.1:3000`: Host and Origin agree with each other, on another port."""
    answer = site.send(
        "POST",
        "/graphql",
        {**JSON, "Origin": "http://localhost:8080"},
        json.dumps({"query": READ}).encode(),
        host="localhost:8080",
    )
    assert SECRET in answer.body


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", "http://127.0.0.1:1", "http://localhost:1", "https://127.0.0.1:{port}", "http://127.0.0.1",
        "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1.evil.example:{port}", "http://evil.example@127.0.0.1:{port}",
        "http://127.0.0.1:{port}, http://evil.example", "", "file://", "http://[::1]:{port}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("query", [LAUNCH, READ])
def test_a_foreign_origin_neither_launches_nor_reads(site: Site, origin: str, query: str) -> None:
    answer = site.ask(query, {"Origin": origin.format(port=site.port)})
    assert answer.status == 403
    assert SECRET not in answer.body
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_an_own_origin_does_not_excuse_a_second_foreign_one(site: Site) -> None:
    headers = [*JSON.items(), ("Origin", site.url), ("Origin", "http://evil.example")]
    assert site.send("POST", "/graphql", headers, BODY).status == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "localhost.evil.example", "127.0.0.1@evil.example",
        "evil.example@127.0.0.1:{port}", "[::1]:{port}", "0.0.0.0:{port}", "2130706433:{port}", " ", "localhost.:{port}", None,
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["/", "/graphql", "/assets/plan", "/server_info"])
def test_a_rebound_name_gets_nothing(site: Site, host: str | None, target: str) -> None:
    """The page's own name, resolved to 127.0.0.1 a second time: for the browser it is one origin, only Host tells."""
    host = host and host.format(port=site.port)
    answer = site.send("POST" if target == "/graphql" else "GET", target, JSON, BODY if target == "/graphql" else b"", host=host)
    assert answer.status == 400


def test_two_hosts_are_none(site: Site) -> None:
    assert site.send("POST", "/graphql", [*JSON.items(), ("Host", "evil.example")], BODY).status == 400


PATHS = [
    "/graphql", "/graphql/", "//graphql", "/graphql//", "/%67raphql", "/graph%71l", "/GraphQL", "/GRAPHQL", "/./graphql",
    "/x/../graphql", "/graphql;x", "/%2fgraphql", "/graphql%3f", "/graphql%00", "/\\graphql", "/graphql#x", "http://{host}/graphql",
    "/dagit/graphql", "/dagit/../graphql",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("query", [LAUNCH, READ])
def test_no_spelling_of_a_link_asks_graphql(site: Site, method: str, path: str, query: str) -> None:
    """An `<img>` is enough to send a GET. What is not the page of queries may be any page of the UI, which holds no data."""
    separator = "&" if "?" in path else "?"
    answer = site.send(method, f"{path.format(host=site.host)}{separator}query={quote(query)}")
    assert answer.status in {200, 400, 403, 404}
    assert answer.status != 200 or "<!DOCTYPE html>" in answer.body or method == "HEAD"
    assert SECRET not in answer.body


@pytest.mark.parametrize(
    "parameters",
    [
        "query={q}",
        "%71uery={q}",
        "query={q}&query={q}",
        "operationName=x&query={q}",
        "QUERY={q}",
        "query[]={q}",
        ";query={q}",
        "&&query={q}",
        "",
    ],
)
@pytest.mark.parametrize("accept", ["*/*", "text/html", "application/json"])
def test_graphql_answers_no_get_whatever_its_parameters_are_called(site: Site, parameters: str, accept: str) -> None:
    answer = site.send("GET", f"/graphql?{parameters.format(q=quote(LAUNCH))}", {"Accept": accept})
    assert answer.status == 403


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain; application/json",
        "text/plain;charset=application/json", "application/graphql", "text/plain; x=application/graphql", "application/jsonp", "", None,
    ],
)  # fmt: skip
def test_a_form_cannot_ask_graphql(site: Site, content_type: str | None) -> None:
    """The types a page may send without asking the server first. Dagster then takes the query from the address, too."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    for target, body in (
        ("/graphql", BODY),
        ("/graphql", LAUNCH.encode()),
        ("/graphql", urlencode({"query": LAUNCH}).encode()),
        (f"/graphql?query={quote(LAUNCH)}", b""),
    ):
        assert site.send("POST", target, headers, body).status == 403


def test_two_content_types_are_not_json(site: Site) -> None:
    assert site.send("POST", "/graphql", [("Content-Type", "text/plain"), *JSON.items()], BODY).status == 403


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "post", "X"])
def test_other_methods_have_no_use(site: Site, method: str) -> None:
    answer = site.send(method, f"/graphql?query={quote(LAUNCH)}", JSON, BODY)
    assert answer.status in {400, 405}


@pytest.mark.parametrize("site_value", ["cross-site", "same-site", "anything"])
@pytest.mark.parametrize(
    ("mode", "dest"),
    [("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe"), ("navigate", "object")],
)
@pytest.mark.parametrize("target", ["/", "/assets/plan", "/server_info", "/favicon.png"])
def test_what_another_page_embeds_is_not_given_to_it(site: Site, site_value: str, mode: str, dest: str, target: str) -> None:
    """A page on another port of this machine is "same-site"."""
    headers = {"Sec-Fetch-Site": site_value, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    assert site.send("GET", target, headers).status == 403


FOLLOWED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_a_link_in_slack_leads_to_a_page(site: Site) -> None:
    answer = site.send("GET", "/locations/opsguard/jobs/dangerous/playground/setup?config=x", FOLLOWED)
    assert answer.status == 200
    assert "<!DOCTYPE html>" in answer.body


@pytest.mark.parametrize(
    "target",
    [
        "/graphql",
        "/logs/a/b.out",
        "/notebook?path=/x.ipynb&repoLocName=opsguard",
        "/dagit/notebook",
        "/download_debug/x",
        "/report_asset_materialization/plan",
    ],
)
def test_a_link_does_not_lead_to_data(site: Site, target: str) -> None:
    assert site.send("GET", target, FOLLOWED).status == 403
    assert site.send("GET", f"/{target}", FOLLOWED).status == 403


@pytest.mark.parametrize(
    "target",
    ["/report_asset_materialization/plan", "/report_asset_check/plan?check_name=x&passed=true", "/report_asset_observation/plan"],
)
@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}],
)
def test_a_form_cannot_report_that_an_asset_was_made(site: Site, target: str, headers: dict[str, str]) -> None:
    assert site.send("POST", target, {**headers, "Content-Type": "application/x-www-form-urlencoded"}).status == 403


@pytest.mark.parametrize("target", ["/", "/assets/plan", "/server_info", "/graphql", "/nowhere"])
def test_every_answer_forbids_framing_and_foreign_pictures(site: Site, target: str) -> None:
    """A framed Launchpad, filled in by its link, has one button left to be clicked."""
    headers = site.send("GET", target).headers
    assert headers["X-Frame-Options"] == "DENY"
    policies = headers.get_all("Content-Security-Policy") or []
    assert any("frame-ancestors 'none'" in policy and "img-src 'self'" in policy for policy in policies)
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_the_pages_own_policy_is_kept_beside_ours(site: Site) -> None:
    policies = site.send("GET", "/").headers.get_all("Content-Security-Policy") or []
    assert len(policies) == 2
    assert any("script-src 'nonce-" in policy for policy in policies)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "//graphql", "/"])
def test_a_websocket_of_a_foreign_page_is_not_opened(site: Site, origin: str, path: str) -> None:
    """Browsers do not apply the same-origin policy to websockets."""
    with pytest.raises(InvalidStatus) as refused, connect(f"ws://{site.host}{path}", origin=origin, **PATIENT):  # type: ignore[arg-type]
        pass
    assert refused.value.response.status_code == 403


def test_a_websocket_under_a_rebound_name_is_not_opened(site: Site) -> None:
    raw = socket.create_connection(("127.0.0.1", site.port))
    with (
        pytest.raises(InvalidStatus) as refused,
        connect("ws://evil.example/graphql", sock=raw, proxy=None, **PATIENT),
    ):  # type: ignore[list-item]
        pass
    assert refused.value.response.status_code == 400


def test_the_servers_own_page_may_open_a_websocket(site: Site) -> None:
    with connect(f"ws://{site.host}/graphql", origin=site.url, **PATIENT) as websocket:  # type: ignore[arg-type]
        websocket.send(json.dumps({"type": "connection_init"}))
        assert json.loads(websocket.recv(timeout=PATIENCE_SECONDS)) == {"type": "connection_ack"}


def test_a_read_only_server_shows_and_does_not_launch(tmp_path: Path, postgres_url: str) -> None:
    with served(tmp_path / "read_only", postgres_url, read_only=True) as viewer:
        assert SECRET in viewer.ask(READ).body
        assert json.loads(viewer.ask(LAUNCH).body)["data"] == {"launchRun": {"__typename": "UnauthorizedError"}}
        report = viewer.send("POST", "/report_asset_materialization/plan", JSON, b"{}")
        assert report.status == 401
        assert viewer.runs() == 0

"""The webserver under test, and what may and may not happen to it: runs that were launched are counted from outside."""

import http.client
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from opsguard_defs.processes import PROJECT_ROOT
from opsguard_defs.services import services
from resources.state.engine import parse_url
from tests.patience import PATIENCE_SECONDS

LAUNCH: Final = """mutation { launchRun(executionParams: {selector: {repositoryLocationName: "opsguard", repositoryName: "__repository__",
 jobName: "dangerous"}, runConfigData: "{}"}) { __typename } }""".replace("\n", "")
READ: Final = "{ assetNodes { description } }"
SECRET: Final = "The secret plan"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: str
    headers: http.client.HTTPMessage


@dataclass(frozen=True, slots=True)
class Site:
    port: int
    database: str
    workspace: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | list[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        host: str | None = "",
    ) -> Answer:
        """One request, exactly as written. host None sends none, "" the right one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            if host is not None:
                connection.putheader("Host", host or self.host)
            for name, value in headers.items() if isinstance(headers, Mapping) else headers:
                connection.putheader(name, value)
            if body or method == "POST":
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode("utf-8", "replace"), answer.headers)
        finally:
            connection.close()

    def ask(self, query: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GraphQL as the UI asks it."""
        body = json.dumps({"query": query}).encode()
        return self.send("POST", "/graphql", {"Content-Type": "application/json", **(headers or {})}, body)

    def runs(self) -> int:
        """Counted in the database, past the webserver."""
        with psycopg.connect(self.database) as connection:
            row = connection.execute("SELECT count(*) FROM runs").fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def served(home: Path, postgres_url: str, *, read_only: bool = False) -> Iterator[Site]:
    """A guarded webserver over a database of its own; no daemon, so what is launched stays queued."""
    name = f"webserver_test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    database = parse_url(postgres_url).set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    workspace = home / "workspace.yaml"
    home.mkdir(parents=True, exist_ok=True)
    workspace.write_text(json.dumps(workspace_of()))
    with services(home=home, state_url=database, read_only=read_only, daemon=False, workspace=workspace) as running:
        yield Site(int(running.url.rpartition(":")[2]), database, workspace)


def workspace_of(module: str = "tests.integration.webserver_tiny.definitions") -> dict[str, Any]:
    location = {"module_name": module, "working_directory": str(PROJECT_ROOT), "location_name": "opsguard"}
    return {"load_from": [{"python_module": location}]}

"""Dagster's webserver behind the guard of `own_pages`: `python -m opsguard_defs.webserver --port 3000 --workspace FILE [--read-only]`.

On 127.0.0.1. Behind an authenticating proxy give the address that people use as `--origin https://opsguard.example`.
GraphiQL (the query page at /graphql) is refused with all else that asks GraphQL by GET.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import uvicorn
from dagster import DagsterInstance
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.version import __version__

from opsguard_defs.own_pages import guarded

GRACE_SECONDS: Final = 3
"""Open websockets get this long at the end; the browser connects anew by itself."""
_STATEMENT_TIMEOUT_MS: Final = 15_000
_POOL_RECYCLE_SECONDS: Final = 3600
_POOL_OVERFLOW: Final = 20


def own_origins(port: int) -> tuple[str, str]:
    return (f"http://127.0.0.1:{port}", f"http://localhost:{port}")


def serve(*, port: int, workspace: Path, read_only: bool, origins: Sequence[str] = ()) -> None:
    """Until SIGTERM or SIGINT. Code servers end with it."""
    signal.signal(signal.SIGTERM, _end)  # uvicorn raises the signal again when it is done; the default action would skip `with`
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(_STATEMENT_TIMEOUT_MS, _POOL_RECYCLE_SECONDS, _POOL_OVERFLOW)
        target = WorkspaceFileTarget([str(workspace)])
        with WorkspaceProcessContext(instance, target, version=__version__, read_only=read_only) as context:
            app = create_app_from_workspace_process_context(context, live_data_poll_rate=2000)
            uvicorn.run(
                guarded(app, origins=[*own_origins(port), *origins]),
                host="127.0.0.1",
                port=port,
                http="h11",  # refuses two Host headers and other liberties that httptools takes
                log_level="warning",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Dagster's UI on 127.0.0.1, for its own pages only")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--read-only", action="store_true", help="nothing can be launched or changed from here")
    parser.add_argument("--origin", action="append", default=[], help="address of a proxy in front of it, as people type it")
    given = parser.parse_args(arguments)
    serve(port=given.port, workspace=given.workspace, read_only=given.read_only, origins=given.origin)
    return 0


if __name__ == "__main__":
    sys.exit(main())

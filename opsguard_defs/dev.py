"""`opsguard dev`: sandbox, one incident, a first report, Dagster's UI and daemon. All end together, however this process ends.

Not `dagster dev`, which can be neither scripted nor stopped safely (see `services`). Light to import: Dagster runs in the children only.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from opsguard_defs import dagster_home
from opsguard_defs.processes import PROJECT_ROOT, module_command, module_environment, start_tied, stop
from opsguard_defs.sandbox import Sandbox, clean_night, incident
from opsguard_defs.sandbox.incident import waiting
from opsguard_defs.services import WORKSPACE, Services, require_free_port, services
from resources.errors import Unreachable

DEFAULT_PORT: Final = 3000
TROUBLED: Final = "ftp_demo"
"""The watch whose night went wrong; the others had a quiet one, so that both can be seen."""
_LOOK_SECONDS: Final = 0.5
_REPORT_SECONDS: Final = 300.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Say = Callable[[str], None]


class _AskedToEnd(BaseException):
    """A signal: not an error, and nothing may swallow it."""


def dev(home: Path, *, port: int = DEFAULT_PORT, read_only: bool = False, say: Say) -> int:
    """Runs until Ctrl-C, SIGTERM or SIGHUP, then returns 0. Call from the main thread. `say` gets lines for the operator.

    In the sandbox the automation runs: the arrival sensor and the nightly schedule are on.
    Raises ConfigurationError for a port that is taken or a home that cannot be written, Unreachable when something does not start.
    """
    try:
        with _signals_end():
            require_free_port(port)
            with everything(home, port=port, read_only=read_only, say=say) as (sandbox, running):
                say(f"Dagster's UI: {running.url}/locations/opsguard/asset-groups/spool_{TROUBLED}/lineage")
                say(f"Files to play with: {sandbox.home / 'sandbox' / 'files'} (or any client: `opsguard sandbox status`)")
                say("Ctrl-C ends all of it.")
                _watch_over(sandbox, running)
    except _AskedToEnd:
        say("Ended: UI, daemon and sandbox.")
    return 0


@contextmanager
def everything(home: Path, *, port: int, read_only: bool = False, say: Say) -> Iterator[tuple[Sandbox, Services]]:
    """Up for the length of the block. A sandbox that was up before stays up."""
    from resources.state import state_url

    sandbox = Sandbox(home)
    with ExitStack() as stack:
        say("Starting the sandbox's servers ...")
        stack.enter_context(sandbox.running())
        set_the_scene(sandbox)
        database = state_url(sandbox.home)
        environment = {**sandbox.env(), "OPSGUARD_UI_URL": f"http://127.0.0.1:{port}", "OPSGUARD_AUTOMATION": "running"}
        prepared = {**environment, **dagster_home.prepare(sandbox.home, database)}
        dagster_home.create_tables(prepared)
        say("Writing the first report ...")
        first_report(sandbox, prepared, say=say)
        say("Starting Dagster's UI and daemon (10 to 20 s) ...")
        running = stack.enter_context(
            services(
                home=sandbox.home,
                state_url=database,
                port=port,
                read_only=read_only,
                workspace=WORKSPACE,
                environment=environment,
            )
        )
        yield sandbox, running


def set_the_scene(sandbox: Sandbox) -> None:
    """One incident, and quiet nights elsewhere. What still waits from last time, or was dropped by hand, is left as it is."""
    for watch in sandbox.watches:
        if not waiting(sandbox, watch):
            incident(sandbox, watch) if watch == TROUBLED else clean_night(sandbox, watch)


def first_report(sandbox: Sandbox, environment: dict[str, str], *, say: Say) -> None:
    """The command line's, in a child: its Dagster goes away with it. A report that fails is said and does not stop the UI."""
    log = sandbox.layout.logs / "first_report.log"
    log.touch(mode=0o600)
    with log.open("wb") as output:
        child = start_tied(
            module_command("opsguard_defs", "report", "spool"),
            env=module_environment(environment),
            output=output,
            cwd=PROJECT_ROOT,
            new_session=True,
        )
        try:
            child.wait(_REPORT_SECONDS)
        finally:
            stop([child], seconds=5)
    if child.returncode != 0:
        said = log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
        say(f"The first report ended with exit code {child.returncode}:\n{said}")


def _watch_over(sandbox: Sandbox, running: Services) -> NoReturn:
    while True:
        running.check()
        if sandbox.status() is None:
            raise Unreachable("The sandbox was stopped (`opsguard sandbox down`?), so this ends as well.")
        time.sleep(_LOOK_SECONDS)


@contextmanager
def _signals_end() -> Iterator[None]:
    """Also where SIGINT was left ignored, as nohup and `cmd &` in a script do. A second signal does not disturb the ending."""
    before = {number: signal.signal(number, _end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise _AskedToEnd

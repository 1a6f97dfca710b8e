"""`opsguard dev`: sandbox, one incident, a first report, Dagster's UI and daemon; or UI and daemon on a person's own watches.

All end together, however this process ends.

Not `dagster dev`, which can be neither scripted nor stopped safely (see `services`). Light to import: Dagster runs in the children only.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

from opsguard_defs import dagster_home
from opsguard_defs.ports import require_free_port
from opsguard_defs.processes import PROJECT_ROOT, module_command, module_environment, start_tied, stop
from opsguard_defs.sandbox import Sandbox, clean_night, incident
from opsguard_defs.sandbox.customers import is_waiting, owe_messages
from opsguard_defs.sandbox.incident import unrepaired, waiting
from opsguard_defs.sandbox.roster import CUSTOMERS
from opsguard_defs.services import Services, services
from resources.errors import ConfigurationError, Unreachable

if TYPE_CHECKING:
    from opsguard_defs.settings import Settings

DEFAULT_PORT: Final = 3000
TROUBLED: Final = "ftp_demo"
"""The watch whose night went wrong; the others had a quiet one, so that both can be seen."""
ADDRESS: Final = "Dagster's UI:"
"""What the one line begins with that is a result: the rest is progress."""
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

    def run() -> None:
        with everything(home, port=port, read_only=read_only, say=say) as (sandbox, running):
            say(f"{ADDRESS} {running.url}/locations/opsguard/asset-groups/spool_{TROUBLED}/lineage")
            say(f"Messages that are owed: {running.url}/locations/opsguard/asset-groups/delivery_{CUSTOMERS}/lineage")
            say(f"Files to play with: {sandbox.home / 'sandbox' / 'files'} (or any client: `opsguard sandbox status`)")
            say("Ctrl-C ends all of it.")
            _watch_over(running, sandbox)

    def ended() -> str:
        if Sandbox(home).status() is None:
            return "UI, daemon and sandbox."
        return "UI and daemon. The sandbox was up before and stays up: `opsguard sandbox down` ends it."

    return _until_asked(run, port=port, say=say, ended=ended)


def dev_own(settings: "Settings", *, port: int = DEFAULT_PORT, read_only: bool = False, say: Say) -> int:
    """The same on the watches and the state store of `settings`: no sandbox, no incident, and automation only as it was switched on.

    Raises ConfigurationError also when there is no watch to serve.
    """

    def run() -> None:
        with own_watches(settings, port=port, read_only=read_only, say=say) as running:
            group = f"{settings.watches[0].guard}_{settings.watches[0].name}"
            say(f"{ADDRESS} {running.url}/locations/opsguard/asset-groups/{group}/lineage")
            say("What runs by itself is stopped until you switch it on, in the UI under Automation.")
            say("Ctrl-C ends all of it.")
            _watch_over(running)

    return _until_asked(run, port=port, say=say, ended=lambda: "UI and daemon.")


def _until_asked(run: Callable[[], None], *, port: int, say: Say, ended: Callable[[], str]) -> int:
    try:
        with _signals_end():
            require_free_port(port)
            run()
    except _AskedToEnd:
        say(f"Ended: {ended()}")
    return 0


@contextmanager
def own_watches(settings: "Settings", *, port: int, read_only: bool = False, say: Say) -> Iterator[Services]:
    """UI and daemon for the length of the block. The children find the same settings, wherever they stand."""
    from resources.state import StateStore, state_url

    if settings.config_file is None or not settings.watches:
        first = f"{settings.config_file} has no [[watch]]" if settings.config_file else "there is no opsguard.toml"
        raise ConfigurationError(f"{first}: `opsguard init spool NAME >> opsguard.toml`, fill it in, `opsguard doctor`")
    for watch in settings.watches:
        for problem in watch.missing():
            say(f"{watch.guard}/{watch.name}: {problem}")
    database = state_url(settings.home)
    StateStore.open(database).close()
    links = f"http://127.0.0.1:{port}" if "ui_url" not in settings.model_fields_set else settings.ui_url
    environment = {"OPSGUARD_CONFIG": str(settings.config_file.absolute()), "OPSGUARD_UI_URL": links}
    say("Starting Dagster's UI and daemon (10 to 20 s) ...")
    with services(home=settings.home, state_url=database, port=port, read_only=read_only, environment=environment) as running:
        yield running


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
        prepared = {
            **environment,
            **dagster_home.prepare(sandbox.home, database, {}),
        }  # not the DAGSTER_HOME of somebody's own watches
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
                environment=prepared,
            )
        )
        yield sandbox, running


def set_the_scene(sandbox: Sandbox) -> None:
    """One incident with something to repair per guard, and quiet nights elsewhere. An unrepaired one stays, and so do files dropped by
    hand."""
    for watch in sandbox.watches:
        if watch == TROUBLED:
            if not unrepaired(sandbox, watch):
                incident(sandbox, watch)
        elif not waiting(sandbox, watch):
            clean_night(sandbox, watch)
    if not is_waiting(sandbox):
        owe_messages(sandbox, needs_person=True)


def first_report(sandbox: Sandbox, environment: dict[str, str], *, say: Say) -> None:
    """The command line's, in a child per guard: its Dagster goes away with it. A report that fails is said and does not stop the UI."""
    for guard in ("spool", "delivery"):
        _report(guard, sandbox, environment, say=say)


def _report(guard: str, sandbox: Sandbox, environment: dict[str, str], *, say: Say) -> None:
    log = sandbox.layout.logs / f"first_report_{guard}.log"
    log.touch(mode=0o600)
    with log.open("wb") as output:
        child = start_tied(
            module_command("opsguard_defs", "report", guard),
            env=module_environment(environment),
            output=output,
            cwd=PROJECT_ROOT,
            new_session=True,
        )
        try:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_REPORT_SECONDS)
        finally:
            stop([child], seconds=5)
    if child.returncode != 0:
        said = log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
        say(f"The first report of guard {guard} ended with exit code {child.returncode}:\n{said}")


def _watch_over(running: Services, sandbox: Sandbox | None = None) -> NoReturn:
    while True:
        running.check()
        if sandbox is not None and sandbox.status() is None:
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

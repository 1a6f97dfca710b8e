"""Finding and reading `opsguard.toml` and the environment. Nothing is contacted; all problems are said at once."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from opsguard_defs.settings.delivery_watch import DeliveryWatch
from opsguard_defs.settings.environment import read_sandbox_environment
from opsguard_defs.settings.model import WATCH_TYPES, Settings, SlackSettings, Watch
from opsguard_defs.settings.problems import nearest, problems_of
from opsguard_defs.settings.secrets import from_environment, with_secrets
from resources.errors import ConfigurationError

DEFAULT_HOME: Final = ".opsguard"
FILE_NAME: Final = "opsguard.toml"
_LARGEST_BYTES: Final = 4 * 1024 * 1024
_TOP_KEYS: Final = ("home", "ui_url", "approve_in_ui", "lease_seconds", "retention_days", "owners", "slack")
_SLACK_SECRETS: Final = ("token", "webhook")


def home_path(environ: Mapping[str, str] = os.environ) -> Path:
    """OPSGUARD_HOME as an absolute path; the settings file may still name another."""
    return Path(environ.get("OPSGUARD_HOME") or DEFAULT_HOME).expanduser().absolute()


def config_path(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file to read: OPSGUARD_CONFIG, else ./opsguard.toml, else the one in OPSGUARD_HOME; None when there is none.

    A file that OPSGUARD_CONFIG names must exist: a misspelt path must not look like "no watches, nothing wrong".
    """
    named = environ.get("OPSGUARD_CONFIG", "")
    if named:
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            raise ConfigurationError(f"OPSGUARD_CONFIG names {path}, and there is no such file")
        return path
    for path in (Path(FILE_NAME).absolute(), home_path(environ) / FILE_NAME):
        if path.is_file():
            return path
    return None


def load_settings(config: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Raises `ConfigurationError` with every problem, one per line: file, key path, what is allowed."""
    path = config.absolute() if config is not None else config_path(environ)
    if path is None:
        return _settings({}, [], {**environ}, Path.cwd(), None)
    table = _read(path)
    blocks = table.pop("watch", [])
    merged = {**read_sandbox_environment(path.parent), **environ}
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise ConfigurationError(f"{path}: watch: each watch is a block that begins with the line [[watch]] (two brackets)")
    return _settings(table, blocks, merged, path.parent, path)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > _LARGEST_BYTES:
        raise ConfigurationError(f"{path}: larger than 4 MB, that is not a settings file")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: nested too deeply") from None


def _settings(
    table: dict[str, Any], blocks: list[dict[str, Any]], environ: Mapping[str, str], base: Path, path: Path | None
) -> Settings:
    problems: list[str] = []
    watches = _watches(blocks, environ, base, problems)
    for key in [key for key in table if key not in _TOP_KEYS]:
        problems.append(f"{_shown(key)}: unknown key; {nearest(key, [*_TOP_KEYS, 'watch'])}")
        del table[key]
    slack = _slack(table.pop("slack", {}), environ, problems)
    values = {**table, **_from_environment(environ, problems)}
    values["home"] = _home(values.get("home"), environ, base, problems)
    made = None
    try:
        made = Settings(**values, slack=slack or SlackSettings(), config_file=path)
    except ValidationError as error:
        problems += problems_of(error, Settings)
    if problems or made is None:
        where = path or "environment"
        raise ConfigurationError("\n".join(f"{where}: {problem}" for problem in dict.fromkeys(problems)))
    return made.model_copy(update={"watches": tuple(_completed(watch, made) for watch in watches)})


def _completed(watch: Watch, made: Settings) -> Watch:
    """With what the whole file or the home gives where the block says nothing."""
    given: dict[str, object] = {} if watch.owners else {"owners": made.owners}
    if isinstance(watch, DeliveryWatch) and watch.ledger_dir is None:
        given["ledger_dir"] = made.home.absolute() / "ledger"
    return watch.model_copy(update=given)


def _watches(blocks: list[dict[str, Any]], environ: Mapping[str, str], base: Path, problems: list[str]) -> list[Watch]:
    watches: list[Watch] = []
    for number, block in enumerate(blocks, start=1):
        name = block.get("name")
        label = f"watch {name}" if isinstance(name, str) and re.fullmatch(r"\w{1,40}", name) else f"watch number {number}"
        guard = block.get("guard")
        kind = WATCH_TYPES.get(guard) if isinstance(guard, str) else None
        if kind is None:
            found = nearest(guard, list(WATCH_TYPES)) if isinstance(guard, str) else f"one of {', '.join(WATCH_TYPES)}"
            problems.append(f"{label}: guard: must name a guard; {found}")
            continue
        given, refused = with_secrets(block, kind.secret_keys(block), environ)
        problems += [f"{label}: {problem}" for problem in refused]
        try:
            watches.append(kind.model_validate(given, context={"base": base}))
        except ValidationError as error:
            problems += [f"{label}: {problem}" for problem in problems_of(error, kind, hidden=kind.SECRETS, above=_TOP_KEYS)]
    names = [(block.get("guard"), block.get("name")) for block in blocks]
    problems += [
        f"watch {name}: name: {names.count((guard, name))} watches of guard {guard} have this name; each needs its own"
        for guard, name in dict.fromkeys(names)
        if isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name) and names.count((guard, name)) > 1
    ]
    return watches


def _slack(table: object, environ: Mapping[str, str], problems: list[str]) -> SlackSettings | None:
    if not isinstance(table, dict):
        problems.append("slack: must be a table: write [slack] and its keys below")
        return None
    given: dict[str, Any] = dict(table)
    problems += [
        f"slack.{field}: a secret does not belong in this file; name its variable by {field}_env"
        for field in _SLACK_SECRETS
        if given.pop(field, None) is not None
    ]
    for field in ("channel", "base_url"):
        if f"OPSGUARD_SLACK_{field.upper()}" in environ:
            given[field] = environ[f"OPSGUARD_SLACK_{field.upper()}"]
    try:
        for field in _SLACK_SECRETS:
            named = given.get(f"{field}_env", SlackSettings.model_fields[f"{field}_env"].default)
            if isinstance(named, str):
                given[field] = from_environment(environ, named)
        return SlackSettings(**given)
    except ValidationError as error:
        problems += [f"slack.{problem}" for problem in problems_of(error, SlackSettings, hidden=_SLACK_SECRETS)]
    except ValueError as error:
        problems.append(f"slack: {error}")
    return None


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """Top-level settings that `OPSGUARD_<KEY>` overrides."""
    values: dict[str, Any] = {}
    if text := environ.get("OPSGUARD_UI_URL"):
        values["ui_url"] = text
    if text := environ.get("OPSGUARD_OWNERS"):
        values["owners"] = tuple(owner.strip() for owner in text.split(","))
    if text := environ.get("OPSGUARD_APPROVE_IN_UI"):
        truth = {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())
        if truth is None:
            problems.append("OPSGUARD_APPROVE_IN_UI (environment): must be true or false")
        else:
            values["approve_in_ui"] = truth
    for key in ("lease_seconds", "retention_days"):
        text = environ.get(f"OPSGUARD_{key.upper()}", "")
        if re.fullmatch(r"[0-9]{1,9}", text):
            values[key] = int(text)
        elif text:
            problems.append(f"OPSGUARD_{key.upper()} (environment): must be a whole number")
    return values


def _home(given: object, environ: Mapping[str, str], base: Path, problems: list[str]) -> Path:
    if environ.get("OPSGUARD_HOME") or given is None:
        return home_path(environ)
    if not isinstance(given, str) or not given or not given.isprintable():
        problems.append("home: must be the path of a directory, as text between quotes")
        return home_path(environ)
    return (base / Path(given).expanduser()).absolute()


def _shown(key: str) -> str:
    return key if key.isprintable() else ascii(key)

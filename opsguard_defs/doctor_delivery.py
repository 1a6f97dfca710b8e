"""Each part of a delivery watch, as `opsguard doctor` sees it: read, and nothing sent, reserved or made."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from guards.delivery.bodies import NoBody, NoTemplate
from guards.delivery.evidence import EvidenceUnreadable
from guards.delivery.registry import Provider, Registry
from guards.delivery.templates import VARIABLES, parse_approved
from guards.text import count_words
from opsguard_defs.diagnosis import Diagnosis, Health, health_of
from opsguard_defs.settings import DeliveryWatch
from resources.delivery.bodies import templates_of
from resources.delivery.registry import RegistryFile
from resources.errors import ConfigurationError, OpsGuardError
from resources.providers.dialling import NotConnected, dial, secured
from resources.providers.patience import Deadline
from resources.providers.settings import ProviderSettings

if TYPE_CHECKING:
    from resources.state import StateStore

REACH_SECONDS: Final = 10.0
_MOST_PROBLEMS: Final = 5


def examine_delivery(where: str, watch: DeliveryWatch, now: Callable[[], datetime], home: Path) -> Iterator[Diagnosis]:
    """Asked when nothing is missing that the settings name. `home` is where the state database is, if it is embedded."""
    registry = _read_registry(watch.registry)
    yield Diagnosis(where, "registry", *_of_registry(watch.registry, registry))
    yield Diagnosis(where, "templates", *_of_templates(watch.templates))
    yield Diagnosis(where, "outbox", *_of_outbox(watch.outbox))
    yield Diagnosis(where, "check-ins", *_of_check_ins(watch, now()))
    yield Diagnosis(where, "ledger", *_of_ledger(watch, home))
    yield from _providers(where, watch.providers(), registry)


Found = tuple[Health, str]


def _read_registry(path: Path) -> Registry | str:
    """Or what is wrong with it, a line each."""
    try:
        return RegistryFile(path).read()
    except ConfigurationError as error:
        return str(error)


def _of_registry(path: Path, registry: Registry | str) -> Found:
    if isinstance(registry, str):
        return Health.MISCONFIGURED, registry
    enabled = sum(customer.enabled for customer in registry.customers.values())
    return Health.OK, f"{path}: {count_words(len(registry.customers), 'customer')}, {enabled} enabled, days are {registry.zone}'s"


def _of_templates(directory: Path) -> Found:
    approved = directory / "approved.yaml"
    try:
        found = parse_approved(approved.read_bytes())
    except FileNotFoundError:
        return Health.NOTE, f"there is no {approved}: no template is approved, and a rule that names one sends nothing"
    except OSError as error:
        return Health.MISCONFIGURED, f"{approved} cannot be read ({error.strerror})"
    if isinstance(found, tuple):
        return Health.MISCONFIGURED, f"{approved}: {'; '.join(str(problem) for problem in found[:_MOST_PROBLEMS])}"
    seen = templates_of(set(found), directory)
    bodies = (seen.body(name, dict.fromkeys(VARIABLES, "x")) for name in found)
    if unusable := [body.why for body in bodies if isinstance(body, NoTemplate | NoBody)]:
        return Health.MISCONFIGURED, "; ".join(unusable[:_MOST_PROBLEMS])
    return Health.OK, f"{approved}: {count_words(len(found), 'approved template')}"


def _of_outbox(directory: Path) -> Found:
    if not directory.is_dir():
        return (
            Health.NOTE,
            f"there is no {directory}: messages without a template stay body_missing until an upstream job makes it",
        )
    if not os.access(directory, os.R_OK | os.X_OK):
        return Health.MISCONFIGURED, f"{directory} cannot be read by this user"
    return Health.OK, f"{directory} can be read"


def _of_check_ins(watch: DeliveryWatch, now: datetime) -> Found:
    from resources.delivery.evidence import Evidence

    if watch.check_ins is None:
        return Health.NOTE, "none are configured: no reminder is ever sent"
    found = Evidence(watch.check_ins.source()).read(since=now - timedelta(days=2))
    if isinstance(found, EvidenceUnreadable):
        return Health.MISCONFIGURED, f"{found.why}. Until then no reminder is sent"
    return Health.OK, f"{count_words(sum(map(len, found.rows.values())), 'check-in')} in the last two days"


def _of_ledger(watch: DeliveryWatch, home: Path) -> Found:
    """Opened only where there is one: opening makes it."""
    if watch.ledger == "postgres":
        return Health.OK, "in the state database (see its own line)"
    from resources.delivery.ledger import open_ledger, unlike_known
    from resources.ledger.file.store import FileLedger
    from resources.ledger.places import is_store

    route, unlike = watch.route(), ""
    directory = route.ledger_dir
    try:
        with _state_that_is_there(home) as state:
            if not is_store(directory):
                if state is not None and state.published.of_watch(route.name) is not None:
                    with open_ledger(route, state):  # refuses, and says which ledger was there
                        pass
                return Health.NOTE, f"none yet in {directory}: the first run makes it"
            with FileLedger.open(directory, create=False) as ledger:
                seen, faults = ledger.health(), ledger.verify().faults
                if state is not None:
                    unlike = unlike_known(route, state, ledger)
    except OpsGuardError as error:
        return health_of(error), str(error)
    if seen.recovery or unlike:
        return Health.UNREACHABLE, f"{directory}: {seen.recovery or unlike}"
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return (
            Health.MISCONFIGURED,
            f"{directory}: {faults[0].why}{more}. Nothing is sent for such slots: `opsguard ledger verify`",
        )
    stale = f"; {count_words(len(seen.stale_sending), 'message')} left in the middle of the call" if seen.stale_sending else ""
    return Health.OK, f"{directory}: {seen.store}, {count_words(seen.head.sequence, 'row')}, all read and in order{stale}"


@contextmanager
def _state_that_is_there(home: Path) -> Iterator["StateStore | None"]:
    """None where there is none yet or it does not answer, which a line of its own says. Nothing is made."""
    from sqlalchemy.exc import SQLAlchemyError

    from resources.state import StateStore, state_url

    with ExitStack() as stack:
        state = None
        if os.environ.get("OPSGUARD_STATE_URL", "").strip() or (home / "postgres").is_dir():
            with suppress(OpsGuardError, SQLAlchemyError, OSError):
                state = stack.enter_context(StateStore.open(state_url(home)))
        yield state


def _providers(where: str, settings: ProviderSettings, registry: Registry | str) -> Iterator[Diagnosis]:
    """What the registry's routes need and the settings have not, then whether what they have can be reached."""
    routes = [] if isinstance(registry, str) else [one.route for one in registry.customers.values() if one.enabled]
    opened = {
        Provider.SLACK: settings.slack,
        Provider.SMTP: settings.smtp,
        Provider.FILE: settings.file_provider_dir,
        Provider.WEBHOOK: settings.webhooks or None,
    }
    for provider in sorted({route.provider for route in routes if opened[route.provider] is None}):
        message = f"the registry has routes by {provider}, and the settings do not: nothing is sent there"
        yield Diagnosis(where, f"provider {provider}", Health.MISCONFIGURED, message)
    for name in sorted({route.address for route in routes if route.provider is Provider.WEBHOOK} - set(settings.webhooks)):
        if settings.webhooks:
            message = f"the registry names webhook {name}, and the settings do not: nothing is sent there"
            yield Diagnosis(where, f"provider webhook {name}", Health.MISCONFIGURED, message)
    if settings.file_provider_dir is not None:
        yield Diagnosis(where, "provider file", *_of_directory(settings.file_provider_dir))
    for name, hook in settings.webhooks.items():
        yield Diagnosis(where, f"provider webhook {name}", *_of_address(hook.url, hook.ca_file))
    if settings.slack is not None:
        yield Diagnosis(where, "provider slack", *_of_address(settings.slack.base_url, None))
    if settings.smtp is not None:
        mail = settings.smtp
        tls = mail.tls == "implicit"
        yield Diagnosis(where, "provider smtp", *_reached(mail.host, mail.usual_port, tls=tls, ca_file=mail.ca_file))


def _of_directory(directory: Path) -> Found:
    if directory.is_dir():
        usable = os.access(directory, os.R_OK | os.W_OK | os.X_OK)
        return (Health.OK, f"{directory} can be written") if usable else (Health.MISCONFIGURED, f"{directory} cannot be written")
    if directory.parent.is_dir():
        return Health.OK, f"{directory} is made with the first message"
    return Health.MISCONFIGURED, f"there is no {directory.parent}: make it"


def _of_address(url: str, ca_file: Path | None) -> Found:
    """Only its host is shown: an address may hold a secret."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    return _reached(parts.hostname or "", parts.port or (443 if tls else 80), tls=tls, ca_file=ca_file)


def _reached(host: str, port: int, *, tls: bool, ca_file: Path | None) -> Found:
    """Connects and, with TLS, has the certificate checked. Not a byte of a message is sent, and nobody logs in."""
    try:
        with Deadline(REACH_SECONDS) as deadline:
            connection = dial(host, port, deadline=deadline)
            try:
                if tls:
                    connection = secured(connection, host, ca_file=ca_file, deadline=deadline)
            finally:
                connection.close()
    except NotConnected as error:
        return Health.UNREACHABLE, f"{host}:{port}: {error}"
    proven = "its certificate is good" if tls else "it proves nothing about who it is"
    return Health.OK, f"{host}:{port} answers; {proven}. Whether it takes messages only a message shows"

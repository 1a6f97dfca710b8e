"""`opsguard schedule preview`: what a registry owes in the coming days, before anything is configured to send it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo

import typer

from guards.text import count_words, one_line
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import say
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.registry import Registry
    from guards.delivery.schedule import Day

MOST_DAYS: Final = 3_660
EARLIEST: Final = date(2000, 1, 1)
LATEST: Final = date(2199, 12, 31)
DAYS_SHOWN: Final = 7
ROWS_SHOWN: Final = 200

schedule = typer.Typer(
    help="What the customers' registry owes, and when.",
    no_args_is_help=True,
    epilog="Example: opsguard schedule preview --registry customers.yaml",
)


@schedule.callback()
def group() -> None:
    """What the customers' registry owes, and when."""


@schedule.command(
    epilog="Example: opsguard schedule preview --registry customers.yaml --from 2026-11-30 --to 2026-12-31 --ics december.ics"
)
def preview(
    first: Annotated[
        str, typer.Option("--from", metavar="DATE", help="First local date, YYYY-MM-DD; unset: today in the registry's zone.")
    ] = "",
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="Last local date; unset: six days after the first.")] = "",
    customer: Annotated[str, typer.Option("--customer", metavar="KEY", help="Only of this customer.")] = "",
    registry: Annotated[
        str,
        typer.Option("--registry", metavar="FILE or WATCH", help="A customers.yaml, or a delivery watch; unset: the only watch."),
    ] = "",
    ics: Annotated[
        str, typer.Option("--ics", metavar="FILE", help="Write an iCalendar file instead of the table; - is stdout.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Let --ics replace a file that exists.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Rows of the table at most.")] = ROWS_SHOWN,
    as_json: AsJson = False,
) -> int:
    """Show every slot that would become due, with its window and where it would go. Reads the registry and nothing else.

    Dates are those of each customer's own zone. Whether a body is there, a template is approved or a check-in has come is not looked at.
    """
    from guards.delivery.schedule import day_by_day
    from opsguard_defs.cli import schedule_output

    if ics == "-" and as_json:
        raise ConfigurationError("--ics - and --json both want stdout: give --ics a file")
    read = _only(_registry(registry), customer)
    begin, end = _range(first, last, read)
    days = day_by_day(read, begin, end)
    if ics:
        return schedule_output.as_calendar(_watched(days, begin, end), ics, force=force, as_json=as_json)
    if as_json:
        return schedule_output.as_lines(_watched(days, begin, end))
    return schedule_output.as_table(_watched(days, begin, end), limit=limit, dates=(begin, end))


def _watched(days: "Iterator[Day]", first: date, last: date) -> "Iterator[Day]":
    from opsguard_defs.cli.progress import progress

    with progress("schedule") as step:
        for day in days:
            yield day
            step(day.date.isoformat(), (day.date - first).days + 1, (last - first).days + 1)


def _registry(named: str) -> "Registry":
    from guards.delivery.marked_yaml import MOST_BYTES
    from guards.delivery.registry_file import parse_registry
    from resources.delivery.reading import read_file, said

    path = _registry_path(named)
    try:
        data = read_file(path, most_bytes=MOST_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {said(error)}") from None
    parsed = parse_registry(data)
    if isinstance(parsed, tuple):
        raise ConfigurationError("\n".join(f"{path}: {problem}" for problem in parsed))
    return parsed


def _registry_path(named: str) -> Path:
    if named and Path(named).exists():
        return Path(named)
    if named and not re.fullmatch(r"(delivery/)?[a-z][a-z0-9_]{0,30}", named):
        raise ConfigurationError(f"--registry {one_line(named)}: there is no such file, and it is not the name of a watch")
    from opsguard_defs.settings import load_settings
    from opsguard_defs.settings.delivery_watch import DeliveryWatch

    settings = load_settings()
    if not named and not any(isinstance(watch, DeliveryWatch) for watch in settings.watches):
        raise ConfigurationError("the settings have no delivery watch: say --registry customers.yaml")
    wanted = f"delivery/{named.removeprefix('delivery/')}" if named else "delivery"
    watches = [watch for watch in settings.select(wanted) if isinstance(watch, DeliveryWatch)]
    if len(watches) > 1:
        known = ", ".join(watch.name for watch in watches)
        raise ConfigurationError(f"the settings have {len(watches)} delivery watches: say --registry with one of {known}")
    return watches[0].registry


def _only(registry: "Registry", customer: str) -> "Registry":
    """Those that would be sent to; a customer who is not enabled only when asked for by name."""
    if customer:
        if customer not in registry.customers:
            from guards.delivery.registry_fields import nearest

            known = list(registry.customers)
            hint = nearest(customer, known) if len(known) <= 20 else nearest(customer, known).removeprefix("known are ")
            raise ConfigurationError(
                f"--customer {one_line(customer)}: the registry has no such key; {one_line(hint, limit=300)}"
            )
        chosen = registry.customers[customer]
        if not chosen.enabled:
            say(f"{customer} is not enabled: nothing of this would be sent")
        return replace(registry, customers={customer: chosen})
    enabled = {key: one for key, one in registry.customers.items() if one.enabled}
    if left_out := len(registry.customers) - len(enabled):
        say(f"left out, since not enabled: {count_words(left_out, 'customer')}; --customer KEY shows one")
    return replace(registry, customers=enabled)


def _range(first: str, last: str, registry: "Registry") -> tuple[date, date]:
    begin = _date(first, "--from") if first else datetime.now(UTC).astimezone(ZoneInfo(registry.zone)).date()
    end = _date(last, "--to") if last else begin + timedelta(days=DAYS_SHOWN - 1)
    if end < begin:
        raise ConfigurationError(f"--to {end} is before --from {begin}")
    if (end - begin).days >= MOST_DAYS:
        raise ConfigurationError(f"{begin} to {end} is longer than {MOST_DAYS:,} days: ask for less")
    return begin, end


def _date(text: str, option: str) -> date:
    try:
        found = date(*map(int, text.split("-"))) if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        found = None
    if found is None or not EARLIEST <= found <= LATEST:
        raise ConfigurationError(f"{option} {one_line(text)}: must be a date from {EARLIEST} to {LATEST}, such as 2026-11-30")
    return found

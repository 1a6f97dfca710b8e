"""The forms that a preview of the schedule takes: a table for eyes, JSON lines for scripts, a calendar for everybody else."""

import contextlib
import json
import os
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from guards.delivery.calendar_file import calendar_text
from guards.delivery.periods import Occasion
from guards.delivery.registry import Customer, Rule
from guards.delivery.schedule import Day, Group, Row
from guards.text import count_words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.output import emit, line, say, table
from resources.errors import ConfigurationError

_COLUMNS: Final = ("local time", "zone", "customer", "kind", "slot", "may be sent until", "route", "body")


def as_table(days: Iterator[Day], *, limit: int, dates: tuple[date, date]) -> int:
    """The first `limit` slots; the rest is counted."""
    shown: list[tuple[str, ...]] = []
    counts: Counter[str] = Counter()
    for day in days:
        for _, rule, customers in day.groups:
            counts[rule.kind.value] += len(customers)
        if len(shown) < limit:
            shown += [_cells(row) for row in day.rows()[: limit - len(shown)]]
    if shown:
        table(_COLUMNS, shown)
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
    line(f"{count_words(counts.total(), 'slot')} from {dates[0]} to {dates[1]}" + (f": {kinds}" if kinds else ""))
    if counts.total() > len(shown):
        line(f"shown are the first {len(shown):,}; --customer or a shorter range shows less, --limit, --json and --ics show more")
    return Exit.DONE


def as_lines(days: Iterator[Day]) -> int:
    """One JSON object per slot, by (local date, due time, slot): a line begins with its slot's key, so lines of one time sort by it.

    Written from parts: a year of 1,000 customers is half a gigabyte, and `emit` for each line takes four times as long.
    """
    who: dict[tuple[str, int], str] = {}
    for day in days:
        lines: list[str] = []
        groups = sorted(day.groups, key=_due_at)
        for _, together in groupby(groups, key=_due_at):
            some: list[str] = []
            for when, rule, customers in together:
                ending, timed = f":{when.period}:{rule.kind.value}", _when_json(when, rule, customers[0].zone)
                for customer in customers:
                    named = (customer.key, id(rule))
                    told = who.get(named) or who.setdefault(named, _who_json(customer, rule))
                    some.append(f'{{"slot": "{customer.key}{ending}", {told}{timed}}}\n')
            some.sort()
            lines += some
        sys.stdout.write("".join(lines))
    return Exit.DONE


def _due_at(group: Group) -> datetime:
    return group[0].due_at


def as_calendar(days: Iterator[Day], target: str, *, force: bool, as_json: bool) -> int:
    """An iCalendar file. A calendar without an event is not allowed, and is not made."""
    path = None if target == "-" else Path(target)
    if path is not None and path.is_dir():
        raise ConfigurationError(f"{path}: cannot be written (Is a directory); nothing was changed")
    if path is not None and path.exists() and not force:
        raise ConfigurationError(f"{path} exists: name a new file, or say --force to replace it")
    events: Counter[str] = Counter()
    pieces = calendar_text(_counted(days, events), stamp=datetime.now(UTC))
    if path is None:
        held = b""
        for piece in pieces:
            held += piece.encode("utf-8")
            if events.total():
                sys.stdout.buffer.write(held)
                held = b""
        sys.stdout.buffer.flush()
    else:
        _publish(path, pieces, events, force=force)
    number = events.total()
    if as_json:
        emit({"file": target if number else None, "events": number})
    elif number:
        say(f"{'stdout' if path is None else path}: {count_words(number, 'event')}")
    else:
        say("no slot in this range: no calendar was written")
    return Exit.DONE


def _counted(days: Iterator[Day], events: Counter[str]) -> Iterator[Day]:
    for day in days:
        events[day.date.isoformat()] = day.count
        yield day


def _publish(path: Path, pieces: Iterator[str], events: Counter[str], *, force: bool) -> None:
    """Whole or not at all, readable by its owner: it names customers. Without `force` a file that came meanwhile is not replaced."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
            for piece in pieces:
                file.write(piece.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if not events.total():
            return
        if force:
            partial.replace(path)
        else:
            os.link(partial, path)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists: name a new file, or say --force to replace it") from None
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no directory {path.parent}") from None
    except (PermissionError, NotADirectoryError) as error:
        raise ConfigurationError(f"{path}: cannot be written ({error.strerror}); nothing was changed") from None
    finally:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            partial.unlink()


def _cells(row: Row) -> tuple[str, ...]:
    zone = row.customer.zone
    route = f"{row.customer.route.provider.value} {row.customer.route.address}"
    body = f"template {row.rule.template}" if row.rule.template else "outbox"
    name = row.customer.display_name
    return (
        _local(row.when.due_at, zone),
        zone,
        name,
        row.rule.kind.value,
        row.key,
        _local(row.when.closes_at, zone),
        route,
        body,
    )


def _local(at: datetime, zone: str) -> str:
    return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat(" ", "minutes")


def _who_json(customer: Customer, rule: Rule) -> str:
    """The part of a line that a customer's rule has on every day. A path into the outbox is left open: `_when_json` ends it."""
    value = {
        "customer": customer.key,
        "display_name": customer.display_name,
        "enabled": customer.enabled,
        "zone": customer.zone,
        "kind": rule.kind.value,
        "route": {"provider": customer.route.provider.value, "address": customer.route.address},
        "body": f"templates/{rule.template}.md" if rule.template else f"outbox/{customer.key}",
    }
    return json.dumps(value)[1 : -1 if rule.template else -2]


def _when_json(when: Occasion, rule: Rule, zone: str) -> str:
    """The part that everybody with this rule has on this day. Instants are told by the customer's clock."""
    value = {
        "period": when.period,
        "local_date": when.local_date.isoformat(),
        "due_at": when.due_at.astimezone(ZoneInfo(zone)).isoformat(),
        "closes_at": when.closes_at.astimezone(ZoneInfo(zone)).isoformat(),
    }
    body = "" if rule.template else f'/{when.period}/{rule.kind.value}.md"'
    return f"{body}, {json.dumps(value)[1:-1]}"

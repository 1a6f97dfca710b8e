"""The forms that a preview of the schedule takes: a table for eyes, JSON lines for scripts, a calendar for everybody else."""

import contextlib
import json
import os
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from guards.delivery.calendar_file import calendar_text
from guards.delivery.periods import Occasion
from guards.delivery.registry import Customer, Rule
from guards.delivery.schedule import Day, Row
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
    """One JSON object per slot, by (local date, due time, slot). Written from parts: `emit` for each takes four times as long."""
    who: dict[tuple[str, str], str] = {}
    for day in days:
        timed = {id(when): _when_json(when, customers[0].zone) for when, _, customers in day.groups}
        lines = []
        for row in day.rows():
            named = (row.customer.key, row.rule.kind)
            told = who.get(named) or who.setdefault(named, _who_json(row.customer, row.rule))
            lines.append(f'{{"slot": "{row.key}", {told}, {timed[id(row.when)]}, "body": "{_body(row)}"}}\n')
        sys.stdout.write("".join(lines))
    return Exit.DONE


def as_calendar(days: Iterator[Day], target: str, *, force: bool, as_json: bool) -> int:
    """An iCalendar file. A calendar without an event is not allowed, and is not made."""
    path = None if target == "-" else Path(target)
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
    finally:
        with contextlib.suppress(FileNotFoundError):
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


def _body(row: Row) -> str:
    """Where it would come from; nothing in it needs an escape."""
    if row.rule.template:
        return f"templates/{row.rule.template}.md"
    return f"outbox/{row.customer.key}/{row.when.period}/{row.rule.kind.value}.md"


def _when_json(when: Occasion, zone: str) -> str:
    value = {
        "period": when.period,
        "local_date": when.local_date.isoformat(),
        "due_at": when.due_at.isoformat(),
        "closes_at": when.closes_at.isoformat(),
        "local_due": _local(when.due_at, zone),
        "local_closes": _local(when.closes_at, zone),
    }
    return json.dumps(value)[1:-1]


def _who_json(customer: Customer, rule: Rule) -> str:
    value = {
        "customer": customer.key,
        "display_name": customer.display_name,
        "enabled": customer.enabled,
        "zone": customer.zone,
        "kind": rule.kind.value,
        "route": {"provider": customer.route.provider.value, "address": customer.route.address},
    }
    return json.dumps(value)[1:-1]

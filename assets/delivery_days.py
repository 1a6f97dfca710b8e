"""The day partitions of one delivery watch, written by reports and apply runs: an unpartitioned run logs one event per changed day."""

from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import dagster as dg

from assets.delivery_report import DeliveryReport, by_day
from assets.report_run import counted
from guards.canonical import digest
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.verdict import DeliveryVerdict
from guards.finding import Finding, counts_by_verdict
from guards.plan import SHORT_DIGITS
from guards.text import SENTENCE_LIMIT, count_words, one_line

FIRST_DAY: Final = "2026-01-01"
MOST_ROWS: Final = 50


def days_ahead(policy: DeliveryPolicy) -> int:
    """Days of the calendar that begin after today's and that a report of the watch reaches. No more: the page of partitions begins with
    the latest, and people look for today."""
    return -(-policy.look_ahead_hours // 24)


def log_days(context: dg.OpExecutionContext, key: dg.AssetKey, report: DeliveryReport, *, ahead: int) -> None:
    """One materialisation per day whose slots are not as they were logged last: a report every ten minutes must not write 576 a day.
    Days for which there is no partition yet are left out: a run may be told to look farther than its watch does."""
    zone = report.world.registry.zone
    last = report.world.now.astimezone(ZoneInfo(zone)).date() + timedelta(days=ahead)
    for day, found in by_day(report.plan.findings, zone).items():
        if not date.fromisoformat(FIRST_DAY) <= day <= last:
            continue
        version = digest([[one.subject, one.verdict.value, one.note] for one in found])[:SHORT_DIGITS]
        if version != _logged(context.instance, key, day):
            context.log_event(
                dg.AssetMaterialization(
                    key,
                    partition=day.isoformat(),
                    description=f"{count_words(len(found), 'message')}: {counted(counts_by_verdict(found)).replace('_', ' ')}",
                    metadata={**day_metadata(found), "version": version},
                )
            )


def _logged(instance: dg.DagsterInstance, key: dg.AssetKey, day: date) -> str:
    """The version of the latest materialisation of that day, "" when there is none."""
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[day.isoformat()])
    records = instance.fetch_materializations(wanted, limit=1).records
    made = records[0].asset_materialization if records else None
    version = made.metadata.get("version") if made is not None else None
    return str(version.value) if version is not None else ""


def day_metadata(found: tuple[Finding, ...]) -> dict[str, Any]:
    """The table first: it is what a person came for. Every verdict has a number of its own, 0 included: they become plots over the days."""
    counts = counts_by_verdict(found)
    rows = [_row(one) for one in found[:MOST_ROWS]]
    if len(found) > MOST_ROWS:
        rows.append(dg.TableRecord({"slot": f"and {len(found) - MOST_ROWS:,} more", "verdict": "", "due": "", "why": ""}))
    return {
        "messages": dg.MetadataValue.table(rows, schema=_SCHEMA),
        "slots": len(found),
        **{verdict.value: counts.get(verdict.value, 0) for verdict in DeliveryVerdict},
    }


def _row(one: Finding) -> dg.TableRecord:
    return dg.TableRecord(
        {
            "slot": one_line(one.subject),
            "verdict": one.verdict.value,
            "due": _due(one),
            "why": one_line(one.note, limit=SENTENCE_LIMIT),
        }
    )


def _due(one: Finding) -> str:
    """By the customer's own clock, as the sentence beside it says it; "" for what has no date."""
    due_at, zone = one.facts.get("due_at"), one.facts.get("zone")
    if not isinstance(due_at, str):
        return ""
    there = str(zone) if zone else "UTC"
    return f"{datetime.fromisoformat(due_at).astimezone(ZoneInfo(there)):%Y-%m-%d %H:%M} {there}"


_SCHEMA: Final = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in ("slot", "verdict", "due", "why")])

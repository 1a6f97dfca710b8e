"""The day partitions of one delivery watch, written by reports and apply runs: an unpartitioned run logs one event per changed day."""

from datetime import date, timedelta
from typing import Any, Final

import dagster as dg

from assets.delivery_report import DeliveryReport, by_day
from assets.report_run import counted
from guards.canonical import digest
from guards.delivery.verdict import DeliveryVerdict
from guards.finding import Finding, counts_by_verdict
from guards.text import count_words, one_line

FIRST_DAY: Final = "2026-01-01"
DAYS_AHEAD: Final = 33
"""A report looks ahead 31 days at most; a zone may be a day ahead of UTC."""
MOST_ROWS: Final = 50


def log_days(context: dg.OpExecutionContext, key: dg.AssetKey, report: DeliveryReport) -> None:
    """One materialisation per day whose slots are not as they were logged last: a report every ten minutes must not write 576 a day."""
    for day, found in by_day(report.plan.findings, report.world.registry.zone).items():
        if not date.fromisoformat(FIRST_DAY) <= day <= report.world.now.date() + timedelta(days=DAYS_AHEAD - 1):
            continue
        version = digest([[one.subject, one.verdict.value, one.note] for one in found])
        if version != _logged(context.instance, key, day):
            context.log_event(
                dg.AssetMaterialization(
                    key,
                    partition=day.isoformat(),
                    description=f"{count_words(len(found), 'message')}: {counted(counts_by_verdict(found))}",
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
    """Every verdict has a number of its own, 0 included: they become plots over the days."""
    counts = counts_by_verdict(found)
    rows = [_row(one) for one in found[:MOST_ROWS]]
    if len(found) > MOST_ROWS:
        rows.append(dg.TableRecord({"slot": f"and {len(found) - MOST_ROWS:,} more", "verdict": "", "due": "", "why": ""}))
    return {
        "slots": len(found),
        **{verdict.value: counts.get(verdict.value, 0) for verdict in DeliveryVerdict},
        "messages": dg.MetadataValue.table(rows),
    }


def _row(one: Finding) -> dg.TableRecord:
    return dg.TableRecord(
        {
            "slot": one_line(one.subject),
            "verdict": one.verdict.value,
            "due": str(one.facts.get("due_at", "")),
            "why": one_line(one.note, limit=300),
        }
    )

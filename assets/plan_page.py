"""The pages of a plan in the Dagster UI: asset metadata, the check that people decide on, receipts.

What was tried in the real UI and decides the shapes here: metadata keeps its order; Markdown under 1,000 characters is shown in place,
longer hides behind a button; the widest entry sets the width, so the asset gets bullets and the check gets the table, whose cells
are plain text; a check's description is Markdown, on top, with working links.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import dagster as dg

from assets.launchpad_link import launchpad_link, markdown_link, run_link
from assets.plan_words import (
    ASKS_FOR_A_DECISION,
    STATE_WORDS,
    PlanPage,
    Row,
    breakdown,
    command,
    headline,
    next_step,
    proposal,
    rows,
)
from guards.plan import Plan
from guards.receipt import Receipt
from guards.text import SENTENCE_LIMIT, code_span, count_words, markdown_text, one_line, size_words, table_cell

DECISION_CHECK: Final = "plan_needs_a_decision"
IN_PLACE_LIMIT: Final = 1000
"""Markdown of this length or more is hidden behind a [Show Markdown] button."""
MOST_BULLETS: Final = 6
MOST_ROWS: Final = 50
MOST_RECEIPTS: Final = 100


def approval_link(plan: Plan[Any], *, base_url: str, job: str) -> str:
    """Opens the apply job's form for exactly this plan: `approved_by` is the one thing left to fill in."""
    shown = rows(plan)
    listed = [
        f"- {row.action} {one_line(row.subject, limit=60)}, {row.verdict}"
        for row in shown
        if row.action not in ("person", "later")
    ]
    return launchpad_link(
        base_url,
        job,
        {"approved_plan": plan.short, "approved_by": "", "approval_comment": "", "dry_run": False, "auto_remediate": True},
        lines=[
            f"You are approving plan {plan.short}: {count_words(len(plan.targets), 'target')}, {size_words(plan.outstanding_bytes)}",
            "Nothing else is written. Fill in approved_by, then press Launch Run.",
            *listed,
        ],
        rest=f"... the whole list: opsguard plans show {plan.short}",
        tags={"opsguard/plan": plan.short},
    )


def plan_metadata(page: PlanPage) -> dict[str, Any]:
    """The plan asset's metadata: the answer first, numbers after it, last where the full list is. Set `data_version` to the digest."""
    plan = page.plan
    age = {} if page.oldest_gap_minutes is None else {"oldest_gap_minutes": page.oldest_gap_minutes}
    seen = f"{len(plan.findings):,} seen, {count_words(len(plan.gaps), 'gap')}"
    return {
        "state": STATE_WORDS.get(page.state, page.state),
        "approve": dg.MetadataValue.md(what_to_do(page, refuse=False)),
        "report": dg.MetadataValue.md(report_markdown(page)),
        "plan_digest": plan.short,
        "gaps": len(plan.gaps),
        "targets": len(plan.targets),
        "outstanding_bytes": plan.outstanding_bytes,
        **age,
        **page.numbers,
        "findings": dg.MetadataValue.md(
            f"{seen}: table on the check **{markdown_text(DECISION_CHECK)}**; all: `opsguard plans show {plan.short}`"
        ),
    }


def report_markdown(page: PlanPage) -> str:
    """A bold headline and at most six bullets, under 1,000 characters whatever the names are."""
    shown = rows(page.plan)
    top = f"**{markdown_text(headline(page))}**. {markdown_text(proposal(page))}"
    for kept in range(min(len(shown), MOST_BULLETS), 0, -1):
        for name_limit, why_limit in ((80, 160), (60, 80), (40, 40)):
            bullets = [_bullet(row, name_limit=name_limit, why_limit=why_limit) for row in shown[:kept]]
            more = [f"- and {len(shown) - kept:,} more"] if kept < len(shown) else []
            text = "\n".join([top, "", *bullets, *more])
            if len(text) < IN_PLACE_LIMIT:
                return text
    return top


def what_to_do(page: PlanPage, *, refuse: bool) -> str:
    """One line of Markdown: the link, the command, or why there is neither. `refuse` adds how to decline."""
    typed = f"`{command(page)}`"
    if page.state not in ASKS_FOR_A_DECISION:
        return f"{markdown_text(next_step(page), limit=300)}{f' {typed}' if command(page) else ''}"
    form = f"**{markdown_link('Open the approval form, filled in', page.link)}** or run " if page.link else "Run "
    declining = f". To refuse: `opsguard decline {page.plan.short} --by YOU`." if refuse else ""
    return f"{form}{typed}{declining}"


def findings_table(plan: Plan[Any]) -> list[dg.TableRecord]:
    """`subject | verdict | action | why`, gaps only, at most 50 rows and one more that says how many are not shown."""
    shown = rows(plan)
    records = [
        dg.TableRecord(
            {
                "subject": one_line(row.subject),
                "verdict": row.verdict,
                "action": row.action,
                "why": one_line(row.why, limit=SENTENCE_LIMIT),
            }
        )
        for row in shown[:MOST_ROWS]
    ]
    if len(shown) > MOST_ROWS:
        rest = {
            "subject": f"and {len(shown) - MOST_ROWS:,} more",
            "verdict": "",
            "action": "",
            "why": f"opsguard plans show {plan.short}",
        }
        records.append(dg.TableRecord(rest))
    return records


def check_description(page: PlanPage) -> str:
    """The page that people decide on, above the table."""
    counted = f": {markdown_text(breakdown(page.plan))}" if page.plan.gaps else ""
    paragraphs = [
        markdown_text(page.done) if page.done else "",
        f"**{markdown_text(headline(page))}**{counted}. {markdown_text(proposal(page))}",
        what_to_do(page, refuse=True),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def decision_check_spec(key: dg.AssetKey) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        DECISION_CHECK,
        asset=key,
        description="Nothing waits for a person: no gap, and no plan to approve. This is the page to decide on.",
    )


def decision_check(page: PlanPage, *, asset_key: Sequence[str] | None = None) -> dg.AssetCheckResult:
    """`plan_needs_a_decision`: passes when nothing is owed and nothing waits for a person."""
    return dg.AssetCheckResult(
        passed=_is_settled(page),
        severity=dg.AssetCheckSeverity.WARN,
        check_name=DECISION_CHECK,
        asset_key=None if asset_key is None else list(asset_key),
        description=check_description(page),
        metadata=_check_metadata(page),
    )


def decision_evaluation(page: PlanPage, *, asset_key: Sequence[str]) -> dg.AssetCheckEvaluation:
    """The same, for `context.log_event` in an apply run: without it the lineage graph keeps the warning of before the repair."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(list(asset_key)),
        check_name=DECISION_CHECK,
        passed=_is_settled(page),
        severity=dg.AssetCheckSeverity.WARN,
        description=check_description(page),
        metadata=_check_metadata(page),
    )


def receipts_in_place(receipts: Iterable[Receipt]) -> str:
    """A few bullets, under 1,000 characters whatever the names are, so that the asset shows them without a click."""
    listed = list(receipts)
    for kept in range(min(len(listed), MOST_BULLETS), 0, -1):
        bullets = [
            f"- **{markdown_text(one.action)}** {code_span(one.subject, limit=60)}: {size_words(one.size_bytes)}, SHA-256 `{one.sha256[:12]}`"
            for one in listed[:kept]
        ]
        more = [f"- and {len(listed) - kept:,} more: `opsguard receipts`"] if kept < len(listed) else []
        text = "\n".join([*bullets, *more])
        if len(text) < IN_PLACE_LIMIT:
            return text
    return "Nothing was written." if not listed else f"{len(listed):,} receipts: `opsguard receipts`"


def receipts_markdown(receipts: Iterable[Receipt], *, base_url: str) -> str:
    """A table of what was written, newest as given, each with a link to its run; at most 100 rows."""
    listed = list(receipts)
    if not listed:
        return "Nothing was written."
    lines = ["| subject | action | bytes | sha256 | approved by | run |", "|---|---|---|---|---|---|"]
    for receipt in listed[:MOST_RECEIPTS]:
        run = markdown_link(table_cell(receipt.run_id[:8]), run_link(base_url, receipt.run_id))
        cells = (
            table_cell(receipt.subject),
            table_cell(receipt.action),
            f"{receipt.size_bytes:,}",
            table_cell(receipt.sha256[:12]),
            table_cell(receipt.approved_by),
            run,
        )
        lines.append(f"| {' | '.join(cells)} |")
    if len(listed) > MOST_RECEIPTS:
        lines += ["", f"and {len(listed) - MOST_RECEIPTS:,} more: `opsguard receipts`"]
    return "\n".join(lines)


def _is_settled(page: PlanPage) -> bool:
    return not page.plan.gaps and not page.plan.observation and page.state not in ASKS_FOR_A_DECISION


def _check_metadata(page: PlanPage) -> Mapping[str, Any]:
    table = findings_table(page.plan)
    shown = {"findings": dg.MetadataValue.table(table, schema=_FINDINGS_SCHEMA)} if table else {}
    return {**shown, "gaps": len(page.plan.gaps), "plan_digest": page.plan.short}


def _bullet(row: Row, *, name_limit: int, why_limit: int) -> str:
    why = markdown_text(row.why, limit=why_limit)
    return f"- **{markdown_text(row.action)}** {code_span(row.subject, limit=name_limit)}: {markdown_text(row.verdict)}. {why}"


_FINDINGS_SCHEMA: Final = dg.TableSchema(
    columns=[dg.TableColumn(name, "string") for name in ("subject", "verdict", "action", "why")]
)

"""`opsguard receipts` and `opsguard ledger`: what was ever written, and what may never be written twice. Reads only."""

from typing import Annotated

import typer

from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson, GuardOption
from opsguard_defs.cli.output import emit, line, table
from opsguard_defs.cli.state_store import open_state


def receipts(
    guard: GuardOption = "",
    watch: Annotated[str, typer.Option("--watch", metavar="NAME", help="Only of this watch.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most this many, newest first.")] = 200,
    as_json: AsJson = False,
) -> int:
    """What was ever written: which bytes, under whose approval, by which run."""
    from opsguard_defs.settings import load_settings

    with open_state(load_settings()) as store:
        found = store.receipts(guard=guard or None, watch=watch or None, limit=limit)
    if as_json:
        for receipt in found:
            emit(words.receipt_json(receipt))
    elif not found:
        line("nothing has been written yet")
    else:
        rows = [
            (
                words.utc(r.recorded_at), f"{r.guard}/{r.watch}", r.subject, r.action, f"{r.size_bytes:,}",
                words.short(r.sha256), words.short(r.plan_digest), r.approved_by,
            )
            for r in found
        ]  # fmt: skip
        table(("when", "watch", "subject", "action", "bytes", "sha256", "plan", "approved by"), rows, right=("bytes",))
    return Exit.DONE

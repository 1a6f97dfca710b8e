"""`opsguard alerts`: what has not reached Slack, and what nobody knows about."""

import logging
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, table
from opsguard_defs.cli.state_store import open_state

if TYPE_CHECKING:
    from opsguard_defs.settings import Settings
    from resources.state import OutboxRow, StateStore


def alerts(
    send: Annotated[bool, typer.Option("--send", help="Post now what is waiting and due.")] = False,
    as_json: AsJson = False,
) -> int:
    """Alerts that are waiting, in doubt (perhaps posted, not posted again), or refused by Slack."""
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    with open_state(settings) as store:
        done = _send(settings, store) if send else ""
        waiting, doubtful, counts = store.outbox.pending(), store.outbox.in_doubt(), store.outbox.counts()
    if as_json:
        emit({"counts": counts, "waiting": [_row(row) for row in waiting], "in_doubt": [_row(row) for row in doubtful]})
        return Exit.DONE
    if done:
        line(done)
    if waiting or doubtful:
        rows = [(words.utc(r.queued_at), r.status, r.attempts, r.key, r.why) for r in (*waiting, *doubtful)]
        table(("queued", "status", "attempts", "alert", "why"), rows, right=("attempts",))
    line(f"alerts: {', '.join(f'{number} {status}' for status, number in counts.items()) or 'none yet'}")
    return Exit.DONE


def _send(settings: "Settings", store: "StateStore") -> str:
    from resources.slack.client import SlackResource
    from resources.slack.outbox import deliver

    slack = SlackResource(
        token=settings.slack.token.get_secret_value(),
        webhook=settings.slack.webhook.get_secret_value(),
        channel=settings.slack.channel,
        base_url=settings.slack.base_url,
    )
    return deliver(store.outbox, slack, now=store.now, log=logging.getLogger("opsguard.alerts")).sentence()


def _row(row: "OutboxRow") -> dict[str, Any]:
    return {
        "key": row.key,
        "status": row.status,
        "attempts": row.attempts,
        "why": row.why,
        "queued_at": row.queued_at.isoformat(),
        "payload": row.payload,
    }

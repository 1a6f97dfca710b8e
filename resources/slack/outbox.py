"""Alerts leave through the state store's outbox: not lost while Slack is away, not posted twice when an answer is lost.

An alert is claimed and committed before the call, so a process that dies with the answer leaves it `unknown`, never due. Unknown ones
are not posted again unless the channel itself shows, minutes later, that they never arrived.
"""

import html
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, assert_never

from guards.canonical import Json
from guards.text import count_words, terminal
from resources.slack.answer import Absent, Ambiguous, Posted, Rejected
from resources.slack.client import SlackResource
from resources.slack.message import Message
from resources.state.outbox import OutboxRow

FIRST_RETRY_SECONDS: Final = 30
LONGEST_RETRY_SECONDS: Final = 900
SETTLES_AFTER: Final = timedelta(minutes=2)
"""A post whose answer was lost is in the channel by then, or nowhere: calls end after seconds."""
LOOKED_UP_FOR: Final = timedelta(days=1)
MOST_LOOK_UPS: Final = 5
_OF_THE_MESSAGE: Final = frozenset(
    {
        "invalid_blocks",
        "invalid_blocks_format",
        "invalid_metadata_format",
        "invalid_payload",
        "metadata_too_large",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
    }
)
"""Slack will never take this one; all others may pass, or an operator puts them right."""


class Outbox(Protocol):
    """`resources.state.store.OutboxStore`."""

    def enqueue(self, key: str, payload: Json) -> bool: ...
    def claim(self, limit: int) -> list[OutboxRow]: ...
    def sent(self, outbox_id: int, ts: str) -> None: ...
    def unknown(self, outbox_id: int, why: str) -> None: ...
    def failed(self, outbox_id: int, why: str, retry_at: datetime | None) -> None: ...
    def absent(self, outbox_id: int) -> None: ...
    def in_doubt(self, limit: int = 100) -> list[OutboxRow]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What one flush did, in alerts. `stopped_by` is Slack's code when it would take no more for now."""

    posted: int = 0
    logged: int = 0
    unknown: int = 0
    refused: int = 0
    """Slack will never take them; they are in the log."""
    stopped_by: str = ""

    def sentence(self) -> str:
        said = [
            f"{count_words(number, 'alert')} {what}"
            for number, what in (
                (self.posted, "posted"),
                (self.logged, "written to the log"),
                (self.unknown, "in doubt (`opsguard alerts`)"),
                (self.refused, "refused by Slack and written to the log"),
            )
            if number
        ]
        waits = f"the rest waits: {self.stopped_by}" if self.stopped_by else ""
        return "; ".join([*said, *([waits] if waits else [])]) or "no alert was waiting"


def enqueue(outbox: Outbox, message: Message) -> bool:
    """True the first time for this key; a key is alerted once for ever."""
    return outbox.enqueue(message.key, message.as_json())


def deliver(
    outbox: Outbox, slack: SlackResource, *, now: Callable[[], datetime], log: logging.Logger, limit: int = 20
) -> Delivery:
    """Post what is due, oldest first, one at a time; stops when Slack takes no more. `now` is the database clock.

    Errors: only those of the state store.
    """
    look_up_doubtful(outbox, slack, now=now(), log=log)
    posted = logged = unknown = refused = 0
    stopped_by = ""
    for _ in range(limit):
        claimed = outbox.claim(1)
        if not claimed:
            break
        (row,) = claimed
        message = _message(row)
        if message is None:
            outbox.failed(row.outbox_id, "not an alert of ours", None)
            refused += 1
            continue
        if slack.destination == "log":
            log.warning("%s", _spoken(message))
            outbox.sent(row.outbox_id, "log")
            logged += 1
            continue
        match slack.post(message):
            case Posted(ts):
                outbox.sent(row.outbox_id, ts)
                posted += 1
            case Ambiguous(why):
                outbox.unknown(row.outbox_id, why)
                log.warning(
                    "Alert %s may or may not have reached Slack: %s. It is not posted again. %s", row.key, why, _spoken(message)
                )
                unknown += 1
            case Rejected(code) if code in _OF_THE_MESSAGE:
                outbox.failed(row.outbox_id, code, None)
                log.error("Slack refused alert %s (%s), it will not be posted: %s", row.key, code, _spoken(message))
                refused += 1
            case Rejected(code, retry_after):
                outbox.failed(row.outbox_id, code, now() + _wait(row.attempts, retry_after))
                log.warning("Slack takes no alerts now (%s): they wait in the outbox", code)
                stopped_by = code
                break
            case never:
                assert_never(never)
    return Delivery(posted=posted, logged=logged, unknown=unknown, refused=refused, stopped_by=stopped_by)


def look_up_doubtful(outbox: Outbox, slack: SlackResource, *, now: datetime, log: logging.Logger) -> None:
    """Asks the channel about alerts whose answer was lost; ends at the first that cannot be looked up."""
    if slack.destination != "api":
        return
    doubtful = [row for row in outbox.in_doubt() if row.status == "unknown" and row.settled_at is not None]
    due = [row for row in doubtful if row.settled_at and SETTLES_AFTER <= now - row.settled_at <= LOOKED_UP_FOR]
    for row in due[:MOST_LOOK_UPS]:
        message = _message(row)
        if message is None:
            continue
        match slack.find(event_type=message.event_type, key=message.key, oldest=row.queued_at - SETTLES_AFTER):
            case Posted(ts):
                outbox.sent(row.outbox_id, ts)
                log.info("Alert %s had reached Slack", row.key)
            case Absent():
                outbox.absent(row.outbox_id)
                log.info("Alert %s had not reached Slack: it is posted again", row.key)
            case Ambiguous(why):
                log.info("Alert %s stays in doubt: %s", row.key, why)
                return
            case never:
                assert_never(never)


def _message(row: OutboxRow) -> Message | None:
    payload = row.payload
    if not isinstance(payload, dict):
        return None
    try:
        return Message.from_json(payload)
    except (KeyError, TypeError, ValueError):
        return None


def _spoken(message: Message) -> str:
    """On one line, without Slack's escapes, and without a control character that a log could obey."""
    return " | ".join(terminal(html.unescape(line)) for line in message.text.split("\n"))


def _wait(attempts: int, retry_after: int | None) -> timedelta:
    """Doubling from 30 s to 15 min, unless Slack said how long: down for a night costs it 40 calls."""
    if retry_after is not None:
        return timedelta(seconds=retry_after)
    return timedelta(seconds=min(FIRST_RETRY_SECONDS * 2 ** min(max(attempts - 1, 0), 10), LONGEST_RETRY_SECONDS))

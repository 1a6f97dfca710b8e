"""An alert as Slack blocks: bounded, and with nothing in it that a file name could turn into markup, a link or a mention.

Words from outside only ever stand in `plain_text` elements and are escaped there too; `mrkdwn` holds our own command and links. Links
are written as text, not as buttons: a button of an app without an interactivity address is shown with a warning sign.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from guards.canonical import Json
from guards.text import slack_text

HEADER_LIMIT: Final = 150
SECTION_LIMIT: Final = 3000
KEY_LIMIT: Final = 200
MOST_ITEMS: Final = 20
_EVENT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,59}")
_COMMAND: Final = re.compile(r"opsguard [A-Za-z0-9 ._/<>=-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`key` is the alert's identity (a run id, a plan digest): one message per key. `event_type` and `key` travel as metadata."""

    key: str
    event_type: str
    text: str
    """Shown by notifications, and in the log where there is no Slack."""
    blocks: tuple[Mapping[str, Json], ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    """More metadata, which a look-up compares."""

    def metadata(self) -> dict[str, Any]:
        """What a look-up finds the message by."""
        return {"event_type": self.event_type, "event_payload": {**self.facts, "key": self.key}}

    def as_json(self) -> dict[str, Json]:
        return {
            "key": self.key,
            "event_type": self.event_type,
            "text": self.text,
            "blocks": [dict(block) for block in self.blocks],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Message":
        """Raises KeyError, TypeError or ValueError when it is none of ours."""
        blocks = json.loads(json.dumps(stored["blocks"]))
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise TypeError("blocks must be a list of objects")
        return cls(key=str(stored["key"]), event_type=str(stored["event_type"]), text=str(stored["text"]), blocks=tuple(blocks))


def alert(
    *,
    key: str,
    event_type: str,
    title: str,
    sentence: str,
    items: Sequence[str] = (),
    command: str = "",
    links: Sequence[tuple[str, str]] = (),
) -> Message:
    """`title`, `sentence` and `items` may hold names from outside. `command` is one of ours; `links` are (words, address), both ours.

    Items that do not fit are counted in a last line. Raises ValueError for a key, event type, command or address that is not ours.
    """
    if not 0 < len(key) <= KEY_LIMIT or not key.isprintable() or not _EVENT_TYPE.fullmatch(event_type):
        raise ValueError("an alert needs a printable key of 1 to 200 characters and an event type of a-z, 0-9 and _")
    blocks: list[Mapping[str, Json]] = [
        {"type": "header", "text": _plain(_bounded(title, HEADER_LIMIT))},
        {"type": "section", "text": _plain(_bounded(sentence, SECTION_LIMIT))},
    ]
    if items:
        blocks.append({"type": "section", "text": _plain(_list(items))})
    if action := _action(command, links):
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": action, "verbatim": True}})
    spoken = [_bounded(title, HEADER_LIMIT), _bounded(sentence, 1000), *([slack_text(command)] if command else [])]
    return Message(key=key, event_type=event_type, text="\n".join(spoken), blocks=tuple(blocks))


def _plain(text: str) -> dict[str, Json]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _bounded(text: str, limit: int) -> str:
    """Escaped, at most `limit` characters after escaping, never cut inside an escape."""
    room = limit
    while len(shown := slack_text(text, limit=room)) > limit:
        room = min(room - 1, room * limit // len(shown))  # an escape is four or five characters: at least a fifth stays
    return shown


def _list(items: Sequence[str]) -> str:
    for kept in range(min(len(items), MOST_ITEMS), 0, -1):
        lines = [f"\N{BULLET} {_bounded(item, 400)}" for item in items[:kept]]
        lines += [f"and {len(items) - kept:,} more"] if kept < len(items) else []
        if len(text := "\n".join(lines)) <= SECTION_LIMIT:
            return text
    return f"{len(items):,} entries"


def _action(command: str, links: Sequence[tuple[str, str]]) -> str:
    """Our own mrkdwn: the command as code, links in a row. A link that does not fit is left out, the first ones stay."""
    if command and not _COMMAND.fullmatch(command):
        raise ValueError("the command of an alert begins with `opsguard` and holds no markup")
    lines = [f"`{slack_text(command)}`"] if command else []
    for words, address in links:
        if not re.fullmatch(r"https?://[!-~]+", address) or any(character in address for character in '<>|"`'):
            raise ValueError("a link of an alert is http:// or https://, encoded")
        line = f"<{address.replace('&', '&amp;')}|{slack_text(words)}>"
        if len("\n".join([*lines, line])) <= SECTION_LIMIT:
            lines.append(line)
    return "\n".join(lines)

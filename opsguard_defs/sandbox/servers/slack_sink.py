"""The sandbox's Slack: takes messages as Slack's Web API and incoming webhooks do, shows them, and misbehaves when asked to.

    python -m opsguard_defs.sandbox.servers.slack_sink --root DIR --port 0 --ready FILE [--log FILE]

On 127.0.0.1 only; ends with the process that started it. `http://127.0.0.1:PORT/` shows the messages to a person, `GET /messages` to
a program. Clients use `http://127.0.0.1:PORT/api/` as Slack's base URL (any token), or `/services/ANY/THING/ELSE` as a webhook.

`POST /_next` (JSON) says how the coming posts are answered, one object per post: `{"status": 429, "headers": {"Retry-After": "1"},
"body": "..."}` refuses; `{"drop": "after"}` takes the message and loses the answer; `{"drop": "before"}` loses the request;
`{"hang": true}` takes the message and never answers.

Each line of the log, and of `messages.jsonl` in the root (read again at the next start), is one message: {"at", "ts", "call",
"channel", "authorised", "body"}. Tokens and webhook paths are not kept.
"""

import html
import json
import ssl
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from opsguard_defs.sandbox.servers.serving import serve_until_signal, server_parser
from opsguard_defs.sandbox.servers.slack_door import Door, channel_id

MOST_SHOWN: Final = 200
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="10"><title>Slack (sandbox)</title>
<style>body{{font:15px sans-serif;max-width:50rem;margin:2rem auto}}article{{border-left:4px solid #777;padding:.2rem 1rem;margin:1rem 0}}
p{{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0}}small{{color:#666}}</style>
<h1>Slack (sandbox)</h1><p>What OpsGuard would have posted, newest first. Nothing here left this machine.</p>{articles}</html>"""


class SlackSink:
    """The server and what it took. Importable: tests run it in their own process."""

    def __init__(self, *, port: int = 0, kept_in: Path | None = None, log: Path | None = None) -> None:
        self._kept_in, self._log = kept_in, log
        self._lock = threading.Lock()
        self.messages: list[dict[str, Any]] = self._kept()
        self.next: deque[Mapping[str, Any]] = deque()
        self.refused_methods: dict[str, str] = {}
        """Web API method to the error it answers: what this token may not do."""
        self.page_size = 200
        self.closing = threading.Event()
        self._server = Door(self, port)
        self.port: int = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def wrap(self, context: ssl.SSLContext) -> None:
        """Speak TLS; before `start`."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def start(self) -> "SlackSink":
        """In a thread of its own; `close` ends it."""
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def serve_forever(self) -> None:
        self._server.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, call: str, body: Mapping[str, Any], *, authorised: bool) -> dict[str, Any]:
        """Records one message and gives it the next timestamp, which is also its identity, as in Slack."""
        with self._lock:
            now = datetime.now(UTC)
            latest = float(self.messages[-1]["ts"]) if self.messages else 0.0
            ts = f"{max(now.timestamp(), latest + 0.000001):.6f}"
            channel = str(body.get("channel") or "webhook")
            message = {
                "at": now.isoformat(),
                "ts": ts,
                "call": call,
                "channel": channel,
                "authorised": authorised,
                "body": dict(body),
            }
            for path in filter(None, (self._log, self._kept_in)):
                with path.open("a", encoding="ascii") as lines:
                    lines.write(json.dumps(message) + "\n")
            self.messages.append(message)
            return message

    def history(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """`conversations.history`, newest first, in pages; metadata only when asked for."""
        oldest, latest = float(query.get("oldest") or 0), float(query.get("latest") or "inf")
        with_metadata = query.get("include_all_metadata") == "1"
        start = int(query.get("cursor") or 0)
        found = [
            {
                "type": "message",
                "ts": m["ts"],
                "text": m["body"].get("text", ""),
                "metadata": (m["body"].get("metadata") or {}) if with_metadata else {},
            }
            for m in reversed(self.messages)
            if channel_id(m["channel"]) == query.get("channel") and oldest <= float(m["ts"]) <= latest
        ]
        end = start + self.page_size
        more = end < len(found)
        following = {"response_metadata": {"next_cursor": str(end)}} if more else {}
        return {"ok": True, "messages": found[start:end], "has_more": more, **following}

    def channels(self) -> dict[str, Any]:
        """`conversations.list`: those that were posted to."""
        names = sorted({str(message["channel"]) for message in self.messages})
        return {"ok": True, "channels": [{"id": channel_id(name), "name": name.lstrip("#")} for name in names]}

    def page(self) -> str:
        return _PAGE.format(articles="".join(map(_article, reversed(self.messages[-MOST_SHOWN:]))))

    def _kept(self) -> list[dict[str, Any]]:
        if self._kept_in is None or not self._kept_in.exists():
            return []
        return [json.loads(line) for line in self._kept_in.read_text("ascii").splitlines()]


def _article(message: Mapping[str, Any]) -> str:
    """Everything in it was written by somebody else: escaped, no link is followed by itself."""
    body = message["body"]
    texts = [text for block in body.get("blocks") or [] for text in _texts(block)] or [str(body.get("text", ""))]
    shown = "".join(f"<p>{html.escape(text)}</p>" for text in texts)
    return f"<article><small>{html.escape(str(message['at']))} {html.escape(str(message['channel']))}</small>{shown}</article>"


def _texts(block: object) -> list[str]:
    """Texts and button addresses of a block, in order, however deep."""
    if isinstance(block, list):
        return [text for item in block for text in _texts(item)]
    if not isinstance(block, dict):
        return []
    own = [value for key in ("text", "url") if isinstance(value := block.get(key), str)]
    return own + [text for value in block.values() for text in _texts(value)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = server_parser("Slack", root="directory that keeps messages.jsonl", log="JSON lines of the messages taken")
    given = parser.parse_args(arguments)
    serve_until_signal(given, lambda: SlackSink(port=given.port, kept_in=given.root / "messages.jsonl", log=given.log).start())


if __name__ == "__main__":
    main()

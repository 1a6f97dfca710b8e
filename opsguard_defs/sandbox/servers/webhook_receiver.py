"""The sandbox's receiver of webhooks: takes messages, keeps them, and answers as its path says.

    python -m opsguard_defs.sandbox.servers.webhook_receiver --root DIR --port 0 --ready FILE [--log FILE]

On 127.0.0.1 only; ends with the process that started it. What a POST does depends on its path, any token is good:

    /accept            takes it, answers 201
    /reject            takes nothing, answers 422
    /die               takes it, durably, and cuts the connection: its answer is lost
    /slow?seconds=30   takes it, and answers after so long (3600 at most)

`GET /accept/<key>` (or `/die/<key>`, `/slow/<key>`) is the look-up: 200 with key and body_sha256, or 404. `GET /` shows the messages to
a person, `GET /messages` to a program.

Each line of the log, and of `messages.jsonl` in the root (read again at the next start), is one acceptance: {"at", "path", "key",
"authorised", "body"}. The same key twice is two lines: nothing is hidden here. Tokens are not kept.
"""

import hashlib
import html
import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from opsguard_defs.sandbox.servers.local_http import MOST_BYTES, LocalHandler, LocalServer
from opsguard_defs.sandbox.servers.serving import serve_until_signal, server_parser

MOST_SHOWN: Final = 200
SLOW_SECONDS: Final = 30
"""Longer than a webhook is waited for by default."""
_TAKING: Final = frozenset({"/accept", "/die", "/slow"})
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="10"><title>Webhooks (sandbox)</title>
<style>body{{font:15px sans-serif;max-width:50rem;margin:2rem auto}}article{{border-left:4px solid #777;padding:.2rem 1rem;margin:1rem 0}}
p{{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0}}small{{color:#666}}</style>
<h1>Webhooks (sandbox)</h1><p>What was accepted here, newest first. Nothing left this machine.</p>{articles}</html>"""


class WebhookReceiver:
    """The server and what it took. Importable: tests run it in their own process."""

    def __init__(self, *, port: int = 0, kept_in: Path | None = None, log: Path | None = None) -> None:
        self._files = [path for path in (log, kept_in) if path is not None]
        self._lock = threading.Lock()
        self.messages: list[dict[str, Any]] = _kept(kept_in)
        self.closing = threading.Event()
        self._server = Door(self, port)
        self.port: int = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> "WebhookReceiver":
        """In a thread of its own; `close` ends it."""
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, path: str, key: str, body: object, *, authorised: bool) -> None:
        """On disk before it returns."""
        message = {"at": datetime.now(UTC).isoformat(), "path": path, "key": key, "authorised": authorised, "body": body}
        with self._lock:
            for file in self._files:
                with file.open("a", encoding="ascii") as lines:
                    lines.write(json.dumps(message) + "\n")
                    lines.flush()
                    os.fsync(lines.fileno())
            self.messages.append(message)

    def held(self, key: str) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["key"] == key), None)

    def page(self) -> str:
        return _PAGE.format(articles="".join(map(_article, reversed(self.messages[-MOST_SHOWN:]))))


def _kept(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def _article(message: Mapping[str, Any]) -> str:
    """Everything in it was written by somebody else: escaped, no link is followed by itself."""
    body = message["body"]
    words = str(body.get("body", "")) if isinstance(body, dict) else json.dumps(body)
    said = " ".join(str(message[name]) for name in ("at", "path", "key"))
    return f"<article><small>{html.escape(said)}</small><p>{html.escape(words)}</p></article>"


class Handler(LocalHandler):
    server: "Door"

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        receiver, address = self.server.receiver, urlsplit(self.path)
        path, _, key = address.path.rpartition("/")
        if not self.is_local():
            self.answer(403, "only by 127.0.0.1 or localhost", "text/plain")
        elif address.path == "/":
            self.answer(200, receiver.page(), "text/html")
        elif address.path == "/messages":
            self._json(200, receiver.messages)
        elif path in _TAKING and (held := receiver.held(key)):
            self._json(200, {"key": key, "at": held["at"], "body_sha256": _body_digest(held["body"])})
        else:
            self._json(404, {"error": "nothing here"})

    def do_POST(self) -> None:  # noqa: N802 - the library's name
        address = urlsplit(self.path)
        length, key = self.headers.get("Content-Length", ""), self.headers.get("Idempotency-Key", "")
        if not self.is_local() or not re.fullmatch(r"[0-9]{1,7}", length) or int(length) > MOST_BYTES:
            self.close_connection = True
            self._json(403, {"error": "only by 127.0.0.1 or localhost, with a length of 1 MB at most"})
            return
        raw = self.rfile.read(int(length))
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if address.path == "/reject":
            self._json(422, {"key": key, "error": "this path takes nothing"})
        elif address.path not in _TAKING:
            self._json(404, {"error": "paths are /accept, /reject, /die and /slow"})
        elif len(raw) < int(length) or body is None or not _KEY.fullmatch(key):
            self._json(400, {"error": "a JSON body and an Idempotency-Key are needed"})
        else:
            self._take(address.path, address.query, key, body)

    def _take(self, path: str, query: str, key: str, body: object) -> None:
        self.server.receiver.take(path, key, body, authorised="Authorization" in self.headers)
        if path == "/die":
            self.close_connection = True
            self.connection.close()
            return
        if path == "/slow":
            asked = parse_qs(query).get("seconds", [""])[0]
            self.server.receiver.closing.wait(min(int(asked), 3600) if re.fullmatch(r"[0-9]{1,6}", asked) else SLOW_SECONDS)
        self._json(201, {"key": key, "accepted": True})

    def _json(self, status: int, answer: object) -> None:
        self.answer(status, json.dumps(answer), "application/json")


def _body_digest(body: object) -> str:
    text = str(body.get("body", "")) if isinstance(body, dict) else ""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Door(LocalServer):
    def __init__(self, receiver: WebhookReceiver, port: int) -> None:
        super().__init__(port, Handler)
        self.receiver = receiver


def main(arguments: Sequence[str] | None = None) -> None:
    parser = server_parser(
        "receiver of webhooks", root="directory that keeps messages.jsonl", log="JSON lines of the messages accepted"
    )
    given = parser.parse_args(arguments)
    serve_until_signal(
        given, lambda: WebhookReceiver(port=given.port, kept_in=given.root / "messages.jsonl", log=given.log).start()
    )


if __name__ == "__main__":
    main()

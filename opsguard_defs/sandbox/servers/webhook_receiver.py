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

import argparse
import ctypes
import hashlib
import html
import json
import os
import re
import signal
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

PR_SET_PDEATHSIG: Final = 1
MOST_BYTES: Final = 1_000_000
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


class Handler(BaseHTTPRequestHandler):
    server: "Door"
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_: object) -> None:
        """Silent: the log holds messages, not requests."""

    def do_GET(self) -> None:
        receiver, address = self.server.receiver, urlsplit(self.path)
        path, _, key = address.path.rpartition("/")
        if not self._is_local():
            self._answer(403, "only by 127.0.0.1 or localhost", "text/plain")
        elif address.path == "/":
            self._answer(200, receiver.page(), "text/html")
        elif address.path == "/messages":
            self._json(200, receiver.messages)
        elif path in _TAKING and (held := receiver.held(key)):
            self._json(200, {"key": key, "at": held["at"], "body_sha256": _body_digest(held["body"])})
        else:
            self._json(404, {"error": "nothing here"})

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        length, key = self.headers.get("Content-Length", ""), self.headers.get("Idempotency-Key", "")
        if not self._is_local() or not re.fullmatch(r"[0-9]{1,7}", length) or int(length) > MOST_BYTES:
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

    def _is_local(self) -> bool:
        """A name that somebody pointed at us does not count: pages elsewhere must not read messages."""
        port = self.server.receiver.port
        return self.headers.get("Host", "") in {f"127.0.0.1:{port}", f"localhost:{port}"}

    def _json(self, status: int, answer: object) -> None:
        self._answer(status, json.dumps(answer), "application/json")

    def _answer(self, status: int, text: str, kind: str) -> None:
        raw = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(raw)),
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


def _body_digest(body: object) -> str:
    text = str(body.get("body", "")) if isinstance(body, dict) else ""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Door(ThreadingHTTPServer):
    """Listens on loopback; who hangs up early is no error worth a traceback."""

    def __init__(self, receiver: WebhookReceiver, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.receiver = receiver

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The sandbox's receiver of webhooks on 127.0.0.1")
    parser.add_argument("--root", type=Path, required=True, help="directory that keeps messages.jsonl")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ready", type=Path, required=True, help="file that gets the bound port")
    parser.add_argument("--log", type=Path, help="JSON lines of the messages accepted")
    given = parser.parse_args(arguments)

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    given.root.mkdir(parents=True, exist_ok=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # in all threads: `sigwait` gets them
    receiver = WebhookReceiver(port=given.port, kept_in=given.root / "messages.jsonl", log=given.log).start()
    arriving = given.ready.with_name(given.ready.name + ".new")
    arriving.write_text(str(receiver.port))
    arriving.replace(given.ready)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    receiver.close()


if __name__ == "__main__":
    main()

"""The HTTP side of the sandbox's Slack: who may ask, what is answered, and how it misbehaves."""

import json
import threading
import urllib.parse
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from opsguard_defs.sandbox.servers.local_http import MOST_BYTES, LocalHandler, LocalServer


class Sink(Protocol):
    """`opsguard_defs.sandbox.servers.slack_sink.SlackSink`."""

    port: int
    messages: list[dict[str, Any]]
    next: deque[Mapping[str, Any]]
    refused_methods: dict[str, str]
    closing: threading.Event
    url: str

    def take(self, call: str, body: Mapping[str, Any], *, authorised: bool) -> dict[str, Any]: ...
    def history(self, query: Mapping[str, Any]) -> dict[str, Any]: ...
    def channels(self) -> dict[str, Any]: ...
    def page(self) -> str: ...


def channel_id(name: str) -> str:
    """Slack answers with an id whatever the channel was called by; an id stays itself."""
    return (
        name
        if name.startswith(("C", "G", "D")) and name.isupper()
        else f"C{name.lstrip('#').upper().replace('-', '').replace('_', '')}"
    )


class Handler(LocalHandler):
    server: "Door"

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        match self.path:
            case _ if not self.is_local():
                self.answer(403, "only by 127.0.0.1 or localhost", "text/plain")
            case "/":
                self.answer(200, self.server.sink.page(), "text/html")
            case "/messages":
                self.answer(200, json.dumps(self.server.sink.messages), "application/json")
            case _:
                self.answer(404, "nothing here", "text/plain")

    def do_POST(self) -> None:  # noqa: N802 - the library's name
        length = int(self.headers.get("Content-Length") or 0)
        if not self.is_local() or not 0 <= length <= MOST_BYTES:
            self.close_connection = True
            self.answer(403, "refused", "text/plain")
            return
        raw = self.rfile.read(length)
        is_json = self.headers.get_content_type() == "application/json"
        try:
            body = json.loads(raw) if is_json else dict(urllib.parse.parse_qsl(raw.decode()))
        except ValueError:
            self.answer(400, "invalid_payload", "text/plain")
            return
        if self.path == "/_next":
            self._prepare(body if is_json else None)
        elif self.path.startswith("/services/"):
            self._post("webhook", body)
        else:
            address = urllib.parse.urlsplit(self.path)
            self._call(address.path.removeprefix("/api/"), {**dict(urllib.parse.parse_qsl(address.query)), **body})

    def _prepare(self, body: object) -> None:
        answers = body if isinstance(body, list) else [body]
        if not all(isinstance(answer, dict) for answer in answers):
            self.answer(400, "one JSON object or a list of them", "text/plain")
            return
        self.server.sink.next.extend(answers)
        self.answer(200, "ok", "text/plain")

    def _call(self, method: str, body: Mapping[str, Any]) -> None:
        if not self.headers.get("Authorization", "").startswith("Bearer "):
            self._json({"ok": False, "error": "not_authed"})
            return
        if method in self.server.sink.refused_methods:
            self._json({"ok": False, "error": self.server.sink.refused_methods[method]})
            return
        match method:
            case "chat.postMessage":
                self._post(method, body)
            case "conversations.history":
                self._json(self.server.sink.history(body))
            case "conversations.list":
                self._json(self.server.sink.channels())
            case "auth.test":
                self._json({"ok": True, "url": self.server.sink.url, "team": "sandbox", "user": "opsguard"})
            case _:
                self._json({"ok": False, "error": "unknown_method"})

    def _post(self, call: str, body: Mapping[str, Any]) -> None:
        prepared = self.server.sink.next.popleft() if self.server.sink.next else {}
        if "drop" in prepared or "hang" in prepared:
            if prepared.get("drop") != "before":
                self.server.sink.take(call, body, authorised="Authorization" in self.headers)
            if "hang" in prepared:
                self.server.sink.closing.wait()
            self.close_connection = True
            self.connection.close()
            return
        if "status" in prepared:
            headers = {str(name): str(value) for name, value in dict(prepared.get("headers") or {}).items()}
            text = str(prepared.get("body", '{"ok": false, "error": "prepared"}'))
            self.answer(int(prepared["status"]), text, "application/json", headers)
            return
        message = self.server.sink.take(call, body, authorised="Authorization" in self.headers)
        if call == "webhook":
            self.answer(200, "ok", "text/html")
        else:
            self._json({"ok": True, "channel": channel_id(message["channel"]), "ts": message["ts"], "message": {}})

    def _json(self, answer: Mapping[str, Any]) -> None:
        self.answer(200, json.dumps(answer), "application/json")


class Door(LocalServer):
    """Hands every request to one sink."""

    def __init__(self, sink: "Sink", port: int) -> None:
        super().__init__(port, Handler)
        self.sink = sink

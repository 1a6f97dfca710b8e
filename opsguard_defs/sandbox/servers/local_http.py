"""HTTP for this machine alone: what the sandbox's servers that show messages to a browser share."""

from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

MOST_BYTES: Final = 1_000_000


class LocalHandler(BaseHTTPRequestHandler):
    server: "LocalServer"
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_: object) -> None:
        """Silent: the log holds messages, not requests."""

    def is_local(self) -> bool:
        """A name that somebody pointed at us does not count: pages elsewhere must not read messages."""
        port = self.server.server_port
        return self.headers.get("Host", "") in {f"127.0.0.1:{port}", f"localhost:{port}"}

    def answer(self, status: int, text: str, kind: str, headers: Mapping[str, str] | None = None) -> None:
        raw = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        for name, value in {
            **(headers or {}),
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(raw)),
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


class LocalServer(ThreadingHTTPServer):
    """Listens on loopback; who hangs up early is no error worth a traceback."""

    def __init__(self, port: int, handler: type[LocalHandler]) -> None:
        super().__init__(("127.0.0.1", port), handler)

    def handle_error(self, request: object, client_address: object) -> None:
        pass

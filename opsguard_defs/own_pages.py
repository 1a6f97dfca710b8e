"""The guard in front of Dagster's webserver: only its own pages may ask.

That webserver has no authentication, answers mutations sent by GET, and any Host or Origin. So a page from anywhere, open in the operator's
browser, could launch a run whose parameters it knows, and under a rebound name read plans. What a browser says about every request and
no page can forge (Host, Origin, Sec-Fetch-*) is enough to tell such a page from the webserver's own. Programs that are not browsers send
none of it and are let through: they are on this machine already.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

RESPONSE_HEADERS: Final = {
    # Dagster sends no frame-ancestors: a framed Launchpad, filled in by its link, could be clicked for its reader.
    "x-frame-options": "DENY",
    # Beside Dagster's own policy, not instead of it: both hold. Markdown in metadata may name images anywhere; they are not fetched.
    "content-security-policy": (
        "frame-ancestors 'none'; form-action 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-src 'self'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}

_DATA_PATHS: Final = re.compile(r"/(graphql|logs|notebook|dagit|download_debug|report_asset_\w+|server_info|dagit_info)(/|$)")
"""Everything that is not a page or its static files. A link from Slack leads to a page."""


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    reason: str


def guarded(app: ASGIApp, *, origins: Iterable[str]) -> ASGIApp:
    """`app` for the pages of `origins` (`http://127.0.0.1:3000`) alone. Their host names are trusted under any port: a forwarded one differs."""
    known = frozenset(origins)
    hosts = sorted({host for origin in known if (host := urlsplit(origin).hostname)})
    return TrustedHostMiddleware(OwnPages(app, origins=known), allowed_hosts=hosts, www_redirect=False)


class OwnPages:
    """ASGI middleware. Behind `TrustedHostMiddleware`, which refuses every other Host first."""

    def __init__(self, app: ASGIApp, *, origins: frozenset[str]) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        refusal = refuse(scope, origins=self._origins)
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.reason})
        else:
            await PlainTextResponse(f"Refused: {refusal.reason}\n", refusal.status)(scope, receive, _with_headers(send))


def refuse(scope: Scope, *, origins: frozenset[str]) -> Refusal | None:
    """Why this request may not pass, or None.

    1. One Host. 2. Origin, if any, is this server. 3. What another site's page caused may only be a person following a link to a page.
    4. GraphQL by POST of JSON alone, so that a query can neither hide in a link nor in a form. 5. No other methods.
    """
    headers = Headers(scope=scope)
    host = headers.getlist("host")
    if len(host) != 1:
        return Refusal(400, "there must be one Host.")
    own = origins | {f"http://{host[0].lower()}"}
    if any(origin.lower() not in own for origin in headers.getlist("origin")):
        return Refusal(403, "only this server's own pages may ask.")
    if _is_foreign(headers) and not _is_link_to_a_page(scope, headers):
        return Refusal(403, "another site's page caused this request.")
    if scope["type"] == "websocket":
        return None
    method = scope["method"]
    if method not in {"GET", "HEAD", "POST"}:
        return Refusal(405, f"{method!a} has no use here.")
    if _plain(scope["path"]) == "/graphql" and (method != "POST" or not _is_json(headers)):
        return Refusal(403, "GraphQL is asked by POST, with a body of type application/json.")
    return None


def _is_foreign(headers: Headers) -> bool:
    """ "same-site" is foreign too: a page on another port of this machine is of the same site."""
    return any(site not in {"same-origin", "none"} for site in headers.getlist("sec-fetch-site"))


def _is_link_to_a_page(scope: Scope, headers: Headers) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] in {"GET", "HEAD"}
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and not _DATA_PATHS.match(_plain(scope["path"]))
    )


def _is_json(headers: Headers) -> bool:
    """Exactly: Dagster looks for the words anywhere, and `text/plain; application/json` needs no leave from the browser."""
    types = headers.getlist("content-type")
    return len(types) == 1 and types[0].partition(";")[0].strip().lower() == "application/json"


def _plain(path: str) -> str:
    """One spelling of a path: no doubled or closing slashes, lower case. Percent-encoding was undone by the server."""
    return "/" + "/".join(part for part in path.lower().split("/") if part)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in RESPONSE_HEADERS.items():
                if name == "content-security-policy":
                    headers.append(name, value)
                else:
                    headers[name] = value
        await send(message)

    return sending

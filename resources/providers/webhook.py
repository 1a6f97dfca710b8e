"""The webhook provider: one POST per message, with the reservation's key as `Idempotency-Key`.

    POST url     {"version": 1, "key", "destination", "display", "subject", "body", "body_sha256"}
    GET  lookup  -> 200 {"key": ..., "body_sha256": ...} or 404

200, 201, 202 and 204 are acceptance. A status of `rejecting_statuses` is refusal, unless the look-up then finds the message after all.
Everything else - other statuses, redirects, an answer that was cut, that took too long or that names another key - is doubt.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from guards.canonical import Json, canonical_json
from guards.gate import Authorization
from guards.text import one_line
from resources.providers.http_call import HttpAnswer, NoAnswer, NotSent, Request, exchange
from resources.providers.interface import (
    Accepted,
    Ambiguous,
    Answer,
    CannotTell,
    Capabilities,
    Found,
    Message,
    NotFound,
    Rejected,
    Sender,
    Sighting,
    unfit,
)
from resources.providers.patience import LOOKUP_SECONDS
from resources.providers.settings import WebhookEndpoint

ACCEPTING_STATUSES: Final = frozenset({200, 201, 202, 204})
"""The other 2xx say something else than "taken": by a proxy (203), in part (206, 207), of something older (208)."""
KEY_HEADER: Final = "Idempotency-Key"
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-correlation-id")
"""Where an endpoint names its own record of the call; the first that is there goes into the receipt."""


@dataclass(frozen=True, slots=True)
class WebhookProvider:
    """`endpoints` by the name that a message's destination gives."""

    endpoints: Mapping[str, WebhookEndpoint]
    name: str = "webhook"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            refuses_duplicates=False,
            says="a webhook finds a message only where lookup_url is set; else look in the receiving system for the idempotency key",
        )

    def writer(self, authorization: Authorization, *, scope: str) -> Sender:
        return Sender(self._send, authorization, scope=scope)

    def _send(self, message: Message, key: str) -> Answer:
        if refused := unfit(message, key):
            return refused
        endpoint = self.endpoints.get(message.destination)
        if endpoint is None:
            return Rejected("unknown_webhook", "the settings have no webhook of this name: nothing was contacted")
        request = Request("POST", endpoint.url, _headers(endpoint, key, "application/json"), _payload(message, key))
        exchanged = exchange(request, seconds=endpoint.timeout_seconds, ca_file=endpoint.ca_file)
        answer = judged(exchanged, endpoint, message, key)
        return _unless_found(answer, endpoint, message, key) if isinstance(exchanged, HttpAnswer) else answer

    def asks(self, message: Message) -> str:
        endpoint = self.endpoints.get(message.destination)
        return message.destination if endpoint is not None and endpoint.lookup_url else ""

    def lookup(self, key: str, *, message: Message, since: datetime, until: datetime) -> Sighting:
        """The times are not needed: endpoints are asked by key."""
        if refused := unfit(message, key):
            return CannotTell(refused.why)
        endpoint = self.endpoints.get(message.destination)
        if endpoint is None:
            return CannotTell("the settings no longer have a webhook of this name")
        return _looked_up(endpoint, message, key)


def _looked_up(endpoint: WebhookEndpoint, message: Message, key: str) -> Sighting:
    if not endpoint.lookup_url:
        return CannotTell(f"this webhook has no lookup_url: search the receiving system for the key {key}")
    request = Request("GET", _lookup_url(endpoint, key), _headers(endpoint, key))
    return seen(exchange(request, seconds=LOOKUP_SECONDS, ca_file=endpoint.ca_file), endpoint, message, key)


def _unless_found(answer: Answer, endpoint: WebhookEndpoint, message: Message, key: str) -> Answer:
    """A refusal by the other side's word is only believed when its own records do not contradict it."""
    if isinstance(answer, Rejected) and endpoint.lookup_url and isinstance(_looked_up(endpoint, message, key), Found):
        return Ambiguous(f"the webhook refused ({answer.code}), and its look-up says that it has the message")
    return answer


def judged(exchanged: HttpAnswer | NotSent | NoAnswer, endpoint: WebhookEndpoint, message: Message, key: str) -> Answer:
    """What one exchange proves about the message."""
    match exchanged:
        case NotSent(code, why):
            return Rejected(code, why)
        case NoAnswer(why):
            return Ambiguous(why)
        case HttpAnswer(status=status) if status in endpoint.rejecting_statuses:
            return Rejected(f"http_{status}", f"the webhook answered {status}, which its settings count as refusal")
        case HttpAnswer(status=status) if 300 <= status < 400:
            return Ambiguous(
                f"the webhook answered {status}: redirects are not followed, put the final address into the settings"
            )
        case HttpAnswer(status=status) if status not in ACCEPTING_STATUSES:
            return Ambiguous(f"the webhook answered {status}, which proves neither acceptance nor refusal")
    named = _named_keys(exchanged)
    if named - {key}:
        return Ambiguous(f"the webhook answered {exchanged.status} for another key")
    if endpoint.must_echo_key and not named:
        return Ambiguous(f"the webhook answered {exchanged.status} without naming the key, and must_echo_key is set")
    return Accepted(_receipt(exchanged, message, key))


def seen(exchanged: HttpAnswer | NotSent | NoAnswer, endpoint: WebhookEndpoint, message: Message, key: str) -> Sighting:
    """What a look-up proves."""
    match exchanged:
        case NotSent(_, why) | NoAnswer(why):
            return CannotTell(f"the look-up failed: {why}")
        case HttpAnswer(status=404) if endpoint.lookup_is_authoritative:
            return NotFound("the webhook's look-up by key, which its settings call authoritative")
        case HttpAnswer(status=404):
            return CannotTell("the look-up does not know the key, and the settings do not call it authoritative")
        case HttpAnswer(status=status) if status != 200:
            return CannotTell(f"the look-up answered {status}")
    named = _named_keys(exchanged)
    if named != {key}:
        return CannotTell(f"the look-up answered {'for another key' if named else 'without naming the key'}")
    held = _object(exchanged.body).get("body_sha256")
    if held is not None and held != message.body_sha256:
        return CannotTell("the look-up has this key with another body: compare them by hand")
    return Found(_receipt(exchanged, message, key))


def _headers(endpoint: WebhookEndpoint, key: str, content_type: str = "") -> dict[str, str]:
    token = endpoint.token.get_secret_value()
    return {
        KEY_HEADER: key,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "User-Agent": "opsguard",
        **({"Content-Type": content_type} if content_type else {}),
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }


def _payload(message: Message, key: str) -> bytes:
    fields: Mapping[str, Json] = {
        "version": 1,
        "key": key,
        "destination": message.destination,
        "display": message.display,
        "subject": message.subject,
        "body": message.body,
        "body_sha256": message.body_sha256,
    }
    return canonical_json(fields)


def _lookup_url(endpoint: WebhookEndpoint, key: str) -> str:
    """Keys are hex digits: nothing in them acts in an address."""
    if "{key}" in endpoint.lookup_url:
        return endpoint.lookup_url.replace("{key}", key)
    path, mark, query = endpoint.lookup_url.partition("?")
    return f"{path.rstrip('/')}/{key}{mark}{query}"


def _named_keys(answer: HttpAnswer) -> set[str]:
    """Every key that the answer says it is about, in its header or its JSON object."""
    held = _object(answer.body)
    named = [held[name] for name in ("key", "idempotency_key") if name in held]
    header = answer.headers.get(KEY_HEADER.lower(), "").strip().strip('"')
    return {str(name) for name in named} | ({header} if header else set())


def _object(body: bytes) -> Mapping[str, object]:
    """Empty for anything that is not a JSON object."""
    try:
        held = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def _receipt(answer: HttpAnswer, message: Message, key: str) -> dict[str, Json]:
    """Never the answer itself: it may hold anything, in any size."""
    said = next((answer.headers[name] for name in _REQUEST_IDS if name in answer.headers), "")
    return {
        "provider": "webhook",
        "endpoint": message.destination,
        "key": key,
        "status": answer.status,
        "request_id": one_line(said),
        "answer_sha256": hashlib.sha256(answer.body).hexdigest(),
        "body_sha256": message.body_sha256,
    }

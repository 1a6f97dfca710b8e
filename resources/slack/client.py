"""Posting to Slack so that the caller knows whether it happened: posted, provably not, or nobody can tell.

dagster-slack's own client posts a message twice when the first answer is lost: slack_sdk's default retry handler sends it again
(seen: two posts for one dropped answer). This one has no retry handlers; the outbox decides what is tried again and when.
"""

import http.client
import logging
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

import dagster_slack
from pydantic import ConfigDict, Field
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.client import WebClient
from slack_sdk.webhook.client import WebhookClient

from resources.slack.answer import CODE, Absent, Ambiguous, Answer, Posted, Rejected, not_sent, refusal
from resources.slack.message import Message

MOST_PAGES: Final = 10
MOST_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""A page of 200 messages of 40,000 characters each, in UTF-8."""
_CONNECT_SECONDS: Final = 5.0
_CHANNEL_ID: Final = re.compile(r"[CGD][A-Z0-9]+")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_BROKEN: Final = (OSError, http.client.HTTPException, SlackClientError, ValueError, AttributeError, TypeError)
"""All that a call can raise: connection, HTTP grammar, Slack's own, an answer that is not what it says it is."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """None: the redirect itself is the answer."""


class _OneRequest(WebClient):
    """slack_sdk's own follows redirects, token and all, and an error of the second address then looks like one before the first byte."""

    def _perform_urllib_http_request_internal(self, url: str, req: urllib.request.Request) -> dict[str, Any]:
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"http": self.proxy, "https": self.proxy} if self.proxy else {}),
            urllib.request.HTTPSHandler(context=self.ssl),
            _NoRedirect(),
        )
        with opener.open(req, timeout=self.timeout) as answer:
            body = answer.read(MOST_ANSWER_BYTES + 1)
            if len(body) > MOST_ANSWER_BYTES:
                raise http.client.HTTPException("the answer is longer than any of Slack's")
            return {"status": answer.status, "headers": answer.headers, "body": body.decode("utf-8")}


class SlackResource(dagster_slack.SlackResource):
    """Where alerts go: a bot token and a channel, or an incoming webhook, or (neither given) the log.

    As a Dagster resource give the secrets as `EnvVar`: a literal is shown on the UI's resource page.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    token: str = Field(default="", description="Bot token with chat:write. Empty: the webhook, else the log.")
    webhook: str = Field(default="", description="URL of an incoming webhook; it is a secret. Used when there is no token.")
    channel: str = Field(
        default="",
        description="Channel for alerts, as #name or as its id. With channels:history (and channels:read for a #name) the token "
        "can also look up whether a message whose answer was lost had arrived.",
    )
    base_url: str = Field(default="https://slack.com/api/", description="Slack's API; the sandbox's sink is another.")
    timeout_seconds: int = Field(default=10, description="How long one answer may take.", ge=1, le=120)

    def __repr__(self) -> str:
        return f"SlackResource({self.destination}, channel={self.channel!r}, base_url={self.base_url!r})"

    __str__ = __repr__

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield from (("destination", self.destination), ("channel", self.channel), ("base_url", self.base_url))

    @property
    def destination(self) -> Literal["api", "webhook", "log"]:
        if self.token and self.channel:
            return "api"
        return "webhook" if self.webhook else "log"

    def get_client(self) -> WebClient:
        """One attempt per call, nothing in any log."""
        client = _OneRequest(
            token=self.token,
            base_url=self.base_url,
            timeout=self.timeout_seconds,
            retry_handlers=[],
            logger=_silent(),
        )
        if urlsplit(self.base_url).hostname in _LOOPBACK:
            client.proxy = (
                None  # slack_sdk takes HTTP_PROXY whatever NO_PROXY says: the sandbox's messages would leave the machine
            )
        return client

    def post(self, message: Message) -> Answer:
        """One attempt. Raises nothing that the network or Slack can cause."""
        if self.destination == "log":
            return Rejected("no_destination")
        if why := self._unreachable():
            return Rejected(why)
        try:
            return self._post_by_api(message) if self.destination == "api" else self._post_by_webhook(message)
        except SlackApiError as error:
            answer = error.response
            return refusal(int(answer.status_code), _code(error), cast("Mapping[str, str]", answer.headers))
        except urllib.error.URLError as error:
            return not_sent(error.reason) or Ambiguous(f"the connection broke ({type(error.reason).__name__})")
        except _BROKEN as error:
            return Ambiguous(f"no answer came ({type(error).__name__})")

    def find(
        self,
        *,
        event_type: str,
        key: str,
        oldest: datetime,
        latest: datetime | None = None,
        facts: Mapping[str, str] = MappingProxyType({}),
    ) -> Posted | Absent | Ambiguous:
        """Was a message with this metadata posted since `oldest`, until `latest`? Needs a token that may read the channel."""
        if self.destination != "api":
            return Ambiguous("a webhook cannot look anything up")
        client = self.get_client()
        try:
            channel = self._channel_id(client)
            for message in _pages(client, channel, oldest=oldest, latest=latest):
                metadata = message.get("metadata") or {}
                payload = metadata.get("event_payload") or {}
                if metadata.get("event_type") == event_type and payload.get("key") == key:
                    differing = sorted(name for name, value in facts.items() if payload.get(name) != value)
                    if differing:
                        return Ambiguous(f"the channel has this key with another {', '.join(differing)}: compare them by hand")
                    return Posted(str(message.get("ts", "")))
        except SlackApiError as error:
            code = _code(error)
            return Ambiguous(f"the token may not look it up ({code if CODE.fullmatch(code) else 'refused'})")
        except _BROKEN as error:
            return Ambiguous(f"the look-up failed ({type(error).__name__})")
        except LookupError as error:
            return Ambiguous(str(error.args[0]))
        return Absent()

    def _post_by_api(self, message: Message) -> Answer:
        answer = self.get_client().chat_postMessage(
            channel=self.channel,
            text=message.text,
            blocks=cast("list[dict[str, Any]]", list(message.blocks)) or None,
            metadata=message.metadata(),
            mrkdwn=False,
            parse="none",
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
        )
        if _CHANNEL_ID.fullmatch(self.channel) and answer.get("channel") != self.channel:
            return Ambiguous("Slack answered for another channel")
        return Posted(str(answer.get("ts", "")))

    def _post_by_webhook(self, message: Message) -> Answer:
        client = WebhookClient(self.webhook, timeout=self.timeout_seconds, retry_handlers=[], logger=_silent())
        if urlsplit(self.webhook).hostname in _LOOPBACK:
            client.proxy = None
        answer = client.send_dict({"text": message.text, "blocks": list(message.blocks), "unfurl_links": False})
        if answer.status_code == 200:
            return Posted("") if answer.body.strip() == "ok" else Ambiguous("the webhook answered 200 without ok")
        return refusal(answer.status_code, answer.body.strip(), cast("Mapping[str, str]", answer.headers))

    def _unreachable(self) -> str:
        """ "" or a code. Asked first, so that a network that swallows packets is known not to have taken the message."""
        address = urlsplit(self.base_url if self.destination == "api" else self.webhook)
        proxies = {} if address.hostname in _LOOPBACK else urllib.request.getproxies()
        asked = urlsplit(proxies[address.scheme]) if address.scheme in proxies else address
        port = asked.port or (443 if asked.scheme == "https" else 80)
        try:
            with socket.create_connection((asked.hostname or "", port), timeout=_CONNECT_SECONDS):
                return ""
        except OSError:
            return "unreachable"

    def _channel_id(self, client: WebClient) -> str:
        """Raises LookupError when the channel is not among those the token sees."""
        if _CHANNEL_ID.fullmatch(self.channel):
            return self.channel
        wanted, cursor = self.channel.lstrip("#"), ""
        for _ in range(MOST_PAGES):
            page = client.conversations_list(
                types="public_channel,private_channel", exclude_archived=True, limit=1000, cursor=cursor or None
            )
            for channel in page.get("channels") or []:
                if channel.get("name") == wanted:
                    return str(channel["id"])
            cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
        raise LookupError("the token does not see the channel")


def _pages(client: WebClient, channel: str, *, oldest: datetime, latest: datetime | None) -> Iterator[Mapping[str, Any]]:
    """Messages, newest first. Raises LookupError when there are more than ten pages of 200."""
    cursor = ""
    for _ in range(MOST_PAGES):
        page = client.conversations_history(
            channel=channel,
            oldest=f"{oldest.timestamp():.6f}",
            latest=f"{latest.timestamp():.6f}" if latest else None,
            inclusive=True,
            include_all_metadata=True,
            limit=200,
            cursor=cursor or None,
        )
        yield from page.get("messages") or []
        cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
        if not page.get("has_more"):
            return
    raise LookupError("too many messages since then")


def _code(error: SlackApiError) -> str:
    """ "" when the answer is no JSON object: not written by Slack."""
    data = error.response.data
    return str(data.get("error", "")) if isinstance(data, dict) else ""


def _silent() -> logging.Logger:
    """slack_sdk writes request addresses at DEBUG, and a webhook's address is its secret; we say what matters ourselves."""
    logger = logging.getLogger("opsguard.slack_sdk")
    logger.setLevel(logging.CRITICAL + 1)
    return logger

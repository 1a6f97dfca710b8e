"""The Slack provider: `chat.postMessage` once, with the reservation's key and the body's digest in the message's metadata, and a look-up in the channel.

The client and most of what its answers prove are those of the alerts (`resources.slack`). A customer's message is held to more: where an
alert may come twice, here an answer that a gateway could have given after passing the message on is doubt.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from guards.canonical import Json
from guards.delivery.registry import Provider as Named
from guards.gate import Authorization
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
from resources.providers.patience import CONNECT_SECONDS, SLACK_LOOKUP_SECONDS, within
from resources.providers.settings import REJECTING_STATUSES, SlackEndpoint, is_address
from resources.slack.answer import Absent, Posted
from resources.slack.answer import Ambiguous as Doubted
from resources.slack.answer import Rejected as Refused

if TYPE_CHECKING:
    from resources.slack.client import SlackResource

EVENT_TYPE: Final = "opsguard_delivery"
MOST_CHARACTERS: Final = 40_000
"""Slack cuts longer texts off (chat.postMessage, "text")."""
CLOCKS_APART: Final = timedelta(minutes=10)
"""Slack's clock stamps messages, ours asks: the window of a look-up is this much wider on both sides."""
_BY_STATUS: Final = re.compile(r"http_([0-9]{3})")
_OF_A_GATEWAY: Final = frozenset({"service_unavailable"})
"""An alert is tried again after it; a 503 can also be said when the message was passed on and the answer lost."""
_BY_PROXY: Final = "http_407"
"""A proxy that wants a login has passed nothing on."""


@dataclass(frozen=True, slots=True)
class SlackProvider:
    endpoint: SlackEndpoint
    name: str = "slack"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            refuses_duplicates=False,
            says="Slack finds a message by its metadata as long as it stands in the channel: one that was deleted, or is older than the "
            "workspace keeps, is not found",
        )

    def writer(self, authorization: Authorization, *, scope: str) -> Sender:
        return Sender(self._send, authorization, scope=scope)

    def _send(self, message: Message, key: str) -> Answer:
        from resources.slack.message import Message as Post

        if refused := unfit(message, key) or _bad_channel(message):
            return refused
        text = shown(message.body)
        if len(text) > MOST_CHARACTERS:
            return Rejected("body_too_large", f"Slack takes {MOST_CHARACTERS:,} characters at most, this has {len(text):,}")
        post = Post(key=key, event_type=EVENT_TYPE, text=text, blocks=(), facts={"body_sha256": message.body_sha256})
        client, seconds = self._client(message), self.endpoint.timeout_seconds + CONNECT_SECONDS
        answer = within(seconds, lambda: client.post(post), otherwise=Doubted(f"no whole answer came in {seconds:g} s"))
        return judged(answer, message, key)

    def asks(self, message: Message) -> str:
        return self.name

    def lookup(self, key: str, *, message: Message, since: datetime, until: datetime) -> Sighting:
        if refused := unfit(message, key) or _bad_channel(message):
            return CannotTell(refused.why)
        oldest, latest = since - CLOCKS_APART, until + CLOCKS_APART
        client = self._client(message)
        match within(
            SLACK_LOOKUP_SECONDS,
            lambda: client.find(
                event_type=EVENT_TYPE, key=key, oldest=oldest, latest=latest, facts={"body_sha256": message.body_sha256}
            ),
            otherwise=Doubted(f"the look-up did not end in {SLACK_LOOKUP_SECONDS} s"),
        ):
            case Posted(ts) if is_timestamp(ts):
                return Found(_receipt(message, key, ts))
            case Posted():
                return CannotTell("Slack shows the message without a timestamp")
            case Absent():
                return NotFound(
                    f"channel {message.destination} from {oldest:%Y-%m-%d %H:%M} to {latest:%Y-%m-%d %H:%M} UTC, completely"
                )
            case Doubted(why):
                return CannotTell(why)

    def _client(self, message: Message) -> "SlackResource":
        from resources.slack.client import SlackResource  # brings Dagster's Slack library, which takes seconds

        return SlackResource(
            token=self.endpoint.token.get_secret_value(),
            channel=message.destination,
            base_url=self.endpoint.base_url,
            timeout_seconds=self.endpoint.timeout_seconds,
        )


def shown(body: str) -> str:
    """Slack's own three escapes: what was approved is what is read, and no `<!channel>` in it calls anybody."""
    return body.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def judged(answer: Posted | Refused | Doubted, message: Message, key: str) -> Answer:
    """What the alerts' client concluded, held to what proves it for a customer's message."""
    match answer:
        case Posted(ts) if is_timestamp(ts):
            return Accepted(_receipt(message, key, ts))
        case Posted():
            return Ambiguous("Slack said ok without the message's timestamp")
        case Doubted(why):
            return Ambiguous(why)
        case Refused(code) if code in _OF_A_GATEWAY or not _is_proof(code):
            return Ambiguous(f"the answer ({code}) may come from something between Slack and us that had passed the message on")
        case Refused(code):
            return Rejected(code, f"Slack did not take the message ({code})")


def _is_proof(code: str) -> bool:
    by_status = _BY_STATUS.fullmatch(code)
    return by_status is None or code == _BY_PROXY or int(by_status[1]) in REJECTING_STATUSES


def is_timestamp(ts: str) -> bool:
    return re.fullmatch(r"[0-9]{1,12}\.[0-9]{1,6}", ts) is not None


def _bad_channel(message: Message) -> Rejected | None:
    if is_address(Named.SLACK, message.destination):
        return None
    return Rejected(
        "invalid_destination", "a destination of the Slack provider is a channel's id (C0123456): a name can be given to another"
    )


def _receipt(message: Message, key: str, ts: str) -> dict[str, Json]:
    return {"provider": "slack", "channel": message.destination, "key": key, "ts": ts, "body_sha256": message.body_sha256}

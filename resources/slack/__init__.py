"""Slack: alerts as blocks, posted at most once, waiting in the state store's outbox while Slack is away."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from resources.slack.answer import Ambiguous as Ambiguous
    from resources.slack.answer import Posted as Posted
    from resources.slack.answer import Rejected as Rejected
    from resources.slack.client import SlackResource as SlackResource
    from resources.slack.message import Message as Message
    from resources.slack.message import alert as alert
    from resources.slack.outbox import Delivery as Delivery
    from resources.slack.outbox import deliver as deliver
    from resources.slack.outbox import enqueue as enqueue

_HOME_OF: Final = {
    "Ambiguous": "resources.slack.answer",
    "Posted": "resources.slack.answer",
    "Rejected": "resources.slack.answer",
    "SlackResource": "resources.slack.client",
    "Message": "resources.slack.message",
    "alert": "resources.slack.message",
    "Delivery": "resources.slack.outbox",
    "deliver": "resources.slack.outbox",
    "enqueue": "resources.slack.outbox",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: the client brings Dagster's Slack library, which takes seconds."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)

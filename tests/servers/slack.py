"""The sandbox's Slack in the test's own process: what arrived there is the oracle, not what we recorded."""

from collections.abc import Iterator

import pytest

from opsguard_defs.sandbox.servers.slack_sink import SlackSink
from resources.slack.client import SlackResource
from tests.patience import PATIENCE_SECONDS

CANARY = "xoxb-canary-7d1f"
"""Looks like a token; must never be seen anywhere but in the request's header."""


@pytest.fixture
def slack_sink() -> Iterator[SlackSink]:
    sink = SlackSink().start()
    yield sink
    sink.close()


@pytest.fixture
def slack(slack_sink: SlackSink) -> SlackResource:
    return SlackResource(
        token=CANARY, channel="#data-handoffs", base_url=f"{slack_sink.url}/api/", timeout_seconds=PATIENCE_SECONDS
    )


@pytest.fixture
def webhook(slack_sink: SlackSink) -> SlackResource:
    return SlackResource(webhook=f"{slack_sink.url}/services/T0/B0/{CANARY}", timeout_seconds=PATIENCE_SECONDS)

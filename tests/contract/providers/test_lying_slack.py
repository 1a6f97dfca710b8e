"""A Slack that lies, with a real ledger around it. The oracle is the sink's own record of what it showed."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState as S
from resources.ledger.memory import MemoryLedger
from resources.providers.interface import Accepted, Ambiguous, CannotTell, Found, Message, NotFound, Rejected
from resources.providers.settings import ProviderSettings, SlackEndpoint
from tests.contract.providers.worlds import (
    BODY,
    EARLIER,
    KEY,
    LATER,
    attempted,
    open_one,
    send,
    slack_at,
    slack_world,
    tried_again,
)
from tests.patience import PATIENCE_SECONDS, until
from tests.servers.slack import CANARY
from tests.servers.webhook import Lie, lying_webhook

HANGS: dict[str, object] = {"hang": True}
IMPATIENT = 1
"""Seconds; only where the server is meant to say nothing: on a busy machine an honest answer may take longer."""


def said(status: int, body: object, **headers: str) -> dict[str, object]:
    return {"status": status, "body": body if isinstance(body, str) else json.dumps(body), "headers": headers}


@pytest.mark.parametrize(
    ("lie", "proves", "taken"),
    [
        ({"drop": "after"}, Ambiguous, 1),
        ({"drop": "before"}, Ambiguous, 0),
        (HANGS, Ambiguous, 1),
        (said(200, {"ok": False, "error": "channel_not_found"}), Rejected, 0),
        (said(200, {"ok": False, "error": "msg_too_long"}), Rejected, 0),
        (said(200, {"ok": False, "error": "fatal_error"}), Ambiguous, 0),
        (said(429, {"ok": False, "error": "ratelimited"}, **{"Retry-After": "1"}), Rejected, 0),
        (said(503, "<html>"), Ambiguous, 0),
        (said(200, {"ok": False, "error": "service_unavailable"}), Ambiguous, 0),
        (said(502, "<html>"), Ambiguous, 0),
        (said(408, "<html>"), Ambiguous, 0),
        (said(409, "<html>"), Ambiguous, 0),
        (said(425, "<html>"), Ambiguous, 0),
        (said(407, "who are you"), Rejected, 0),
        (said(403, "<html>"), Rejected, 0),
        (said(302, "", Location="http://127.0.0.1:1/"), Ambiguous, 0),
        (said(200, "<html>portal"), Ambiguous, 0),
        (said(200, []), Ambiguous, 0),
        (said(200, [1]), Ambiguous, 0),
        (said(200, "null"), Ambiguous, 0),
        (said(200, {"ok": True}), Ambiguous, 0),
        (said(200, {"ok": True, "channel": "C0123456"}), Ambiguous, 0),
        (said(200, {"ok": True, "channel": "C0999999", "ts": "1764471600.000100"}), Ambiguous, 0),
        (said(200, {"ok": True, "channel": "C0123456", "ts": "soon"}), Ambiguous, 0),
    ],
)
def test_every_lie_ends_in_the_state_that_it_proves_and_nothing_is_posted_again(
    lie: dict[str, object], proves: type, taken: int
) -> None:
    with slack_world(timeout_seconds=IMPATIENT if lie == HANGS else PATIENCE_SECONDS) as (sink, made):
        sink.next.append(lie)
        ledger = MemoryLedger()
        told = attempted(ledger, made)
        assert isinstance(told.answer, proves), told.answer
        held, grant = tried_again(ledger)
        assert held.state is {Rejected: S.KNOWN_FAILURE, Ambiguous: S.UNKNOWN}[proves]  # type: ignore[union-attr]
        assert isinstance(grant, LedgerRefused)
        if lie == HANGS:
            until(made.taken, "the message that was given up")
        assert made.taken() == [KEY] * taken


@pytest.mark.parametrize(
    "lie", [Lie.DRIP_HEAD, Lie.DRIP_BODY, Lie.CONTINUE_FOREVER, Lie.GARBAGE, Lie.CUT_BODY, Lie.EARLY_HINTS_ONLY]
)
def test_an_answer_that_is_not_whole_in_time_is_a_doubt(lie: Lie, monkeypatch: pytest.MonkeyPatch) -> None:
    """slack_sdk's time-out is per read: a byte now and then would hold an apply run for hours."""
    monkeypatch.setattr("resources.providers.slack.CONNECT_SECONDS", 0.5)
    with lying_webhook(lie) as server:  # takes any POST, whatever it is for
        endpoint = SlackEndpoint(SecretStr(CANARY), f"{server.url}/api/", 1)
        provider = open_one(ProviderSettings(slack=endpoint))
        assert isinstance(send(provider, Message("C0123456", BODY), key=KEY), Ambiguous)
        until(lambda: server.posts, "the message that was given up")
        assert server.posts == 1


def test_a_redirect_is_not_followed_and_the_token_stays_here() -> None:
    """It was: to a closed port, and the refused connection was taken for proof that nothing had been sent."""
    with lying_webhook() as other, slack_world() as (sink, made):
        for elsewhere in ("http://127.0.0.1:1/", other.url):
            sink.next.append(said(302, "", Location=elsewhere))
            assert isinstance(send(made.provider, made.message, key=KEY), Ambiguous)
        assert other.connections == 0


def test_a_lost_answer_is_found_in_the_channel_and_reconciled() -> None:
    with slack_world() as (sink, made):
        sink.next.append({"drop": "after"})
        ledger = MemoryLedger()
        attempted(ledger, made)
        found = made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER)
        assert isinstance(found, Found)
        settled = ledger.reconcile(KEY, receipt=found.receipt)
        assert not isinstance(settled, LedgerRefused)
        assert settled.state is S.RESOLVED_SENT
        assert made.taken() == [KEY]


def test_a_lost_request_is_not_found_and_the_window_is_named() -> None:
    with slack_world() as (sink, made):
        other = "0" * 32
        send(made.provider, made.message, key=other)
        sink.next.append({"drop": "before"})
        send(made.provider, made.message, key=KEY)
        sighting = made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER)
        assert isinstance(sighting, NotFound)
        assert "C0123456" in sighting.searched


def test_only_the_window_is_searched_and_it_is_wider_than_clocks_differ() -> None:
    with slack_world() as (_, made):
        now = datetime.now(UTC)
        send(made.provider, made.message, key=KEY)
        near = made.provider.lookup(KEY, message=made.message, since=now + timedelta(minutes=8), until=LATER)
        assert isinstance(near, Found)
        far = made.provider.lookup(KEY, message=made.message, since=now + timedelta(minutes=30), until=LATER)
        assert isinstance(far, NotFound)
        before = made.provider.lookup(KEY, message=made.message, since=EARLIER, until=now - timedelta(minutes=30))
        assert isinstance(before, NotFound)


def test_a_channel_that_cannot_be_read_completely_proves_no_absence() -> None:
    with slack_world() as (sink, made):
        for number in range(11):
            send(made.provider, made.message, key=f"{number:032x}")
        sink.page_size = 1
        assert isinstance(made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER), CannotTell)
        sink.refused_methods["conversations.history"] = "missing_scope"
        sighting = made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER)
        assert sighting == CannotTell("the token may not look it up (missing_scope)")


def test_a_body_that_slack_would_cut_off_is_refused_before_anybody_is_contacted() -> None:
    """32 KiB of `&` are 160 KB once escaped, and Slack drops what is past 40,000 characters without a word."""
    with slack_world() as (sink, made):
        answer = send(made.provider, Message("C0123456", "&" * 32_000), key=KEY)
        assert isinstance(answer, Rejected)
        assert answer.code == "body_too_large"
        assert sink.messages == []


def test_nobody_is_called_by_what_a_body_holds() -> None:
    with slack_world() as (sink, made):
        send(made.provider, Message("C0123456", "<!channel> <@U01> @here"), key=KEY)
        (message,) = sink.messages
        assert message["body"]["text"] == "&lt;!channel&gt; &lt;@U01&gt; @here"
        assert (message["body"]["mrkdwn"], message["body"]["parse"], message["body"]["link_names"]) == (False, "none", False)
        assert "blocks" not in message["body"]


def test_an_answer_after_the_time_is_a_doubt_that_the_look_up_settles() -> None:
    with slack_world(timeout_seconds=IMPATIENT) as (sink, made):
        sink.next.append(HANGS)
        assert isinstance(send(made.provider, made.message, key=KEY), Ambiguous)
        until(made.taken, "the message that was given up")
        made = replace(made, provider=slack_at(sink))
        assert isinstance(made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER), Found)


def test_sends_at_the_same_moment_keep_to_their_own_keys() -> None:
    """Each call runs in a thread of its own so that it can be given up."""
    with slack_world() as (_, made):
        sends = [threading.Thread(target=send, args=(made.provider, made.message), kwargs={"key": f"{n:032x}"}) for n in range(8)]
        for each in sends:
            each.start()
        for each in sends:
            each.join(PATIENCE_SECONDS)
        assert sorted(made.taken()) == [f"{n:032x}" for n in range(8)]


def test_what_was_taken_says_where_it_stands() -> None:
    with slack_world() as (sink, made):
        answer = send(made.provider, made.message, key=KEY)
        assert isinstance(answer, Accepted)
        assert answer.receipt["ts"] == sink.messages[0]["ts"]
        assert answer.receipt["channel"] == "C0123456"


def test_a_message_with_this_key_and_another_body_proves_nothing() -> None:
    """Another app, or another ledger, posted under the same key: the look-up settled a doubt with somebody else's message."""
    with slack_world() as (_, made):
        send(made.provider, made.message, key=KEY)
        other = replace(made.message, body="Something else\n")
        assert isinstance(made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER), Found)
        sighting = made.provider.lookup(KEY, message=other, since=EARLIER, until=LATER)
        assert sighting == CannotTell("the channel has this key with another body_sha256: compare them by hand")

"""Alerts through a real outbox to a real HTTP server: not lost when it is down, not posted twice when an answer is lost."""

import logging
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from sqlalchemy import text

from opsguard_defs.ports import held_port
from opsguard_defs.sandbox.servers.slack_sink import SlackSink
from resources.slack.client import SlackResource
from resources.slack.message import Message, alert
from resources.slack.outbox import Delivery, deliver, enqueue
from resources.state import StateStore
from tests.patience import PATIENCE_SECONDS, until
from tests.servers.slack import CANARY
from tests.unit.pages import EVIL

LOG = logging.getLogger("test.alerts")


def message(key: str = "gaps:1", **more: object) -> Message:
    return alert(**{"key": key, "event_type": "opsguard_gaps", "title": "2 feeds", "sentence": "never arrived", **more})


def flush(store: StateStore, slack: SlackResource, *, later: timedelta = timedelta(0)) -> Delivery:
    """`later` moves the clock that retries and look-ups are judged by; the outbox itself goes by the database's."""
    return deliver(store.outbox, slack, now=lambda: store.now() + later, log=LOG)


def status(store: StateStore, key: str = "gaps:1") -> str:
    with store.engine.connect() as connection:
        return connection.execute(text("SELECT status FROM opsguard.outbox WHERE key = :key"), {"key": key}).scalar_one()


def make_due(store: StateStore) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE opsguard.outbox SET next_attempt_at = now() - interval '1 second'"))


def test_an_alert_is_posted_once_for_its_key(state_store: StateStore, slack: SlackResource, slack_sink: SlackSink) -> None:
    assert enqueue(state_store.outbox, message())
    assert not enqueue(state_store.outbox, message(sentence="again"))
    assert flush(state_store, slack) == Delivery(posted=1)
    assert flush(state_store, slack) == Delivery()
    (posted,) = slack_sink.messages
    assert posted["authorised"]
    assert posted["channel"] == "#data-handoffs"
    assert posted["body"]["blocks"] == list(message().blocks)
    assert posted["body"]["metadata"] == {"event_type": "opsguard_gaps", "event_payload": {"key": "gaps:1"}}


@pytest.mark.parametrize("by", ["slack", "webhook"])
def test_a_lost_answer_leaves_exactly_one_post_and_a_doubt(
    by: str, request: pytest.FixtureRequest, state_store: StateStore, slack_sink: SlackSink, caplog: pytest.LogCaptureFixture
) -> None:
    """slack_sdk's default client posts twice here: its retry handler cannot know that the first one arrived."""
    where: SlackResource = request.getfixturevalue(by)
    enqueue(state_store.outbox, message())
    slack_sink.next.append({"drop": "after"})
    assert flush(state_store, where) == Delivery(unknown=1)
    assert flush(state_store, where) == Delivery()
    make_due(state_store)
    assert flush(state_store, where) == Delivery()
    assert len(slack_sink.messages) == 1
    assert status(state_store) == "unknown"
    assert "may or may not have reached Slack" in caplog.text
    assert [row.key for row in state_store.outbox.in_doubt()] == ["gaps:1"]


def test_a_doubt_is_resolved_by_looking_into_the_channel(
    state_store: StateStore, slack: SlackResource, slack_sink: SlackSink
) -> None:
    enqueue(state_store.outbox, message())
    slack_sink.next.append({"drop": "after"})
    flush(state_store, slack)
    assert flush(state_store, slack, later=timedelta(seconds=60)) == Delivery()
    assert status(state_store) == "unknown", "a minute is too early to call it absent"
    assert flush(state_store, slack, later=timedelta(minutes=3)) == Delivery()
    assert status(state_store) == "sent"
    assert len(slack_sink.messages) == 1


def test_an_alert_that_the_channel_does_not_show_is_posted_again(
    state_store: StateStore, slack: SlackResource, slack_sink: SlackSink
) -> None:
    enqueue(state_store.outbox, message("earlier"))
    flush(state_store, slack)
    enqueue(state_store.outbox, message())
    slack_sink.next.append({"drop": "before"})
    assert flush(state_store, slack) == Delivery(unknown=1)
    assert flush(state_store, slack, later=timedelta(minutes=3)) == Delivery(posted=1)
    assert status(state_store) == "sent"
    assert len(slack_sink.messages) == 2


def test_a_webhook_cannot_look_up_so_the_doubt_stays(
    state_store: StateStore, webhook: SlackResource, slack_sink: SlackSink
) -> None:
    enqueue(state_store.outbox, message())
    slack_sink.next.append({"drop": "before"})
    flush(state_store, webhook)
    assert flush(state_store, webhook, later=timedelta(hours=1)) == Delivery()
    assert status(state_store) == "unknown"


def test_alerts_wait_while_slack_is_down_and_leave_when_it_is_back(state_store: StateStore) -> None:
    with held_port() as port:
        slack = SlackResource(
            token=CANARY, channel="#ops", base_url=f"http://127.0.0.1:{port}/api/", timeout_seconds=PATIENCE_SECONDS
        )
        for key in ("a", "b", "c"):
            enqueue(state_store.outbox, message(key))
        assert flush(state_store, slack) == Delivery(stopped_by="unreachable")
        assert {row.status for row in state_store.outbox.pending()} == {"queued"}
        back = SlackSink(port=port).start()
        try:
            make_due(state_store)
            assert flush(state_store, slack) == Delivery(posted=3)
            assert len(back.messages) == 3
        finally:
            back.close()


def test_a_rate_limit_stops_the_flush_and_is_waited_out(
    state_store: StateStore, slack: SlackResource, slack_sink: SlackSink
) -> None:
    for key in ("a", "b"):
        enqueue(state_store.outbox, message(key))
    slack_sink.next.append({"status": 429, "headers": {"Retry-After": "90"}, "body": '{"ok": false, "error": "ratelimited"}'})
    before = state_store.now()
    assert flush(state_store, slack) == Delivery(stopped_by="ratelimited")
    after = state_store.now()
    assert slack_sink.messages == []
    with state_store.engine.connect() as connection:
        again = connection.execute(text("SELECT next_attempt_at FROM opsguard.outbox WHERE key = 'a'")).scalar_one()
    assert before <= again - timedelta(seconds=90) <= after
    make_due(state_store)
    assert flush(state_store, slack) == Delivery(posted=2)


@pytest.mark.parametrize("code", ["invalid_auth", "channel_not_found", "not_in_channel"])
def test_what_an_operator_can_put_right_is_kept(
    code: str, state_store: StateStore, slack: SlackResource, slack_sink: SlackSink
) -> None:
    enqueue(state_store.outbox, message())
    slack_sink.next.append({"status": 200, "body": f'{{"ok": false, "error": "{code}"}}'})
    assert flush(state_store, slack) == Delivery(stopped_by=code)
    make_due(state_store)
    assert flush(state_store, slack) == Delivery(posted=1)


def test_what_slack_will_never_take_goes_to_the_log_and_stops_nobody(
    state_store: StateStore, slack: SlackResource, slack_sink: SlackSink, caplog: pytest.LogCaptureFixture
) -> None:
    enqueue(state_store.outbox, message("a", sentence="feed_a is missing"))
    enqueue(state_store.outbox, message("b"))
    state_store.outbox.enqueue("c", {"not": "an alert"})
    slack_sink.next.append({"status": 200, "body": '{"ok": false, "error": "invalid_blocks"}'})
    assert flush(state_store, slack) == Delivery(posted=1, refused=2)
    assert "feed_a is missing" in caplog.text
    assert {row.key for row in state_store.outbox.in_doubt()} == {"a", "c"}


@pytest.mark.parametrize("answer", [{"status": 500, "body": "x"}, {"status": 200, "body": "<html>captive portal</html>"}])
def test_an_answer_that_proves_nothing_is_a_doubt(
    answer: dict[str, object], state_store: StateStore, slack: SlackResource, slack_sink: SlackSink
) -> None:
    enqueue(state_store.outbox, message())
    slack_sink.next.append(answer)
    assert flush(state_store, slack) == Delivery(unknown=1)


def test_without_slack_alerts_go_to_the_log_once(state_store: StateStore, caplog: pytest.LogCaptureFixture) -> None:
    enqueue(state_store.outbox, message(sentence="a & b <c>\x1b[31m", command="opsguard doctor"))
    assert flush(state_store, SlackResource()) == Delivery(logged=1)
    assert flush(state_store, SlackResource()) == Delivery()
    assert "2 feeds | a & b <c>\\x1b[31m | opsguard doctor" in caplog.text
    assert status(state_store) == "sent"


def test_a_hostile_name_arrives_as_words(state_store: StateStore, slack: SlackResource, slack_sink: SlackSink) -> None:
    enqueue(state_store.outbox, message(title=EVIL, sentence=EVIL, items=[EVIL]))
    flush(state_store, slack)
    (posted,) = slack_sink.messages
    for block in posted["body"]["blocks"]:
        assert block["text"]["type"] == "plain_text"
        assert "<" not in block["text"]["text"]
    assert "<!here>" not in posted["body"]["text"]
    assert posted["body"]["parse"] == "none"
    assert "<!here>" not in slack_sink.page()
    assert "<img" not in slack_sink.page()


def test_the_token_is_seen_nowhere_but_in_the_request(
    state_store: StateStore, slack: SlackResource, webhook: SlackResource, slack_sink: SlackSink, caplog: pytest.LogCaptureFixture
) -> None:
    """A webhook's address is its secret, and slack_sdk writes it at DEBUG; dagster-slack's repr prints the token."""
    caplog.set_level(logging.DEBUG)
    said = []
    broken = SlackResource(webhook=f"http://127.0.0.1:{slack_sink.port}/services/T0 B0/{CANARY}")
    for number, (where, answer) in enumerate(
        [
            (slack, {"drop": "after"}),
            (slack, {"status": 500, "body": "no"}),
            (slack, {"status": 429, "body": "{}"}),
            (slack, {}),
            (webhook, {"drop": "after"}),
            (webhook, {"status": 404, "body": "no_service"}),
            (webhook, {}),
            (broken, {}),
        ]
    ):
        if answer:
            slack_sink.next.append(answer)
        enqueue(state_store.outbox, message(f"k{number}"))
        make_due(state_store)
        said += [repr(flush(state_store, where)), repr(where), str(where), f"{where}", repr(where.post(message("direct")))]
    with pytest.raises(ValueError) as error:
        SlackResource(token=CANARY, timeout_seconds=0)
    said += [str(error.value), repr(slack.find(event_type="e", key="k", oldest=state_store.now())), slack_sink.page()]
    said += [repr(row) for row in [*state_store.outbox.pending(), *state_store.outbox.in_doubt()]]
    assert CANARY not in caplog.text
    assert not any(CANARY in each for each in said)


def test_many_flushes_at_once_post_each_alert_once(state_store: StateStore, slack: SlackResource, slack_sink: SlackSink) -> None:
    keys = {f"k{number}" for number in range(30)}
    for key in keys:
        enqueue(state_store.outbox, message(key))
    threads = [threading.Thread(target=flush, args=(state_store, slack)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flush(state_store, slack)
    assert sorted(posted["body"]["metadata"]["event_payload"]["key"] for posted in slack_sink.messages) == sorted(keys)


_FLUSH = """
import logging, sys
from resources.slack.client import SlackResource
from resources.slack.outbox import deliver
from resources.state import StateStore
with StateStore.open(sys.argv[1]) as store:
    slack = SlackResource(token="t", channel="#ops", base_url=sys.argv[2], timeout_seconds=120)
    deliver(store.outbox, slack, now=store.now, log=logging.getLogger())
"""


@pytest.mark.crash
def test_a_process_killed_with_the_answer_leaves_one_post_and_a_doubt(
    state_store: StateStore, slack: SlackResource, slack_sink: SlackSink, database_url: str
) -> None:
    enqueue(state_store.outbox, message())
    slack_sink.next.append({"hang": True})
    child = subprocess.Popen([sys.executable, "-c", _FLUSH, database_url, f"{slack_sink.url}/api/"], env=os.environ)
    until(lambda: slack_sink.messages or child.poll() is not None, "the message whose answer hangs")
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert status(state_store) == "sending"
    assert flush(state_store, slack) == Delivery()
    with state_store.engine.begin() as connection:
        connection.execute(text("UPDATE opsguard.outbox SET claimed_at = claimed_at - interval '6 minutes'"))
    assert flush(state_store, slack) == Delivery()
    assert status(state_store) == "unknown"
    assert len(slack_sink.messages) == 1

"""The tables of what an answer proves: every HTTP status, every reply of a mail server, every conclusion of Slack's client."""

import json

import pytest

from resources.providers.http_call import HttpAnswer, NoAnswer, NotSent
from resources.providers.interface import Accepted, Ambiguous, CannotTell, Found, Message, NotFound, Rejected
from resources.providers.settings import REJECTING_STATUSES, WebhookEndpoint
from resources.providers.slack import judged as judged_slack
from resources.providers.webhook import ACCEPTING_STATUSES, judged, seen
from resources.slack.answer import Ambiguous as Doubted
from resources.slack.answer import Posted
from resources.slack.answer import Rejected as Refused

pytestmark = pytest.mark.fast

KEY, OTHER = "0" * 32, "1" * 32
MESSAGE = Message("acme", "Good morning")
ENDPOINT = WebhookEndpoint("https://a.example/")


def answer(status: int, held: object = None, **headers: str) -> HttpAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(status, named, b"" if held is None else json.dumps(held).encode())


def test_every_status_that_is_in_neither_table_is_a_doubt() -> None:
    told = {status: type(judged(answer(status), ENDPOINT, MESSAGE, KEY)) for status in range(100, 1000)}
    assert {status for status, proves in told.items() if proves is Accepted} == ACCEPTING_STATUSES
    assert {status for status, proves in told.items() if proves is Rejected} == REJECTING_STATUSES
    assert not ACCEPTING_STATUSES & REJECTING_STATUSES


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 301, 302, 303, 307, 308, 206, 207])
def test_what_is_also_said_after_taking_a_message_is_a_doubt(status: int) -> None:
    assert isinstance(judged(answer(status), ENDPOINT, MESSAGE, KEY), Ambiguous)


@pytest.mark.parametrize(
    "told",
    [
        answer(200, {"key": OTHER}),
        answer(200, {"idempotency_key": OTHER}),
        answer(200, {"key": KEY, "idempotency_key": OTHER}),
        answer(200, {"key": KEY}, idempotency_key=OTHER),
        answer(200, {"key": None}),
        answer(200, {"key": [KEY]}),
    ],
)
def test_an_answer_that_names_another_key_is_not_about_this_message(told: HttpAnswer) -> None:
    assert isinstance(judged(told, ENDPOINT, MESSAGE, KEY), Ambiguous)
    assert isinstance(seen(told, ENDPOINT, MESSAGE, KEY), CannotTell)


@pytest.mark.parametrize(
    "told", [answer(200, {"key": KEY}), answer(200, idempotency_key=KEY), answer(200, idempotency_key=f'"{KEY}"')]
)
def test_an_answer_may_name_the_key_in_either_place(told: HttpAnswer) -> None:
    strict = WebhookEndpoint("https://a.example/", must_echo_key=True)
    assert isinstance(judged(told, strict, MESSAGE, KEY), Accepted)
    assert isinstance(seen(told, ENDPOINT, MESSAGE, KEY), Found)


def test_only_what_provably_never_left_is_refused_without_an_answer() -> None:
    assert judged(NotSent("unreachable", "w"), ENDPOINT, MESSAGE, KEY) == Rejected("unreachable", "w")
    assert judged(NoAnswer("w"), ENDPOINT, MESSAGE, KEY) == Ambiguous("w")
    assert isinstance(seen(NotSent("unreachable", "w"), ENDPOINT, MESSAGE, KEY), CannotTell)


@pytest.mark.parametrize("body_sha256", [MESSAGE.body_sha256, None])
def test_a_look_up_with_this_key_and_body_is_found(body_sha256: str | None) -> None:
    assert isinstance(seen(answer(200, {"key": KEY, "body_sha256": body_sha256}), ENDPOINT, MESSAGE, KEY), Found)


@pytest.mark.parametrize("status", [201, 204, 301, 401, 403, 410, 429, 500])
def test_a_look_up_that_did_not_say_200_or_404_tells_nothing(status: int) -> None:
    sure = WebhookEndpoint("https://a.example/", lookup_is_authoritative=True)
    assert isinstance(seen(answer(status, {"key": KEY}), sure, MESSAGE, KEY), CannotTell)


def test_absence_is_only_believed_where_the_endpoint_vouches_for_it() -> None:
    sure = WebhookEndpoint("https://a.example/", lookup_is_authoritative=True)
    assert isinstance(seen(answer(404), ENDPOINT, MESSAGE, KEY), CannotTell)
    assert isinstance(seen(answer(404), sure, MESSAGE, KEY), NotFound)


def test_a_receipt_holds_what_the_other_side_calls_it_and_never_its_words() -> None:
    told = judged(answer(201, {"secret": "canary"}, x_request_id="r\x1b[2J" + "9" * 500), ENDPOINT, MESSAGE, KEY)
    assert isinstance(told, Accepted)
    assert "canary" not in repr(told)
    assert str(told.receipt["request_id"]).isprintable()
    assert len(str(told.receipt["request_id"])) <= 120


@pytest.mark.parametrize(
    ("told", "proves"),
    [
        (Posted("1764471600.000100"), Accepted),
        (Posted(""), Ambiguous),
        (Posted("soon"), Ambiguous),
        (Refused("channel_not_found"), Rejected),
        (Refused("ratelimited", 3), Rejected),
        (Refused("unreachable"), Rejected),
        (Refused("untrusted_certificate"), Rejected),
        (Refused("proxy_refused"), Rejected),
        (Refused("http_400"), Rejected),
        (Refused("http_407"), Rejected),
        (Refused("http_408"), Ambiguous),
        (Refused("http_499"), Ambiguous),
        (Refused("service_unavailable"), Ambiguous),
        (Doubted("w"), Ambiguous),
    ],
)
def test_a_customers_message_is_held_to_more_than_an_alert(told: Posted | Refused | Doubted, proves: type) -> None:
    assert isinstance(judged_slack(told, MESSAGE, KEY), proves)

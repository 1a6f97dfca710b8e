"""What all four providers do the same: one acceptance per send, the key on the other side's record, secrets nowhere."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from guards.delivery.reservation import ReservationState as S
from guards.gate import Authorization, NotAuthorized
from resources.ledger.memory import MemoryLedger
from resources.providers.interface import MOST_BODY_BYTES, Accepted, Ambiguous, CannotTell, Found, Message, NotFound, Rejected
from tests.contract.providers.worlds import EARLIER, KEY, KINDS, LATER, SCOPE, World, attempted, send, tried_again, world
from tests.servers.authorization import authorized
from tests.servers.slack import CANARY


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with world(request.param, tmp_path) as opened:
        yield opened


def test_a_message_is_taken_once_under_its_reservations_id(made: World) -> None:
    told = attempted(MemoryLedger(), made)
    assert isinstance(told.answer, Accepted), told.answer
    assert made.taken() == [KEY]
    assert told.answer.receipt["provider"] == made.provider.name
    assert told.answer.receipt["key"] == KEY
    assert told.answer.receipt["body_sha256"] == made.message.body_sha256


def test_nothing_sends_without_an_authorization_of_the_gates_for_this_scope(made: World) -> None:
    given = authorized()
    forged = object.__new__(Authorization)
    for authorization, scope in ((None, SCOPE), (forged, SCOPE), (given, "delivery/customers")):
        with pytest.raises(NotAuthorized):
            made.provider.writer(authorization, scope=scope)  # type: ignore[arg-type]
    assert not hasattr(made.provider, "send")
    assert made.contacts() == 0
    assert made.taken() == []


def test_a_second_run_finds_the_receipt_and_may_not_call(made: World) -> None:
    ledger = MemoryLedger()
    attempted(ledger, made)
    held, grant = tried_again(ledger)
    assert held.state is S.DELIVERED  # type: ignore[union-attr]
    assert type(grant).__name__ == "LedgerRefused"
    assert made.taken() == [KEY]


def test_a_look_up_finds_what_was_taken_or_says_that_it_cannot(made: World) -> None:
    before = made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER)
    assert isinstance(before, NotFound | CannotTell)
    send(made.provider, made.message, key=KEY)
    after = made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER)
    other = made.provider.lookup("0" * 32, message=made.message, since=EARLIER, until=LATER)
    assert isinstance(other, NotFound | CannotTell)
    if made.provider.asks(made.message):
        assert isinstance(after, Found), after
        assert after.receipt["key"] == KEY
    else:
        assert isinstance(after, CannotTell)
        assert KEY in after.why, "a person needs something to search for"
    assert made.taken() == [KEY], "looking changes nothing"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"body": ""}, "empty_body"),
        ({"body": " \n"}, "empty_body"),
        ({"body": "a\x00b"}, "invalid_body"),
        ({"body": "a\ud800b"}, "invalid_body"),
        ({"body": "\N{SNOWMAN}" * (MOST_BODY_BYTES // 3 + 1)}, "body_too_large"),
        ({"subject": "a\r\nBcc: everybody@example.com"}, "invalid_subject"),
        ({"subject": "a" * 201}, "invalid_subject"),
        ({"display": "a\x1b[2J"}, "invalid_display"),
        ({"destination": ""}, "invalid_destination"),
        ({"destination": "../../etc"}, "invalid_destination"),
        ({"destination": "a@b.example\r\nRCPT TO:<c@d.example>"}, "invalid_destination"),
        ({"destination": "acme\n"}, "invalid_destination"),
    ],
)
def test_what_is_unfit_is_refused_before_anybody_is_contacted(made: World, change: dict[str, str], code: str) -> None:
    answer = send(made.provider, replace(made.message, **change), key=KEY)
    assert isinstance(answer, Rejected)
    assert answer.code == ("unknown_webhook" if (code, made.provider.name) == ("invalid_destination", "webhook") else code)
    assert made.contacts() == 0
    assert made.taken() == []


@pytest.mark.parametrize("key", ["", "x", KEY.upper(), KEY + "\n", f"../{KEY[3:]}", KEY + "0"])
def test_a_key_that_is_no_reservations_id_is_refused_before_anybody_is_contacted(made: World, key: str) -> None:
    answer = send(made.provider, made.message, key=key)
    assert isinstance(answer, Rejected)
    assert answer.code == "invalid_key"
    assert isinstance(made.provider.lookup(key, message=made.message, since=EARLIER, until=LATER), CannotTell)
    assert made.contacts() == 0


@pytest.mark.parametrize(
    "body",
    ["\N{SNOWMAN}" * (MOST_BODY_BYTES // 3), "." * MOST_BODY_BYTES, "\r.\r\n.\n..", "a" * 5000 + "\r\r", "&lt; <b> & \u2028"],
)
def test_every_body_that_fits_arrives_whole(made: World, body: str) -> None:
    """A body of 32 KiB, lines that begin with dots, and bare carriage returns: what mail mangles first."""
    answer = send(made.provider, replace(made.message, body=body), key=KEY)
    assert isinstance(answer, Accepted), answer
    assert made.taken() == [KEY]
    if made.provider.name == "smtp":  # mail knows lines, not the characters that end them
        assert made.body().encode().splitlines() == body.encode().splitlines()
    else:
        assert made.body() == body


def test_names_of_every_script_are_fit_to_be_shown(made: World) -> None:
    persian = "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert isinstance(send(made.provider, replace(made.message, display=persian, subject=persian), key=KEY), Accepted)


def test_no_secret_is_shown_anywhere(made: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = send(made.provider, made.message, key=KEY)
        sighting = made.provider.lookup(KEY, message=made.message, since=EARLIER, until=LATER)
    shown = repr([made.provider, made.provider.capabilities, answer, sighting, str(made.provider)])
    assert CANARY not in shown + caplog.text


def test_capabilities_are_said_in_a_sentence(made: World) -> None:
    assert len(made.provider.capabilities.says) > 30
    assert made.provider.capabilities.refuses_duplicates is (made.provider.name == "file")


def test_every_doubt_and_refusal_is_one_printable_line(made: World) -> None:
    """A note of the ledger takes 500 characters, and goes to terminals, Slack and Markdown."""
    for message, key in ((Message("\x1b[2J" * 50, "b"), KEY), (made.message, "k" * 5000)):
        for answer in (
            send(made.provider, message, key=key),
            made.provider.lookup(key, message=message, since=EARLIER, until=LATER),
        ):
            assert isinstance(answer, Rejected | Ambiguous | CannotTell)
            assert answer.why.isprintable()
            assert len(answer.why) <= 300

"""Slack messages: bounded as Slack demands, and nothing in them that a file name could turn into markup or a mention."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.slack.message import HEADER_LIMIT, SECTION_LIMIT, Message, alert
from tests.unit.pages import EVIL

pytestmark = pytest.mark.fast

LINK = ("The run", "http://127.0.0.1:3000/runs/r1?a=b&c=%5B")


def made(**more: object) -> Message:
    return alert(**{"key": "k", "event_type": "opsguard_gaps", "title": "t", "sentence": "s", **more})


HOSTILE = (
    st.text(st.characters(exclude_categories=()), max_size=400)
    | st.just(EVIL)
    | st.just("&" * 4000)
    | st.just("<!channel>" * 400)
)


@given(HOSTILE, HOSTILE, st.lists(HOSTILE, max_size=30))
def test_no_text_from_outside_is_longer_than_slack_allows_or_acts(title: str, sentence: str, items: list[str]) -> None:
    message = made(title=title, sentence=sentence, items=items, command="opsguard doctor", links=[LINK])
    header, *sections = message.blocks
    assert len(header["text"]["text"]) <= HEADER_LIMIT
    for block in sections:
        assert len(block["text"]["text"]) <= SECTION_LIMIT
    for block in message.blocks[:-1]:
        text = block["text"]
        assert text["type"] == "plain_text"
        assert text["emoji"] is False
        assert not re.search(r"[<>`]|&(?!amp;|lt;|gt;)|(?<![^\W_])@", text["text"])
    assert message.blocks[-1]["text"]["text"] == "`opsguard doctor`\n<http://127.0.0.1:3000/runs/r1?a=b&amp;c=%5B|The run>"
    assert not re.search(r"<!|@channel|@here", message.text)
    json.dumps(message.as_json()).encode("ascii")


def test_items_that_do_not_fit_are_counted() -> None:
    items = made(items=["x" * 390] * 40).blocks[2]["text"]["text"].splitlines()
    assert len(items) == 8
    assert items[-1] == "and 33 more"


def test_one_giant_item_is_shortened_not_dropped() -> None:
    assert made(items=["<" * 5000]).blocks[2]["text"]["text"].startswith("\N{BULLET} &lt;")


def test_links_that_do_not_fit_are_left_out_and_the_first_stay() -> None:
    long = ("long", "http://x/" + "a" * 2950)
    assert "|long>" not in made(links=[LINK, long, LINK]).blocks[-1]["text"]["text"]
    assert made(links=[LINK, long, LINK]).blocks[-1]["text"]["text"].count("|The run>") == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ""},
        {"key": "a\nb"},
        {"event_type": "Gaps!"},
        {"command": "rm -rf /"},
        {"command": "opsguard `x`"},
        {"links": [("x", "javascript:alert(1)")]},
        {"links": [("x", "http://a|b>")]},
    ],
)
def test_what_is_not_ours_is_no_message(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        made(**wrong)


def test_a_message_survives_its_way_through_the_outbox() -> None:
    message = made(items=[EVIL], links=[LINK], command="opsguard apply 61cddab8590b")
    assert Message.from_json(json.loads(json.dumps(message.as_json()))) == message


@pytest.mark.parametrize("stored", [{}, {"key": "k"}, {"key": "k", "event_type": "e", "text": "t", "blocks": "x"}])
def test_what_is_not_a_message_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError)):
        Message.from_json(stored)


def test_a_message_without_anything_to_do_has_no_empty_block() -> None:
    assert [block["type"] for block in made().blocks] == ["header", "section"]
    assert made().text == "t\ns"

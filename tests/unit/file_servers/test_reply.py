"""Replies: whatever lines come, there is a reply or a reason why there is none."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.file_servers.ftp_reply import NoReply, Reply, extended_port, passive_port, read_reply

pytestmark = pytest.mark.fast

_LINES = st.lists(
    st.one_of(st.text(st.characters(max_codepoint=255), max_size=20), st.sampled_from(["220 a", "220-a", "220", "220-"]))
)


def read(*lines: str) -> Reply:
    remaining: Iterator[str] = iter(lines)
    return read_reply(lambda: next(remaining))


@given(lines=_LINES)
def test_any_lines_are_a_reply_or_none(lines: list[str]) -> None:
    try:
        reply = read(*lines, *(["x"] * 1001))
    except NoReply:
        return
    assert 100 <= reply.code < 600


@pytest.mark.parametrize(
    ("lines", "code", "text"),
    [
        (["220 ready"], 220, "ready"),
        (["220"], 220, ""),
        (["220-a", "220-b", "220 c"], 220, "a 220-b c"),
        (["211-Features", " SIZE", "211x", "213 no", "211 End"], 211, "Features SIZE 211x 213 no End"),
        (["250 caf\xe9"], 250, "caf\udce9"),
    ],
)
def test_replies_as_servers_write_them(lines: list[str], code: int, text: str) -> None:
    reply = read(*lines)
    assert (reply.code, reply.text) == (code, text)


@pytest.mark.parametrize("line", ["", "2", "22 x", "2200 x", "620 x", "220x", "SSH-2.0-x", "\u00b2\u00b2\u00b0 x"])
def test_other_lines_are_no_reply(line: str) -> None:
    with pytest.raises(NoReply, match="no FTP reply"):
        read(line)


def test_a_reply_that_never_ends_is_given_up() -> None:
    with pytest.raises(NoReply, match="does not end"):
        read_reply(lambda: "220-again")


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("Extended (|||2121|)", 2121),
        ("(!!!65535!)", 65535),
        ("(|||0|)", None),
        ("(|||65536|)", None),
        ("(||2121|)", None),
        ("2121", None),
    ],
)
def test_the_port_of_an_extended_passive_reply(text: str, port: int | None) -> None:
    assert extended_port(Reply(229, (text,))) == port
    assert extended_port(Reply(227, (text,))) is None


@pytest.mark.parametrize(
    ("text", "port"),
    [("Entering (10,1,2,3,8,73)", 2121), ("=10,1,2,3,8,73", 2121), ("(1,2,3,4,0,0)", None), ("(1,2,3,4,5,256)", None), ("(1,2,3,4,300,1)", None), ("(1,2,3)", None)],
)  # fmt: skip
def test_the_port_of_a_passive_reply(text: str, port: int | None) -> None:
    assert passive_port(Reply(227, (text,))) == port
    assert passive_port(Reply(229, (text,))) is None

"""Hostile names are shown, never obeyed: not by Markdown, a terminal, Slack or a form."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.text import (
    ELLIPSIS,
    NAME_LIMIT,
    code_span,
    count_words,
    duration_words,
    first_of,
    markdown_text,
    one_line,
    size_words,
    slack_text,
    table_cell,
    terminal,
)

pytestmark = pytest.mark.fast

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=300)
"""Lone surrogates included: undecodable bytes of file names arrive as such."""
NASTY = st.lists(
    st.sampled_from([*"`*_~[]()<>|&\\@:/.\n\r\x1b\x85\u2028\u202e\udcff\ud800 a1", "http://", "www.", "<!here>", "@channel"]),
    max_size=60,
).map("".join)
TEXTS = ANYTHING | NASTY


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\nauto_remediate: true", "a\\nauto_remediate: true"),
        ("a\rb\tc", "a\\rb\\tc"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("next\x85line", "next\\u0085line"),
        ("line\u2028separator", "line\\u2028separator"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("no\u00a0break", "no\\u00a0break"),
        ("filler\u3164", "filler\\u3164"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("undecodable\udcff\udc80", "undecodable\\xff\\x80"),
        ("half\ud800", "half\\ud800"),
        ("plain näme.csv", "plain näme.csv"),
        ("", ""),
    ],
)
def test_what_must_not_act_is_shown_as_an_escape(hostile: str, shown: str) -> None:
    assert one_line(hostile) == shown


def test_a_byte_and_a_code_point_never_look_the_same() -> None:
    assert one_line("\udc85") == "\\x85"
    assert one_line("\x85") == "\\u0085"


def test_a_long_name_loses_its_middle_and_keeps_its_ending() -> None:
    shown = one_line("a" * 300 + ".csv", limit=20)
    assert shown == "aaaaaaaaaa" + ELLIPSIS + "aaaaa.csv"
    assert len(shown) == 20


def test_an_escape_is_never_cut_in_half() -> None:
    assert one_line("\udcff" * 255, limit=11) == "\\xff" + ELLIPSIS + "\\xff"


def test_without_a_limit_nothing_is_cut() -> None:
    assert one_line("a" * 5000, limit=None) == "a" * 5000


@given(TEXTS, st.integers(2, 200))
def test_one_line_is_printable_bounded_and_the_same_when_shown_twice(text: str, limit: int) -> None:
    shown = one_line(text, limit=limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    assert one_line(shown, limit=limit) == shown


@given(TEXTS)
def test_no_direction_mark_and_no_surrogate_survives(text: str) -> None:
    shown = one_line(text)
    assert not any(unicodedata.bidirectional(c) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"} for c in shown)
    shown.encode("utf-8")


@given(TEXTS)
def test_no_control_sequence_survives_in_a_terminal(text: str) -> None:
    shown = terminal(text)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", shown)
    assert terminal(text, ascii_only=True).isascii()


def test_a_terminal_without_unicode_gets_escapes() -> None:
    assert terminal("näme", ascii_only=True) == "n\\u00e4me"
    assert terminal("a" * 30, limit=9, ascii_only=True) == "aaa...aaa"


@given(TEXTS)
def test_nothing_leaves_a_code_span(text: str) -> None:
    """CommonMark: a span ends at the first run of backticks as long as the opening one."""
    span = code_span(text)
    fence = re.match("`+", span)
    assert fence is not None
    inner = span[len(fence[0]) : -len(fence[0])]
    assert span.endswith(fence[0])
    assert inner
    assert fence[0] not in re.findall("`+", inner)
    assert not inner.startswith("`")
    assert not inner.endswith("`")
    assert "\n" not in span


@pytest.mark.parametrize(
    ("text", "span"),
    [("a.csv", "`a.csv`"), ("", "` `"), ("`", "`` ` ``"), ("a``b", "``` a``b ```"), (" a ", "`  a  `")],
)
def test_the_fence_is_longer_than_any_run_of_backticks_inside(text: str, span: str) -> None:
    assert code_span(text) == span


@given(TEXTS)
def test_a_table_cell_holds_no_bar(text: str) -> None:
    assert "|" not in table_cell(text)


def test_a_bar_in_a_table_cell_is_shown() -> None:
    assert table_cell("a|b\\|c") == "`a\\x7cb\\\\x7cc`"


@given(TEXTS)
def test_no_markdown_acts_in_a_sentence(text: str) -> None:
    unescaped = re.sub(r"\\[\\`*_\[\]<>|~&]", "", markdown_text(text))
    assert not re.search(r"[\\`*_\[\]<>|~&]", unescaped)
    assert not re.search(r"https?://|www\.|@", unescaped, re.IGNORECASE)


def test_an_image_in_a_note_is_words() -> None:
    """Seen: the Dagster UI removes scripts from Markdown, but fetches images from anywhere."""
    assert markdown_text("![x](http://evil.example/p.png)") == r"!\[x\](http\\x3a\\x2f\\x2fevil.example/p.png)"


@given(TEXTS)
def test_no_slack_mention_link_or_markup_acts(text: str) -> None:
    shown = slack_text(text)
    assert not re.search(r"[<>`]", shown)
    assert not re.search(r"&(?!amp;|lt;|gt;)", shown)
    assert not re.search(r"(?<![^\W_])[*_~@]|[*_~](?![^\W_])", re.sub(r"&(?:amp|lt|gt);", "?", shown))
    assert not re.search(r"https?://|www\.", shown, re.IGNORECASE)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<!here> & <@U1>", "&lt;!here&gt; &amp; &lt;\\x40U1&gt;"),
        ("@channel _a_ `b`", "\\x40channel \\x5fa\\x5f \\x60b\\x60"),
        ("orders_2026_11.csv", "orders_2026_11.csv"),
        ("HTTPS://evil.example www.evil.example", "HTTPS\\x3a\\x2f\\x2fevil.example www\\x2eevil.example"),
    ],
)
def test_slack_words_stay_copyable_where_they_are_harmless(text: str, shown: str) -> None:
    assert slack_text(text) == shown


def test_the_default_limit_is_the_name_limit() -> None:
    assert len(one_line("x" * 500)) == NAME_LIMIT


@pytest.mark.parametrize(("size", "words"), [(0, "0 bytes"), (1, "1 byte"), (178_535, "178,535 bytes")])
def test_sizes_are_exact(size: int, words: str) -> None:
    assert size_words(size) == words


def test_counts_agree_with_their_noun() -> None:
    assert count_words(1, "entry", "entries") == "1 entry"
    assert count_words(2, "entry", "entries") == "2 entries"
    assert count_words(0, "feed") == "0 feeds"


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (-5, "0 min"),
        (0, "0 min"),
        (59, "59 min"),
        (60, "1 h"),
        (372, "6 h 12 min"),
        (1440, "1 d"),
        (4565, "3 d 4 h"),
        (1441, "1 d"),
    ],
)
def test_durations_say_their_two_largest_units(minutes: int, words: str) -> None:
    assert duration_words(minutes) == words


def test_of_a_long_list_the_first_are_named_and_the_others_counted() -> None:
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of([f"slot-{number}" for number in range(1_206)], 2) == "slot-0, slot-1 and 1,204 more"
    assert first_of([], 2) == ""

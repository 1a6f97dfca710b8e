"""Names from outside: which can be acted on, which are feeds, which look alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.spool.names import AliasIndex, alias_key, is_deliverable, is_marker, unsafe_reason
from guards.spool.policy import SpoolPolicy

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "no name of its own: it is empty or names a directory's self or parent"),
        (".", "no name of its own: it is empty or names a directory's self or parent"),
        ("..", "no name of its own: it is empty or names a directory's self or parent"),
        ("../a.csv", "a slash: it would leave its directory"),
        ("/a.csv", "a slash: it would leave its directory"),
        ("é/a.csv", "a slash: it would leave its directory"),
        ("a\n.csv", "a control character (U+000A)"),
        ("a\r.csv", "a control character (U+000D)"),
        ("a\0.csv", "a control character (U+0000)"),
        ("a\x1b[2J.csv", "a control character (U+001B)"),
        ("a\x7f.csv", "a control character (U+007F)"),
        ("a\x85.csv", "a control character (U+0085)"),
        ("a\udcff.csv", "bytes that are not UTF-8 (U+DCFF)"),
        ("a\ud800.csv", "bytes that are not UTF-8 (U+D800)"),
        ("a\u202evsc.exe", "an invisible or text-reversing character (U+202E)"),
        ("a\u2066.csv", "an invisible or text-reversing character (U+2066)"),
        ("a\u200b.csv", "an invisible or text-reversing character (U+200B)"),
        ("\ufeffa.csv", "an invisible or text-reversing character (U+FEFF)"),
        ("a\u2028.csv", "a line separator (U+2028)"),
        ("a\u2029.csv", "a paragraph separator (U+2029)"),
        ("a\u3164.csv", "a character that shows as nothing (U+3164)"),
        ("a" * 256, "more than 255 bytes"),
        ("é" * 128, "more than 255 bytes"),
    ],
)
def test_an_unsafe_name_has_its_reason(name: str, reason: str) -> None:
    assert unsafe_reason(name) == reason


@pytest.mark.parametrize(
    "name", ["a.csv", "-a.csv", ".a.csv", "a b.csv", "...", "<@U123>.csv", "a" * 255, "é" * 127, "e\u0301.csv", "수신.csv", "\\"]
)
def test_what_is_only_odd_is_not_unsafe(name: str) -> None:
    assert unsafe_reason(name) == ""


@given(st.text(min_size=1, max_size=80))
def test_a_safe_name_can_be_printed_and_stays_in_its_directory(name: str) -> None:
    if not unsafe_reason(name):
        assert "/" not in name
        assert name not in (".", "..")
        assert len(name.encode()) <= 255
        assert not any(character in name for character in "\n\r\0\u202e\u200b")


def test_every_byte_string_is_judged() -> None:
    for byte in range(256):
        name = b"a" + bytes([byte]) + b".csv"
        reason = unsafe_reason(name.decode("utf-8", "surrogateescape"))
        assert bool(reason) == (byte < 0x20 or byte >= 0x7F or byte == ord("/"))


def test_a_marker_is_a_name_with_one_of_the_endings() -> None:
    policy = SpoolPolicy(in_progress_suffixes=(".busy",))
    assert is_marker("a.csv.busy", policy)
    assert is_marker(".busy", policy)
    assert not is_marker("a.csv.part", policy)
    assert not is_marker("a.busy.csv", policy)


def test_a_leading_dot_or_dash_is_never_deliverable_whatever_the_pattern_says() -> None:
    anything = SpoolPolicy(deliverable_pattern=r"(?s).*")
    assert is_deliverable("a", anything)
    assert not is_deliverable("-rf", anything)
    assert not is_deliverable(".hidden", anything)


def test_the_whole_name_must_match_even_before_a_final_newline() -> None:
    """`match` with `$` lets `a.csv\\n` pass."""
    assert is_deliverable("a.csv", SpoolPolicy())
    assert not is_deliverable("a.csv\n", SpoolPolicy())
    assert not is_deliverable("xa.csv", SpoolPolicy(deliverable_pattern=r"a\.csv"))
    assert not is_deliverable("a.csvx", SpoolPolicy(deliverable_pattern=r"a\.csv"))


@pytest.mark.parametrize(
    ("one", "other", "sensitive", "insensitive"),
    [
        ("a.csv", "A.CSV", False, True),
        ("K.csv", "\N{KELVIN SIGN}.csv", True, True),
        ("é.csv", "e\u0301.csv", True, True),
        ("é.csv", "E\u0301.CSV", False, True),
        ("straße.csv", "STRASSE.csv", False, True),
        ("ﬁ.csv", "fi.csv", False, True),
        ("a.csv", "b.csv", False, False),
        ("①.csv", "1.csv", False, False),
    ],
)
def test_names_are_aliases_by_nfc_and_where_case_is_ignored_by_folding(
    one: str, other: str, sensitive: bool, insensitive: bool
) -> None:
    assert (alias_key(one, case_sensitive=True) == alias_key(other, case_sensitive=True)) is sensitive
    assert (alias_key(one, case_sensitive=False) == alias_key(other, case_sensitive=False)) is insensitive


@given(st.text(max_size=20), st.booleans())
def test_a_key_is_its_own_key(name: str, case_sensitive: bool) -> None:
    key = alias_key(name, case_sensitive=case_sensitive)
    assert alias_key(key, case_sensitive=case_sensitive) == key


def test_ascii_names_are_folded_like_all_others() -> None:
    name = "".join(map(chr, range(128)))
    assert alias_key(name, case_sensitive=False) == name.casefold()
    assert alias_key(name, case_sensitive=True) == name


@given(st.lists(st.sampled_from(["a", "A", "é", "e\u0301", "É", "E\u0301", "b"]), max_size=8), st.booleans())
def test_the_index_finds_an_alias_exactly_when_there_is_one(names: list[str], case_sensitive: bool) -> None:
    index = AliasIndex.of(names, case_sensitive=case_sensitive)
    for name in ["a", "A", "é", "e\u0301", "É", "c"]:
        key = alias_key(name, case_sensitive=case_sensitive)
        others = [other for other in names if other != name and alias_key(other, case_sensitive=case_sensitive) == key]
        assert index.other_than(name) == min(others, default=None)

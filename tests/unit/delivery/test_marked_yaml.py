"""YAML with places: what is refused, where it is said to stand, and that both parsers say it alike."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from guards.delivery.marked_yaml import (
    MOST_BYTES,
    MOST_PROBLEMS,
    Items,
    Meant,
    Problems,
    Scalar,
    Table,
    TooManyProblems,
    read_yaml,
)

pytestmark = pytest.mark.fast

LOADERS = [yaml.CSafeLoader, yaml.SafeLoader]


def said(data: bytes, loader: Any = yaml.CSafeLoader) -> list[str]:
    problems = Problems()
    read_yaml(data, problems, loader=loader)
    return [str(problem) for problem in problems.in_order()]


def test_everything_knows_its_line_and_column() -> None:
    problems = Problems()
    read = read_yaml(b"one:\n  - two\n  - 'three'\n", problems)

    assert isinstance(read, Table)
    key, value = read.pairs["one"]
    assert (key.line, key.column) == (1, 1)
    assert isinstance(value, Items)
    assert value.items == [Scalar(2, 5, "two", Meant.TEXT), Scalar(3, 5, "three", Meant.TEXT)]
    assert problems.said == []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("010", Meant.NUMBER),
        ("10:00", Meant.NUMBER),
        ("1.5", Meant.NUMBER),
        ("yes", Meant.TRUTH),
        ("~", Meant.NOTHING),
        ("2026-02-28", Meant.DATE),
        ("'yes'", Meant.TEXT),
        ("09:00", Meant.TEXT),
        ("C0123456", Meant.TEXT),
    ],
)
def test_what_safe_loader_would_make_of_it_is_kept_beside_the_text(text: str, meant: Meant) -> None:
    """The incident: `day: 010` was the eighth of the month to one program and the tenth to the next."""
    read = read_yaml(text.encode(), Problems())

    assert read == Scalar(1, 1, text.strip("'"), meant)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "line 1, column 1: the file is empty"),
        (b"# nothing\n", "line 1, column 1: the file is empty"),
        (b"a: &x 1", "line 1, column 4: an anchor (&name) is refused"),
        (b"a: &x [1]", "line 1, column 4: an anchor (&name) is refused"),
        (b"a:\n  *x\n", "line 2, column 3: an alias (*name) is refused"),
        (b"a: !!int 1", "line 1, column 4: a tag (!name) is refused"),
        (b"a: !ruby {}", "line 1, column 4: a tag (!name) is refused"),
        (b"<<: {a: 1}", "line 1, column 1: a merge key (<<) is refused"),
        (b"a: 1\nb: 2\na: 3", "line 3, column 1: the key a stands here a second time; the first is in line 1"),
        (b"[a]: 1", "line 1, column 1: a key must be a word"),
        (b"? {a: 1}\n: 2", "line 1, column 3: a key must be a word"),
        (b"--- 1\n--- 2", "line 2, column 1: a second document (---) begins here"),
        (b"[[[[[[[[[1]]]]]]]]]", "line 1, column 9: nested deeper than 8 levels"),
        (b"a:\n\tb: 1", "line 2, column 1: a tab in the indentation: YAML is indented with blanks"),
        (b"a: 1\nb: @x", "line 2, column 4: not YAML: found character"),
        (b"a: [1", "not YAML: "),
        (b"a: 'x", "not YAML: "),
        (b"%YAML 9.9\n--- a", "line 1, column 1: not YAML: found incompatible YAML document"),
        (b"a: 1\r\nb: \xff", "line 2, column 4: not UTF-8: byte 0xff cannot stand here"),
        ("ä: 1\nü: \x00".encode(), "line 2, column 4: the character U+0000 cannot stand in this file"),
        (b"a: \x1b[31m", "line 1, column 4: the character U+001B cannot stand in this file"),
        ("a: x\u2028y".encode(), "line 1, column 5: the character U+2028 cannot stand in this file"),
        (b"a: 1\rb: 2", "line 1, column 5: the character U+000D cannot stand in this file"),
        ("a: 1".encode("utf-16"), "line 1, column 1: not UTF-8: byte 0xff cannot stand here"),
    ],
)
def test_what_is_refused_is_said_with_its_place(loader: Any, data: bytes, expected: str) -> None:
    assert any(expected in sentence for sentence in said(data, loader)), said(data, loader)


def test_a_mark_at_the_beginning_and_windows_line_ends_are_no_problem() -> None:
    assert said(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n") == []


def test_an_escape_that_names_no_character_is_no_crash() -> None:
    """PyYAML's own parser ends with errors of Python's there, libyaml with an error of its own."""
    for escape in (rb'a: "\UFFFFFFFF"', rb'a: "\U00110000"'):
        for loader in LOADERS:
            assert said(escape, loader)[0].startswith("line 1")


def test_a_file_that_is_too_large_is_not_even_decoded() -> None:
    """Whoever reads the file stops one byte behind the limit, so nobody knows how many there are."""
    assert said(b"\xff" * (MOST_BYTES + 1)) == [
        f"line 1, column 1: the file has more than {MOST_BYTES:,} bytes, which are the most"
    ]


def test_no_more_is_said_than_anybody_reads() -> None:
    problems = Problems()

    with pytest.raises(TooManyProblems):
        read_yaml(b"\n".join(b"- &x 1" for _ in range(MOST_PROBLEMS + 1)), problems)
    assert len(problems.in_order()) == MOST_PROBLEMS


@given(st.one_of(st.binary(max_size=200), st.text(alphabet="ab:-[]{}&*!|>'\"%@#,?\n \t\x00\\Uu0", max_size=60).map(str.encode)))
def test_no_bytes_make_it_raise_and_silence_means_a_document(data: bytes) -> None:
    for loader in LOADERS:
        problems = Problems()
        read = read_yaml(data, problems, loader=loader)

        assert (read is not None) or problems.said
        assert all(problem.line >= 1 and problem.column >= 1 for problem in problems.said)

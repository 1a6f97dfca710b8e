"""One spelling, one digest: equal for equal values, different for any one changed field, closed for everything else."""

import hashlib
from collections import OrderedDict
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.canonical import Json, NotCanonical, canonical_json, digest

pytestmark = pytest.mark.fast

TEXT = st.text(alphabet=st.characters(codec=None), max_size=6)
"""Lone surrogates included: they are undecodable bytes of file names."""

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def test_the_spelling_is_sorted_dense_and_ascii() -> None:
    value: Json = {"b": [1, True, None], "a": "é", "B": {}}
    assert canonical_json(value) == b'{"B":{},"a":"\\u00e9","b":[1,true,null]}'
    assert digest(value) == hashlib.sha256(canonical_json(value)).hexdigest()


def test_a_lone_surrogate_keeps_its_escape_so_that_two_undecodable_names_differ() -> None:
    assert canonical_json("a\udcff.csv") == b'"a\\udcff.csv"'
    assert len({digest(name) for name in ("a\udcff", "a\udcfe", "a\ufffd", "a?", "a\\udcff")}) == 5


def _reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType(OrderedDict((key, _reordered(value[key])) for key in reversed(value)))
    return tuple(_reordered(item) for item in value) if isinstance(value, list) else value


@given(VALUES)
def test_equal_values_have_equal_bytes_however_they_were_built(value: Any) -> None:
    assert canonical_json(_reordered(value)) == canonical_json(value)


@given(VALUES, VALUES)
def test_different_values_have_different_bytes(one: Any, other: Any) -> None:
    assert (canonical_json(one) == canonical_json(other)) == (_typed(one) == _typed(other))


def _typed(value: Any) -> Any:
    """To Python `True == 1`; to JSON it is not."""
    match value:
        case dict():
            return {key: _typed(item) for key, item in value.items()}
        case list():
            return [_typed(item) for item in value]
        case _:
            return (type(value).__name__, value)


@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=5), st.data())
def test_changing_removing_or_renaming_any_one_field_changes_the_digest(fields: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(fields)))
    without = {name: item for name, item in fields.items() if name != key}
    assert digest({**fields, key: [fields[key]]}) != digest(fields)
    assert digest(without) != digest(fields)
    assert digest({**without, key + "x": fields[key]}) != digest(fields)


class Word(StrEnum):
    SEND = "send"


class Number(IntEnum):
    ONE = 1


def test_enum_members_are_spelt_as_what_they_are() -> None:
    assert canonical_json({"word": Word.SEND, "number": Number.ONE}) == canonical_json({"word": "send", "number": 1})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (1.0, "float has no canonical form"),
        (float("nan"), "float has no canonical form"),
        ({"a": [1.5]}, "float has no canonical form"),
        ({1, 2}, "set has no canonical form"),
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime has no canonical form"),
        (object(), "object has no canonical form"),
        (b"bytes", "bytes have no JSON form"),
        (bytearray(b"bytes"), "bytes have no JSON form"),
        ({1: "a"}, "a key must be text, not int"),
        ({None: "a"}, "a key must be text, not NoneType"),
        ([{("a",): 1}], "a key must be text, not tuple"),
    ],
)
def test_what_has_two_spellings_somewhere_has_none_here(value: Any, why: str) -> None:
    with pytest.raises(NotCanonical, match=f"^{why}$"):
        canonical_json(value)


class Shade(StrEnum):
    DARK = "dark"


class Size(IntEnum):
    LARGE = 3


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXT
    | st.floats()
    | st.binary(max_size=2)
    | st.sampled_from([Shade.DARK, Size.LARGE]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXT | st.integers() | st.none() | st.sampled_from([Shade.DARK]), inner, max_size=3)
        | st.dictionaries(TEXT, inner, max_size=3).map(MappingProxyType)
    ),
    max_leaves=10,
)


@given(ANYTHING)
def test_what_needs_no_copy_has_the_bytes_and_the_refusals_of_what_does(value: Any) -> None:
    """Built-in types are spelt without being copied first: a float or a number as key must not slip in that way."""

    def answer(spelt: Any) -> object:
        try:
            return canonical_json(spelt)
        except NotCanonical as refused:
            return str(refused)

    assert answer([value]) == answer((value,)), "a list is built in, a tuple is copied"

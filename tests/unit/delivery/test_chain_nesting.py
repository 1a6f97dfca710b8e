"""What is nested deeper than every reader can follow is refused before it is written."""

from dataclasses import replace

import pytest

from guards.delivery import transition
from guards.delivery.nesting import MOST_NESTED, is_too_deep
from guards.delivery.outcome import delivered
from guards.delivery.pins import NotPins, Pins
from guards.delivery.refusal import LedgerCode
from guards.delivery.row import Head, NotARow, append, parse_row
from tests.unit.delivery.entries import NOW, grant_of, sending

pytestmark = pytest.mark.fast


def nested(levels: int, *, inside: object = 1) -> dict[str, object]:
    value = inside
    for level in range(levels):
        value = {"a": value} if level % 2 or level == levels - 1 else [value]
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("inside", [1, "text", None, True])
def test_the_bound_is_counted_in_objects_and_arrays(inside):
    assert not is_too_deep(nested(MOST_NESTED, inside=inside))
    assert is_too_deep(nested(MOST_NESTED + 1, inside=inside))
    assert not is_too_deep(inside)


def test_a_hundred_thousand_levels_are_refused_without_following_them():
    assert is_too_deep(nested(100_000))


def test_pins_and_evidence_are_bounded():
    """Evidence nested as deep as the writer's stack allowed could not be read by a caller further down: the store was bricked."""
    Pins(nested(MOST_NESTED))
    with pytest.raises(NotPins):
        Pins(nested(MOST_NESTED + 1))
    held = sending()
    assert transition.settle(held, grant=grant_of(held), outcome=delivered(nested(MOST_NESTED))).refused is None
    refused = transition.settle(held, grant=grant_of(held), outcome=delivered(nested(MOST_NESTED + 1))).refused
    assert refused is not None
    assert refused.code is LedgerCode.INVALID


@pytest.mark.parametrize("field", ["receipt", "evidence", "approval"])
def test_a_stored_row_that_is_nested_deeper_is_not_one_of_ours(field):
    """An import took evidence nested 700 deep at a shallow stack; a caller further down could not open the store again."""
    held = sending()
    (entry,) = transition.settle(held, grant=grant_of(held), outcome=delivered({"x": 1})).entries
    (kept,) = append(Head(), (replace(entry, **{field: nested(MOST_NESTED)}),), at=NOW)
    assert parse_row(kept.bytes) == kept
    (deep,) = append(Head(), (replace(entry, **{field: nested(MOST_NESTED + 1)}),), at=NOW)
    with pytest.raises(NotARow, match="nested"):
        parse_row(deep.bytes)


def test_what_was_said_late_may_be_as_deep_as_what_it_says():
    held = sending()
    late = transition.settle(held, grant=replace(grant_of(held), fence=9), outcome=delivered(nested(MOST_NESTED)))
    (row,) = append(Head(), late.entries, at=NOW)
    assert parse_row(row.bytes) == row


def test_flat_rows_with_many_objects_are_rows():
    held = sending()
    ruling = transition.settle(held, grant=grant_of(held), outcome=delivered({"seen": [{} for _ in range(100)]}))
    (row,) = append(Head(), ruling.entries, at=NOW)
    assert parse_row(row.bytes) == row

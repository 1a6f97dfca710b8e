"""Which answer counts, and which plan a prefix names."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.decision import Decision, DecisionKind, choose_digest, governing
from guards.refusal import RefusalCode, Refused
from tests.unit.plans import HOUR, NOW, decision

pytestmark = pytest.mark.fast


def yes(number: int, *, at: int = 0, used: bool = False) -> Decision:
    """`at`: hours after NOW when it was given; valid for two hours."""
    given_at = NOW + at * HOUR
    return decision(number, decided_at=given_at, valid_until=given_at + 2 * HOUR, used_by="run-1" if used else "")


def no(number: int, *, at: int = 0) -> Decision:
    given_at = NOW + at * HOUR
    return decision(number, kind=DecisionKind.DECLINED, decided_at=given_at, valid_until=given_at + 2 * HOUR)


def governs(*decisions: Decision) -> int | None:
    chosen = governing(decisions)
    return None if chosen is None else chosen.decision_id


def test_no_answer_governs_nothing() -> None:
    assert governs() is None


@pytest.mark.parametrize(
    ("decisions", "number"),
    [
        ([yes(1)], 1),
        ([no(1)], 1),
        ([yes(1), yes(2)], 2),
        ([yes(1), no(2)], 2),
        ([yes(1), no(2, at=9)], 2),
        ([no(1), yes(2, at=1)], 1),
        ([no(1), yes(2, at=2)], 2),
        ([no(1), yes(2, at=3)], 2),
        ([no(1), no(2, at=5)], 2),
        ([yes(1), no(2, at=1), yes(3, at=9)], 3),
        ([yes(1, used=True)], 1),
        ([yes(1, used=True), yes(2)], 2),
        ([no(1), yes(2, at=3, used=True), yes(3, at=4)], 3),
        ([yes(1), yes(2, used=True)], 2),
        ([yes(1), yes(2, used=True), no(3)], 3),
        ([yes(1, used=True), yes(2, used=True)], 2),
        ([no(1), yes(2, at=1), yes(3, at=2)], 3),
    ],
)
def test_the_decision_that_counts(decisions: list[Decision], number: int) -> None:
    assert governs(*decisions) == number
    assert governs(*reversed(decisions)) == number, "recorded order is the number's, not the list's"


def test_a_standing_decline_beats_until_the_very_second_it_ends() -> None:
    decline = no(1)
    just_before = decision(2, decided_at=decline.valid_until - timedelta(microseconds=1), valid_until=NOW + 9 * HOUR)
    at_the_end = decision(2, decided_at=decline.valid_until, valid_until=NOW + 9 * HOUR)
    assert governs(decline, just_before) == 1
    assert governs(decline, at_the_end) == 2


some_decisions = st.lists(st.tuples(st.sampled_from(list(DecisionKind)), st.integers(0, 6), st.booleans()), max_size=6).map(
    lambda made: [
        no(number, at=at) if kind is DecisionKind.DECLINED else yes(number, at=at, used=used)
        for number, (kind, at, used) in enumerate(made, start=1)
    ]
)


@given(some_decisions, st.randoms(use_true_random=False))
def test_an_unused_approval_governs_only_when_nothing_said_since_the_last_use_beats_it(
    decisions: list[Decision], shuffle: object
) -> None:
    """The same rule, written as what must be true of an approval that counts."""
    shuffled = list(decisions)
    shuffle.shuffle(shuffled)  # type: ignore[attr-defined]
    chosen = governing(shuffled)
    assert (chosen is None) == (not decisions)
    if chosen is None or chosen.used_by or chosen.kind is DecisionKind.DECLINED:
        return
    for other in decisions:
        later = other.decision_id > chosen.decision_id
        assert not (later and other.used_by)
        assert not (later and other.kind is DecisionKind.DECLINED)
        stood = other.kind is DecisionKind.DECLINED and other.decided_at <= chosen.decided_at < other.valid_until
        used_since = any(one.used_by and other.decision_id < one.decision_id for one in decisions)
        assert not (not later and stood and not used_since)


@given(some_decisions)
def test_a_decline_after_the_last_use_always_leaves_no_earlier_approval(decisions: list[Decision]) -> None:
    last = decisions[-1] if decisions else None
    if last is not None and last.kind is DecisionKind.DECLINED:
        assert governing(decisions) == last


# -- prefixes

DIGEST = "0123456789abcdef" * 4
OTHER = "0123456789abcdee" * 4
KNOWN = [DIGEST, OTHER, "f" * 64]


@pytest.mark.parametrize("prefix", [DIGEST, DIGEST[:16], f"  {DIGEST[:16]}\n", DIGEST[:16].upper()])
def test_an_unambiguous_prefix_names_its_plan(prefix: str) -> None:
    assert choose_digest(prefix, KNOWN) == DIGEST


def test_a_plan_reported_twice_is_not_ambiguous() -> None:
    assert choose_digest("f" * 8, ["f" * 64, "f" * 64]) == "f" * 64


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("", "that is not a plan digest: 8 to 64 hex digits, as `opsguard plans` shows them"),
        ("xyz", "that is not a plan digest: 8 to 64 hex digits, as `opsguard plans` shows them"),
        (DIGEST + "0", "that is not a plan digest: 8 to 64 hex digits, as `opsguard plans` shows them"),
        ("01234567\n89", "that is not a plan digest: 8 to 64 hex digits, as `opsguard plans` shows them"),
        ("0123456", "7 digits are too few to be sure: give 8 or more of the digest"),
        ("01234567", "01234567 is ambiguous (2 plans, for example 0123456789ab, 0123456789ab): give more digits"),
        ("aaaaaaaa", "no recorded plan begins with aaaaaaaa: `opsguard plans` lists them"),
    ],
)
def test_any_other_prefix_is_refused_with_what_to_do(prefix: str, message: str) -> None:
    assert choose_digest(prefix, KNOWN) == Refused(RefusalCode.NOT_APPROVED, message)


def test_where_a_link_can_fill_in_the_form_more_digits_are_asked_for() -> None:
    assert choose_digest("f" * 12, KNOWN, fewest=12) == "f" * 64
    assert choose_digest("f" * 11, KNOWN, fewest=12) == Refused(
        RefusalCode.NOT_APPROVED, "11 digits are too few to be sure: give 12 or more of the digest"
    )


def test_at_most_three_ambiguous_plans_are_shown() -> None:
    refused = choose_digest("f" * 8, [f"{'f' * 8}{number}{'0' * 55}" for number in range(5)])
    assert isinstance(refused, Refused)
    assert "(5 plans, for example ffffffff0000, ffffffff1000, ffffffff2000)" in refused.message

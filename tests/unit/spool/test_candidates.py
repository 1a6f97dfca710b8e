"""Confirmation, second looks, places and ceilings: how a ruling becomes a target, or why it does not."""

from datetime import timedelta

import pytest

from guards.delivery.reservation import ReservationState
from guards.spool.listing import Entry, EntryType
from guards.spool.policy import SpoolPolicy
from guards.spool.questions import Questions
from guards.spool.verdict import SpoolVerdict
from tests.unit.spool.worlds import Rules, Truth, attempt, file, findings, observe, planned

pytestmark = pytest.mark.fast

MINUTE = timedelta(minutes=1)


def numbered(count: int, *, first: int = 0) -> tuple[Entry, ...]:
    """`f000.csv` is the oldest."""
    return tuple(file(f"f{number:03}.csv", age=timedelta(days=2) - number * MINUTE) for number in range(first, first + count))


def targets(truth: Truth, rules: Rules | None = None) -> list[str]:
    return [target.subject for target in planned(truth, rules).targets]


# -- confirmation by name


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (None, "Row and answer disagree: the spool's listing has it, but asked for by name it is not there."),
        (
            file("a.csv", 101),
            "Row and answer disagree: the spool's listing says 100 bytes, asked for by name it says 101 bytes. "
            "It may be changing right now.",
        ),
        (
            file("a.csv", None),
            "Row and answer disagree: the spool's listing says 100 bytes, asked for by name it says unknown size. "
            "It may be changing right now.",
        ),
        (
            file("a.csv", kind=EntryType.LINK),
            "Row and answer disagree: the spool's listing has a file, but asked for by name it is a link.",
        ),
    ],
)
def test_a_row_that_the_spools_own_answer_does_not_confirm_is_no_target(answer: Entry | None, note: str) -> None:
    """A feed called `x\\n-rw-r--r-- 1 u g 100 Mar 1 00:00 a.csv` forged the row of `a.csv` in a LIST."""
    truth = Truth(outbound=(file("a.csv"),), source_answers={"a.csv": answer})
    found = findings(truth)["a.csv"]
    assert (found.verdict, found.note) == (SpoolVerdict.LISTING_INCOMPLETE, note)
    assert targets(truth) == []


@pytest.mark.parametrize(
    ("listed", "answer", "note"),
    [
        (
            (),
            file("a.csv", 40),
            "Row and answer disagree: the partner's listing does not have it, but asked for by name there is a file of 40 bytes.",
        ),
        (
            (file("a.csv", 40),),
            None,
            "Row and answer disagree: the partner's listing has it with 40 bytes, but asked for by name it is not there.",
        ),
        (
            (file("a.csv", 40),),
            file("a.csv", 60),
            "Row and answer disagree: the partner's listing says 40 bytes, asked for by name it says 60 bytes. "
            "It may be arriving right now.",
        ),
        (
            (file("a.csv", 40),),
            file("a.csv", 40, kind=EntryType.DIRECTORY),
            "Row and answer disagree: the partner's listing has a file, asked for by name it is a directory.",
        ),
    ],
)
def test_a_partner_that_contradicts_its_own_listing_gets_nothing(
    listed: tuple[Entry, ...], answer: Entry | None, note: str
) -> None:
    truth = Truth(outbound=(file("a.csv"),), partner=listed, partner_answers={"a.csv": answer})
    found = findings(truth)["a.csv"]
    assert (found.verdict, found.note) == (SpoolVerdict.LISTING_INCOMPLETE, note)
    assert targets(truth) == []


def test_a_partner_size_that_only_the_answer_gives_is_confirmed_by_it() -> None:
    truth = Truth(outbound=(file("a.csv"),), partner=(file("a.csv", None),), partner_answers={"a.csv": file("a.csv", 40)})
    [target] = planned(truth).targets
    assert target.as_json()["partner"]["size_bytes"] == 40  # type: ignore[index,call-overload]


def test_before_its_own_answer_a_candidate_is_not_confirmed() -> None:
    [found] = Rules().judge(Truth(outbound=(file("a.csv"),)).listed())
    assert found.verdict is SpoolVerdict.LISTING_INCOMPLETE
    assert found.note == (
        "Not confirmed by the servers' own answers yet. By the listings: "
        "The partner has no copy; ours is 6 h 12 min old (limit 1 h)."
    )
    assert Rules().plan(Truth(outbound=(file("a.csv"),)).listed()).targets == ()


def test_a_candidate_takes_the_time_of_the_spools_own_answer() -> None:
    """LIST gives minutes, MDTM seconds: the requirement must be what the next question by name will answer."""
    exact = file("a.csv", age=timedelta(hours=6, seconds=7))
    truth = Truth(outbound=(file("a.csv", age=timedelta(hours=6)),), source_answers={"a.csv": exact})
    [target] = planned(truth).targets
    assert target.as_json()["modified_at"] == exact.modified_at.isoformat()  # type: ignore[union-attr]


# -- which questions are asked


def test_only_candidates_are_asked_about() -> None:
    truth = Truth(
        outbound=(
            file("ok.csv"),
            file("late.csv"),
            file("short.csv"),
            file("young.csv", age=MINUTE),
            file("kept.csv"),
            file("big.csv", 10),
            file("x.xml"),
        ),
        partner=(file("ok.csv"), file("short.csv", 1), file("big.csv", 11)),
        archive=(file("kept.csv"),),
    )
    _, [first, second] = observe(truth, Rules())
    asked = frozenset({"late.csv", "short.csv"})
    assert first == Questions(confirm_source=asked, confirm_partner=asked)
    assert second == Questions(hash_source=asked)
    assert first
    assert not Questions()


def test_short_copies_are_looked_at_twice_in_the_first_round_and_only_they() -> None:
    truth = Truth(outbound=(file("late.csv"), file("short.csv")), partner=(file("short.csv", 1),))
    _, [first, second] = observe(truth, Rules(policy=SpoolPolicy(stable_seconds=1)))
    assert first.second_look == {"short.csv"}
    assert not second.second_look


def test_in_checksum_mode_both_copies_of_equal_size_are_hashed_and_confirmed_only_if_they_may_be_archived() -> None:
    truth = Truth(outbound=(file("a.csv"), file("b.csv")), partner=(file("a.csv"), file("b.csv", 7)))
    just_a, just_b = frozenset({"a.csv"}), frozenset({"b.csv"})
    checksum = SpoolPolicy(verify_delivered="checksum")
    _, [first, second] = observe(truth, Rules(policy=checksum))
    assert first == Questions(confirm_source=just_b, confirm_partner=just_b, hash_source=just_a, hash_partner=just_a)
    assert second == Questions(hash_source=just_b)
    _, [first, _] = observe(truth, Rules(policy=checksum.model_copy(update={"archive_delivered": True})))
    assert first.confirm_source == first.confirm_partner == just_a | just_b


def test_names_that_the_ledger_knows_are_hashed_and_confirmed_first() -> None:
    known = {"a.csv": (attempt(ReservationState.DELIVERED, content="a.csv"),)}
    just_a = frozenset({"a.csv"})
    _, [first] = observe(Truth(outbound=(file("a.csv"),), attempts=known), Rules())
    assert first == Questions(confirm_source=just_a, confirm_partner=just_a, hash_source=just_a)
    _, [first, second] = observe(
        Truth(outbound=(file("a.csv"),), partner=(file("a.csv"),), attempts=known),
        Rules(policy=SpoolPolicy(verify_delivered="checksum")),
    )
    assert first == Questions(confirm_source=just_a, confirm_partner=just_a, hash_source=just_a)
    assert second == Questions(hash_partner=just_a), "which bytes are ours decides first whether the partner's are of interest"


def test_in_an_incomplete_observation_no_candidate_is_asked_about() -> None:
    truth = Truth(outbound=(file("a.csv"), file("b.csv")), partner=(file("b.csv", 1),), partner_incomplete="cut")
    assert observe(truth, Rules())[1] == []


def test_a_spool_of_many_missing_feeds_is_asked_about_few_of_them() -> None:
    _, rounds = observe(Truth(outbound=numbered(500)), Rules())
    assert [len(one.confirm_source) for one in rounds] == [19, 0]
    assert [len(one.confirm_partner) for one in rounds] == [19, 0]
    assert rounds[1].hash_source == {"f000.csv", "f001.csv", "f002.csv"}


def test_when_too_few_of_the_window_hold_all_the_rest_is_asked_once() -> None:
    lying = {entry.name: None for entry in numbered(17)}
    truth = Truth(outbound=numbered(60), source_answers=lying)
    world, rounds = observe(truth, Rules())
    assert [len(one.confirm_source) for one in rounds] == [19, 41, 0]
    assert [target.subject for target in Rules().plan(world).targets] == ["f017.csv", "f018.csv", "f019.csv"]


def test_a_few_that_disagree_cost_no_second_round() -> None:
    truth = Truth(outbound=numbered(60), source_answers={entry.name: None for entry in numbered(16)})
    world, rounds = observe(truth, Rules())
    assert [len(one.confirm_source) for one in rounds] == [19, 0]
    assert [target.subject for target in Rules().plan(world).targets] == ["f016.csv", "f017.csv", "f018.csv"]


# -- places and ceilings


def test_the_oldest_take_the_places_and_the_others_wait_for_the_next_run() -> None:
    truth = Truth(outbound=tuple(reversed(numbered(5))))
    assert targets(truth) == ["f000.csv", "f001.csv", "f002.csv"]
    found = findings(truth)
    assert [one.verdict for one in found.values()] == [SpoolVerdict.MISSING] * 3 + [SpoolVerdict.OVER_CEILING] * 2
    assert found["f003.csv"].note == (
        "The partner has no copy; ours is 1 d 23 h old (limit 1 h). "
        "It is beyond the 3 feeds of one plan (max_files_per_run), the oldest first: the next run's."
    )
    assert found["f003.csv"].facts["would_be"] == "missing"
    assert "action" not in found["f003.csv"].facts
    assert not planned(truth).findings[3].verdict.is_repairable


def test_feeds_of_one_age_take_their_places_by_name() -> None:
    assert targets(Truth(outbound=(file("d.csv"), file("b.csv"), file("c.csv"), file("a.csv")))) == ["a.csv", "b.csv", "c.csv"]


def test_the_ceiling_counts_sending_resolving_and_archiving_together() -> None:
    outbound = numbered(4)
    truth = Truth(
        outbound=outbound,
        partner=(file("f001.csv", 1),),
        attempts={
            "f000.csv": (attempt(ReservationState.UNKNOWN, content="f000.csv"),),
            "f003.csv": (attempt(ReservationState.DELIVERED, content="f003.csv"),),
        },
    )
    plan = planned(truth, Rules(consumes_on_arrival=True))
    assert [(one.subject, one.action) for one in plan.targets] == [
        ("f000.csv", "resolve"),
        ("f001.csv", "send"),
        ("f002.csv", "send"),
    ]
    kept = {one.subject: one for one in plan.findings}["f003.csv"]
    assert kept.verdict is SpoolVerdict.DELIVERED_CONSUMED, "it is delivered, so it is no gap: only its archiving waits"
    assert kept.note.endswith(
        "Archiving it is beyond the 3 feeds of one plan (max_files_per_run), the oldest first: the next run's."
    )
    assert "action" not in kept.facts


def test_gaps_come_before_archiving_alone_however_old_that_is() -> None:
    outbound = (*numbered(3), file("new.csv"))
    truth = Truth(
        outbound=outbound,
        partner=numbered(3),
        attempts={one.name: (attempt(ReservationState.DELIVERED, content=one.name),) for one in numbered(3)},
    )
    assert targets(truth) == ["f000.csv", "f001.csv", "new.csv"], "in the plan the oldest are first again"


def test_with_a_ceiling_of_one_the_sentence_is_singular() -> None:
    found = findings(Truth(outbound=numbered(2)), Rules(policy=SpoolPolicy(max_files_per_run=1)))
    assert "beyond the 1 feed of one plan" in found["f001.csv"].note


def test_a_disagreeing_candidate_takes_no_place_even_beyond_the_ceiling() -> None:
    truth = Truth(outbound=numbered(5), source_answers={"f000.csv": None, "f004.csv": None})
    assert targets(truth) == ["f001.csv", "f002.csv", "f003.csv"]
    assert findings(truth)["f004.csv"].verdict is SpoolVerdict.LISTING_INCOMPLETE


def test_a_feed_that_cannot_be_read_takes_no_place() -> None:
    """Three files that the producer wrote as root were the oldest for a week, and nothing behind them was ever sent."""
    truth = Truth(outbound=numbered(6), source_content={"f000.csv": "", "f001.csv": ""})
    world, rounds = observe(truth, Rules())
    assert [len(one.hash_source) for one in rounds] == [0, 3, 3]
    assert targets(truth) == ["f002.csv", "f003.csv", "f004.csv"]
    found = {one.subject: one for one in Rules().judge(world)}
    assert found["f000.csv"].verdict is SpoolVerdict.MISSING
    assert found["f000.csv"].note.endswith(
        "(limit 1 h). The spool's copy could not be read to take its SHA-256, so no plan holds it."
    )
    assert "action" not in found["f000.csv"].facts
    assert found["f005.csv"].verdict is SpoolVerdict.OVER_CEILING


def test_nobody_beyond_twice_the_ceiling_is_hashed_in_place_of_one_that_cannot_be_read() -> None:
    truth = Truth(outbound=numbered(9), source_content={f"f00{number}.csv": "" for number in range(5)})
    world, rounds = observe(truth, Rules())
    assert [len(one.hash_source) for one in rounds] == [0, 3, 3]
    assert [target.subject for target in Rules().plan(world).targets] == ["f005.csv"]
    assert {one.subject: one for one in Rules().judge(world)}["f006.csv"].verdict is SpoolVerdict.OVER_CEILING


def test_a_candidate_that_was_not_hashed_holds_its_place_but_is_no_target() -> None:
    truth = Truth(outbound=numbered(4))
    world = truth.answer(truth.listed(), Rules().questions(truth.listed()))
    plan = Rules().plan(world)
    assert plan.targets == ()
    assert [one.verdict for one in plan.findings] == [SpoolVerdict.MISSING] * 3 + [SpoolVerdict.OVER_CEILING]
    assert "action" not in plan.findings[0].facts


def test_an_unconfirmed_candidate_behind_full_places_is_simply_over_the_ceiling() -> None:
    truth = Truth(outbound=numbered(40))
    plan = planned(truth)
    assert plan.counts == {"missing": 3, "over_ceiling": 37}

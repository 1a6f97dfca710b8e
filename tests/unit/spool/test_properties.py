"""Whatever the three servers hold and answer: one finding per entry, in any order, and nothing concluded from what was not seen."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guards.delivery.reservation import ReservationState
from guards.requirement import mismatches
from guards.spool.listing import Entry, EntryType, Listing, TimeSource
from guards.spool.policy import SpoolPolicy
from guards.spool.verdict import SpoolVerdict
from tests.unit.spool.worlds import NOW, Rules, Truth, attempt, observe

pytestmark = pytest.mark.fast

RESTS_ON_ABSENCE = {
    SpoolVerdict.MISSING,
    SpoolVerdict.SHORT_DELIVERY,
    SpoolVerdict.SHORT_GROWING,
    SpoolVerdict.DELIVERED_CONSUMED,
    SpoolVerdict.POSSIBLE_ALIAS,
    SpoolVerdict.OVER_CEILING,
}

NAMES = [
    *(f"f{number}.csv" for number in range(12)),
    "F1.CSV",
    "F2.csv",
    "\N{KELVIN SIGN}.csv",
    "K.csv",
    "f1.csv.part",
    "f2.csv.lock",
    ".part",
    "x.xml",
    "-rf.csv",
    "..",
    "a\n.csv",
    "a\udcff.csv",
    "a\u202e.csv",
]
SIZES = st.sampled_from([None, 0, 1, 50, 100, 100, 100, 101, 65 * 1_048_576])
AGES = st.sampled_from([None, -timedelta(hours=1), timedelta(0), timedelta(minutes=59), timedelta(hours=6), timedelta(days=3)])


@st.composite
def entries(draw: st.DrawFn, name: str) -> Entry:
    age = draw(AGES)
    return Entry(
        name=name,
        type=draw(st.sampled_from([EntryType.FILE] * 5 + list(EntryType))),
        size_bytes=draw(SIZES),
        modified_at=None if age is None else NOW - age,
        time_source=TimeSource.NONE if age is None else TimeSource.MLSD,
    )


@st.composite
def directories(draw: st.DrawFn, *, most: int = 12) -> tuple[Entry, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=most))
    return tuple(draw(entries(name)) for name in names)


def answers(listed: tuple[Entry, ...]) -> st.SearchStrategy[dict[str, Entry | None]]:
    """Some names answered otherwise than they were listed: changed, gone, or there all along."""
    names = [*(entry.name for entry in listed), "f0.csv", "f1.csv", "f3.csv"]
    return st.dictionaries(st.sampled_from(names), st.none() | st.just("f1.csv").flatmap(entries), max_size=3)


@st.composite
def truths(draw: st.DrawFn, *, cut: bool = False) -> Truth:
    outbound, partner, archive = draw(directories(most=16)), draw(directories()), draw(directories(most=2))
    sometimes = st.sampled_from(NAMES)
    contents = st.dictionaries(sometimes, st.sampled_from(["", "other"]), max_size=3)
    attempts = draw(
        st.dictionaries(
            sometimes,
            st.lists(st.tuples(st.sampled_from(list(ReservationState)), st.booleans(), st.booleans()), max_size=3),
            max_size=6,
        )
    )
    incomplete = draw(st.lists(st.sampled_from(["outbound", "archive", "partner"]), min_size=1)) if cut else []
    return Truth(
        outbound=outbound,
        partner=partner,
        archive=archive,
        source_answers=draw(answers(outbound)),
        partner_answers=draw(answers(partner)),
        second_answers=draw(answers(partner)),
        source_content=draw(contents),
        partner_content=draw(contents),
        first_seen={name: NOW - age for name, age in draw(st.dictionaries(sometimes, AGES)).items() if age is not None},
        attempts={
            name: tuple(attempt(state, content=name if same else "other", live=live) for state, same, live in made)
            for name, made in attempts.items()
        },
        outbound_incomplete="cut" if "outbound" in incomplete else "",
        archive_incomplete="cut" if "archive" in incomplete else "",
        partner_incomplete="cut" if "partner" in incomplete else "",
    )


rules = st.builds(
    Rules,
    policy=st.builds(
        SpoolPolicy,
        max_files_per_run=st.integers(1, 4),
        stable_seconds=st.sampled_from([0, 5]),
        verify_delivered=st.sampled_from(["size", "checksum"]),
        archive_delivered=st.booleans(),
        sla_minutes=st.sampled_from([0, 60]),
    ),
    consumes_on_arrival=st.booleans(),
    case_sensitive=st.booleans(),
)
thorough = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@thorough
@given(truths(), rules)
def test_every_entry_gets_one_finding_and_the_questions_end(truth: Truth, by: Rules) -> None:
    world, _ = observe(truth, by)
    for seen in (truth.listed(), world):
        found = by.judge(seen)
        assert sorted(one.subject for one in found) == sorted(entry.name for entry in truth.outbound)
        assert all(one.note.endswith(".") and "\n" not in one.note for one in found)


@thorough
@given(truths(), rules, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(truth: Truth, by: Rules, shuffle: random.Random) -> None:
    def shuffled(rows: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return tuple(shuffle.sample(rows, len(rows)))

    world, rounds = observe(truth, by)
    other = replace(truth, outbound=shuffled(truth.outbound), partner=shuffled(truth.partner), archive=shuffled(truth.archive))
    again, rounds_again = observe(other, by)
    assert rounds_again == rounds
    assert by.judge(again) == by.judge(world)
    assert by.plan(again).digest == by.plan(world).digest


@thorough
@given(truths(cut=True), rules)
def test_an_incomplete_listing_gives_no_verdict_that_rests_on_absence_and_no_target(truth: Truth, by: Rules) -> None:
    world, _ = observe(truth, by)
    plan = by.plan(world)
    assert plan.observation
    assert plan.targets == ()
    for found in plan.findings:
        assert found.verdict not in RESTS_ON_ABSENCE
        if found.verdict is SpoolVerdict.LOST_AFTER_DELIVERY:
            assert world.partner.get(found.subject) is not None


@thorough
@given(truths(), rules)
def test_every_target_is_confirmed_within_the_ceiling_and_meets_its_own_requirements(truth: Truth, by: Rules) -> None:
    world, _ = observe(truth, by)
    plan = by.plan(world)
    verdicts = {found.subject: found.verdict for found in plan.findings}
    assert len(plan.targets) <= by.policy.max_files_per_run
    assert len({one.subject for one in plan.targets}) == len(plan.targets)
    assert mismatches(plan.targets, world) == ()
    for one in plan.targets:
        assert verdicts[one.subject].is_repairable
        assert one.as_json()["sha256"] == world.source_sha256[one.subject] != ""


@thorough
@given(truths(), rules)
def test_bytes_that_the_ledger_proves_or_doubts_are_never_planned_to_be_sent(truth: Truth, by: Rules) -> None:
    world, _ = observe(truth, by)
    for one in by.plan(world).targets:
        if one.action == "send":
            same = [made for made in world.attempts.get(one.subject, ()) if made.sha256 == world.source_sha256[one.subject]]
            assert not any(made.state.is_proven_sent or made.state.is_unresolved for made in same)


@thorough
@given(truths(), rules)
def test_what_was_planned_is_not_planned_again_after_it_arrived(truth: Truth, by: Rules) -> None:
    """A second run after success is a no-op."""
    world, _ = observe(truth, by)
    done = {one.subject: one for one in by.plan(world).targets if one.action == "send"}
    after = replace(
        truth,
        outbound=tuple(entry for entry in truth.outbound if entry.name not in done),
        archive=(*truth.archive, *(entry for entry in truth.outbound if entry.name in done)),
    )
    assert not done.keys() & {one.subject for one in by.plan(observe(after, by)[0]).targets}


def test_thousands_of_look_alikes_are_judged_without_a_detour() -> None:
    """Linear in the listings: names that all fold together are the worst case of the alias index."""
    rows = tuple(
        Entry(
            "".join(letter.upper() if number >> bit & 1 else letter for bit, letter in enumerate("abcdefghijklm")) + ".csv",
            size_bytes=1,
        )
        for number in range(5_000)
    )
    world = replace(Truth().listed(), outbound=Listing("/o", rows), partner=Listing("/i", rows[:1]))
    world = replace(
        world, first_seen={row.name: NOW - timedelta(days=1) for row in rows}, source_confirmed={row.name: row for row in rows}
    )
    counts = Rules(case_sensitive=False).plan(world).counts
    assert counts == {"possible_alias": 4_999, "delivered_size_only": 1}

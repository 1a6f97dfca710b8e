"""What became of an attempt that nobody finished: every combination of traces, against a predicate written another way."""

from itertools import product

import pytest

from guards.spool.resolution import FinalName, Resolution, Traces, resolve

pytestmark = pytest.mark.fast

ALL = [
    Traces(placing_intended=intended, in_place=in_place, temp_present=temp, taken_if_absent=taken, final=final)
    for intended, in_place, temp, taken, final in product((False, True), (False, True), (False, True), (False, True), FinalName)
]


def expected(traces: Traces) -> Resolution:
    untouched = not traces.placing_intended
    not_renamed = traces.temp_present and not traces.in_place
    kept = traces.final is FinalName.AS_BEFORE
    cut = traces.in_place and traces.final is FinalName.PARTIAL
    taken = traces.taken_if_absent and traces.final is FinalName.ABSENT
    if traces.final is FinalName.EQUAL or (taken and not untouched and not not_renamed):
        return Resolution.SENT
    return Resolution.NOT_SENT if untouched or not_renamed or kept or cut else Resolution.CANNOT_TELL


@pytest.mark.parametrize("traces", ALL, ids=str)
def test_every_combination_of_traces_is_resolved(traces: Traces) -> None:
    assert resolve(traces).resolution is expected(traces)


def test_only_the_bytes_or_a_confirmed_rename_at_a_partner_that_takes_files_away_prove_that_it_was_sent() -> None:
    """Guessing "sent" loses a feed; guessing "not sent" sends it twice."""
    sent = [traces for traces in ALL if resolve(traces).resolution is Resolution.SENT]
    assert {traces.final for traces in sent} == {FinalName.EQUAL, FinalName.ABSENT}
    absent = [traces for traces in sent if traces.final is FinalName.ABSENT]
    assert all(traces.taken_if_absent and traces.placing_intended for traces in absent)
    assert not any(traces.temp_present and not traces.in_place for traces in absent)


def test_a_feed_that_is_gone_after_its_rename_was_only_asked_for_is_left_to_a_person() -> None:
    gone = Traces(placing_intended=True, in_place=False, temp_present=False, taken_if_absent=False, final=FinalName.ABSENT)
    assert resolve(gone).resolution is Resolution.CANNOT_TELL
    assert resolve(gone).why.endswith("Ask the partner, then record the answer: opsguard ledger resolve")


def test_each_reason_is_its_own_sentence() -> None:
    assert len({resolve(traces).why for traces in ALL}) == 7

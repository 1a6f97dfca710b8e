"""Sweeping is a plan of its own. The incident: a tidy-up job removed `*.part` at a partner, and with it somebody else's upload."""

import pytest

from guards.requirement import mismatches
from guards.spool.sweeping import GUARD, SweepTarget, TempUnchanged, sweep_plan

pytestmark = pytest.mark.fast


def left(temp: str, size: int | None = 10) -> SweepTarget:
    return SweepTarget(temp=temp, feed="stock.csv", run_id="run-1", held_bytes=size)


def test_the_digest_does_not_depend_on_the_order_of_looking() -> None:
    first, second = left(".a.1.part"), left(".b.1.part")

    assert (
        sweep_plan([first, second], watch="acme", scope={}).digest == sweep_plan([second, first], watch="acme", scope={}).digest
    )


def test_it_is_no_plan_of_guard_spool_and_writes_nothing() -> None:
    plan = sweep_plan([left(".a.1.part")], watch="acme", scope={})

    assert plan.guard == GUARD == "spool_sweep"
    assert (plan.outstanding_bytes, plan.targets[0].subject, plan.targets[0].action) == (0, ".a.1.part", "remove")


@pytest.mark.parametrize("size", [10, None])
def test_a_copy_that_is_as_it_was_may_go(size: int | None) -> None:
    assert mismatches([left(".a.1.part", size)], {".a.1.part": size}) == ()


def test_a_copy_that_grew_is_being_written_and_stays() -> None:
    (found,) = mismatches([left(".a.1.part", None)], {".a.1.part": 1500})

    assert found.sentence() == ".a.1.part: expected a copy of unknown size, found a copy of 1,500 bytes"


def test_a_copy_that_is_gone_makes_the_plan_stale() -> None:
    (found,) = mismatches([left(".a.1.part")], {})

    assert found.sentence() == ".a.1.part: expected a copy of 10 bytes, found nothing"


def test_everything_that_is_compared_is_signed() -> None:
    assert TempUnchanged(".a.1.part", 10).as_json() == {"temp": ".a.1.part", "size_bytes": 10}
    assert left(".a.1.part", 10).as_json()["size_bytes"] == 10

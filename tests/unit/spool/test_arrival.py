"""What the arrival sensor remembers: it wakes for a deliverable file that is new or changed, and for nothing else."""

from datetime import timedelta

import pytest

from guards.spool.arrival import MOST_REMEMBERED, Arrivals, arrivals
from guards.spool.listing import Entry, EntryType, Listing
from guards.spool.policy import SpoolPolicy
from tests.unit.spool.worlds import file

pytestmark = pytest.mark.fast


def seen(*entries: Entry, incomplete: str = "", policy: SpoolPolicy | None = None) -> Arrivals:
    return arrivals(Listing("/outbound", entries, incomplete), policy=policy or SpoolPolicy())


def test_an_unchanged_spool_in_another_order_is_no_news() -> None:
    one, other = file("a.csv"), file("b.csv", 7)
    assert seen(one, other) == seen(other, one)
    assert seen(one, other).known == tuple(sorted(seen(one, other).entries.values()))


@pytest.mark.parametrize(
    "changed", [file("b.csv"), file("a.csv", 101), file("a.csv", None), file("a.csv", age=timedelta()), file("a.csv", age=None)]
)
def test_another_name_size_or_time_is_news(changed: Entry) -> None:
    before, after = seen(file("a.csv")), seen(changed)
    assert after.digest != before.digest
    assert not set(after.known) & set(before.known)
    assert [len(version) for version in after.known] == [16]


@pytest.mark.parametrize(
    "entry",
    [
        file("a.csv.part"),
        file("x.xml"),
        file("a\n.csv"),
        file("a.csv", kind=EntryType.DIRECTORY),
        file("a.csv", kind=EntryType.LINK),
    ],
)
def test_what_cannot_be_delivered_wakes_nobody(entry: Entry) -> None:
    anything = SpoolPolicy(deliverable_pattern=r"(?s).*\.csv(\.part)?")
    assert seen(entry, policy=anything) == seen(policy=anything)


def test_a_spool_too_large_to_remember_is_still_noticed_by_its_digest() -> None:
    at_most = seen(*(file(f"f{number}.csv") for number in range(MOST_REMEMBERED)))
    beyond = seen(*(file(f"f{number}.csv") for number in range(MOST_REMEMBERED + 1)))
    assert len(at_most.known) == MOST_REMEMBERED
    assert beyond.known == ()
    assert beyond.digest != at_most.digest


def test_an_incomplete_listing_says_so() -> None:
    assert seen(incomplete="cut").incomplete == "cut"

"""What must still hold at write time. Each test changes exactly one fact of a world in which everything holds."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from guards.requirement import Mismatch, mismatches
from guards.spool.listing import Entry, EntryType, Listing
from guards.spool.requirements import ArchiveNameFree, NoWriterMarker, PartnerStateUnchanged, SourceUnchanged
from guards.spool.world import PartnerCopy, SpoolWorld
from tests.unit.spool.test_planning import target
from tests.unit.spool.worlds import LATE, NOW, file, sha

pytestmark = pytest.mark.fast

WORLD = SpoolWorld(
    observed_at=NOW,
    outbound=Listing("/outbound", (file("a.csv"),)),
    archive=Listing("/archive", (file("b.csv"),)),
    partner=Listing("/inbox", (file("a.csv", 50),)),
    source_confirmed={"a.csv": file("a.csv")},
    partner_confirmed={"a.csv": file("a.csv", 50)},
    source_sha256={"a.csv": sha("a.csv")},
)
SOURCE = SourceUnchanged(name="a.csv", size_bytes=100, modified_at=NOW - LATE, sha256=sha("a.csv"))
WRITER = NoWriterMarker(name="a.csv", suffixes=(".part", ".lock"))
FREE = ArchiveNameFree(name="a.csv")
PARTNER = PartnerStateUnchanged(name="a.csv", expected=PartnerCopy(size_bytes=50, modified_at=NOW - LATE))
NOBODY = PartnerStateUnchanged(name="a.csv", expected=None)


def seen(**changes: Any) -> SpoolWorld:
    return replace(WORLD, **changes)


def test_an_unchanged_world_meets_every_requirement() -> None:
    assert mismatches([target()], WORLD) == ()


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"source_confirmed": {}}, "no answer: it was not asked about by name"),
        ({"source_confirmed": {"a.csv": None}}, "nothing of this name"),
        ({"source_confirmed": {"a.csv": file("a.csv", 101)}}, "a file of 101 bytes, modified 2026-03-01 23:18:00 UTC"),
        ({"source_confirmed": {"a.csv": file("a.csv", None)}}, "a file of unknown size, modified 2026-03-01 23:18:00 UTC"),
        (
            {"source_confirmed": {"a.csv": file("a.csv", age=timedelta())}},
            "a file of 100 bytes, modified 2026-03-02 05:30:00 UTC",
        ),
        ({"source_confirmed": {"a.csv": file("a.csv", age=None)}}, "a file of 100 bytes, modified at an unknown time"),
        (
            {"source_confirmed": {"a.csv": file("a.csv", kind=EntryType.LINK)}},
            "a link of 100 bytes, modified 2026-03-01 23:18:00 UTC",
        ),
        ({"source_sha256": {"a.csv": "f" * 64}}, "other bytes: SHA-256 ffffffffffff"),
        ({"source_sha256": {"a.csv": ""}}, "other bytes: SHA-256 unreadable"),
    ],
)
def test_a_changed_source_is_named_with_what_was_expected(changes: dict[str, Any], found: str) -> None:
    assert SOURCE.check(seen(**changes)) == Mismatch(
        "a.csv", f"a file of 100 bytes, modified 2026-03-01 23:18:00 UTC, SHA-256 {sha('a.csv')[:12]} in the spool", found
    )


def test_a_source_that_was_not_hashed_again_is_proven_while_it_is_sent() -> None:
    assert SOURCE.check(seen(source_sha256={})) is None


def test_a_source_whose_server_gives_no_time_is_compared_by_size_and_bytes() -> None:
    timeless = replace(SOURCE, modified_at=None)
    assert timeless.check(seen(source_confirmed={"a.csv": file("a.csv", age=None)})) is None
    mismatch = timeless.check(WORLD)
    assert mismatch is not None
    assert "modified at an unknown time" in mismatch.expected


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"outbound": Listing("/outbound", (file("a.csv"), file("a.csv.lock")))}, "the marker .lock"),
        ({"source_confirmed": {"a.csv.part": file("a.csv.part")}}, "the marker .part"),
        ({"outbound": Listing("/outbound", (file("a.csv"),), "cut")}, "an incomplete listing: cut"),
    ],
)
def test_a_writer_that_came_back_stops_the_target(changes: dict[str, Any], found: str) -> None:
    assert WRITER.check(seen(**changes)) == Mismatch("a.csv", "no writer's marker beside it", found)


def test_markers_that_are_provably_absent_or_of_other_feeds_do_not_matter() -> None:
    others = Listing("/outbound", (file("b.csv.part"), file("a.csv.tmp")))
    assert WRITER.check(seen(outbound=others, source_confirmed={"a.csv.part": None})) is None


@pytest.mark.parametrize(
    ("archive", "found"),
    [
        (Listing("/archive", (file("a.csv", 3),)), "a file of 3 bytes, modified 2026-03-01 23:18:00 UTC"),
        (Listing("/archive", (), "cut"), "an incomplete listing: cut"),
    ],
)
def test_a_name_taken_in_the_archive_stops_the_target(archive: Listing, found: str) -> None:
    assert FREE.check(seen(archive=archive)) == Mismatch("a.csv", "a free name in the archive", found)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (None, "nothing of this name"),
        (file("a.csv", 51), "a file of 51 bytes, modified 2026-03-01 23:18:00 UTC"),
        (file("a.csv", 50, age=timedelta()), "a file of 50 bytes, modified 2026-03-02 05:30:00 UTC"),
        (file("a.csv", 50, kind=EntryType.LINK), "a link of 50 bytes, modified 2026-03-01 23:18:00 UTC"),
    ],
)
def test_a_partner_that_moved_on_stops_the_target(answer: Entry | None, found: str) -> None:
    wanted = "a file of 50 bytes, modified 2026-03-01 23:18:00 UTC at the partner"
    assert PARTNER.check(seen(partner_confirmed={"a.csv": answer})) == Mismatch("a.csv", wanted, found)
    assert PARTNER.compare(answer) == Mismatch("a.csv", wanted, found)


def test_a_partner_that_was_not_asked_is_never_taken_as_unchanged() -> None:
    unasked = seen(partner_confirmed={})
    for requirement in (PARTNER, NOBODY):
        mismatch = requirement.check(unasked)
        assert mismatch is not None
        assert mismatch.found == "no answer: it was not asked about by name"


def test_a_feed_that_arrived_meanwhile_stops_the_sending_of_it() -> None:
    assert NOBODY.check(seen(partner_confirmed={"a.csv": None})) is None
    assert NOBODY.check(WORLD) == Mismatch(
        "a.csv", "no copy at the partner", "a file of 50 bytes, modified 2026-03-01 23:18:00 UTC"
    )


def test_requirements_say_in_json_all_that_they_compare() -> None:
    assert [dict(one.as_json()) for one in (SOURCE, WRITER, FREE, PARTNER, NOBODY)] == [
        {
            "requires": "source_unchanged",
            "name": "a.csv",
            "size_bytes": 100,
            "modified_at": "2026-03-01T23:18:00+00:00",
            "sha256": sha("a.csv"),
        },
        {"requires": "no_writer_marker", "name": "a.csv", "suffixes": [".part", ".lock"]},
        {"requires": "archive_name_free", "name": "a.csv"},
        {
            "requires": "partner_state_unchanged",
            "name": "a.csv",
            "partner": {"size_bytes": 50, "modified_at": "2026-03-01T23:18:00+00:00"},
        },
        {"requires": "partner_state_unchanged", "name": "a.csv", "partner": None},
    ]
    assert replace(SOURCE, modified_at=None).as_json()["modified_at"] is None
    unknown = replace(PARTNER, expected=PartnerCopy(None, None))
    assert unknown.as_json()["partner"] == {"size_bytes": None, "modified_at": None}

"""The small words of the spool guard: verdict answers, listings, policy bounds, sizes and ages."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from guards.spool.listing import Entry, Listing
from guards.spool.notes import count, duration, size
from guards.spool.policy import SpoolPolicy
from guards.spool.verdict import SpoolVerdict
from guards.spool.world import SpoolWorld
from tests.unit.spool.worlds import NOW, file

pytestmark = pytest.mark.fast

_NOTHING, _GAP, _PERSON, _REPAIR, _TIDY = (
    (False, False, False),
    (True, False, False),
    (True, False, True),
    (True, True, False),
    (False, True, False),
)
TABLE = {
    "writer_marker": _NOTHING,
    "name_unsafe": _PERSON,
    "type_unexpected": _PERSON,
    "not_deliverable": _NOTHING,
    "writer_active": _NOTHING,
    "writer_stuck": _PERSON,
    "empty_source": _PERSON,
    "too_large": _PERSON,
    "date_unknown": _PERSON,
    "clock_skew": _PERSON,
    "within_sla": _NOTHING,
    "delivery_unknown": _REPAIR,
    "already_archived": _PERSON,
    "delivered_consumed": _TIDY,
    "lost_after_delivery": _PERSON,
    "missing": _REPAIR,
    "short_growing": _NOTHING,
    "short_delivery": _REPAIR,
    "diverged": _PERSON,
    "content_mismatch": _PERSON,
    "possible_alias": _PERSON,
    "delivered_verified": _TIDY,
    "delivered_size_only": _NOTHING,
    "over_ceiling": _GAP,
    "listing_incomplete": _GAP,
}


def test_every_verdict_answers_as_the_table_says_and_is_named_in_its_order() -> None:
    assert {one.value: (one.is_gap, one.is_repairable, one.needs_person) for one in SpoolVerdict} == TABLE
    assert [one.value for one in SpoolVerdict] == list(TABLE)


def test_what_needs_a_person_is_a_gap_and_never_repaired() -> None:
    assert all(one.is_gap and not one.is_repairable for one in SpoolVerdict if one.needs_person)


def test_a_listing_finds_rows_by_exact_name_and_says_whether_absence_counts() -> None:
    listing = Listing("/inbox", (file("a.csv"), file("b.csv")))
    assert listing.get("a.csv") == file("a.csv")
    assert listing.get("A.csv") is None
    assert [entry.name for entry in listing] == ["a.csv", "b.csv"]
    assert len(listing) == 2
    assert listing.is_complete
    assert not Listing("/inbox", (), "cut").is_complete


def test_a_world_names_its_first_incomplete_listing() -> None:
    whole, cut = Listing("/x"), Listing("/x", (), "cut")

    def incomplete(outbound: Listing, archive: Listing, partner: Listing) -> str:
        return SpoolWorld(observed_at=NOW, outbound=outbound, archive=archive, partner=partner).incomplete

    assert incomplete(whole, whole, whole) == ""
    assert incomplete(cut, cut, cut) == "outbound spool: cut"
    assert incomplete(whole, cut, cut) == "archive: cut"
    assert incomplete(whole, whole, cut) == "partner inbox: cut"


def test_an_entry_is_unknown_until_the_server_says() -> None:
    assert (Entry("a.csv").size_bytes, Entry("a.csv").modified_at) == (None, None)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (22_320, "6 h 12 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (-300, "5 min"),
    ],
)
def test_durations_are_short_and_exact(seconds: int, shown: str) -> None:
    assert duration(timedelta(seconds=seconds)) == shown


def test_sizes_and_counts_are_words() -> None:
    assert [size(number) for number in (None, 0, 1, 2, 1_234_567)] == [
        "unknown size",
        "0 bytes",
        "1 byte",
        "2 bytes",
        "1,234,567 bytes",
    ]
    assert [count(number, "feed") for number in (0, 1, 2, 1000)] == ["0 feeds", "1 feed", "2 feeds", "1,000 feeds"]
    assert count(2, "entry", "entries") == "2 entries"


def test_the_policys_defaults_are_the_specs() -> None:
    assert SpoolPolicy().as_json() == {
        "deliverable_pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]*\.(csv|edi|dat)$",
        "in_progress_suffixes": [".part", ".lock", ".tmp", ".writing"],
        "sla_minutes": 60,
        "max_files_per_run": 3,
        "max_file_megabytes": 64,
        "listing_limit": 100_000,
        "writer_stuck_minutes": 1440,
        "stable_seconds": 0,
        "verify_delivered": "size",
        "archive_delivered": False,
        "approval_timeout_minutes": 720,
        "max_parallel_files": 1,
    }


@pytest.mark.parametrize(
    ("field", "allowed", "refused"),
    [
        ("sla_minutes", (0, 525_600), (-1, 525_601, "60", 1.5, True)),
        ("max_files_per_run", (1, 1000), (0, 1001)),
        ("max_file_megabytes", (1, 1_048_576), (0, 1_048_577)),
        ("listing_limit", (1, 10_000_000), (0, 10_000_001)),
        ("writer_stuck_minutes", (1, 525_600), (0, 525_601)),
        ("stable_seconds", (0, 600), (-1, 601)),
        ("approval_timeout_minutes", (1, 525_600), (0, 525_601)),
        ("max_parallel_files", (1, 4), (0, 5)),
        ("verify_delivered", ("size", "checksum"), ("md5", "")),
        ("deliverable_pattern", (".", "a" * 500), ("", "a" * 501, "(", "[")),
        (
            "in_progress_suffixes",
            ((".x",), [".x", ".y"], ("x" * 50,)),
            ((), [], ("",), [".x", ""], ("x" * 51,), "x", (".x",) * 51),
        ),
        ("archive_delivered", (True, False), (1, "yes")),
    ],
)
def test_every_policy_field_has_bounds(field: str, allowed: tuple[object, ...], refused: tuple[object, ...]) -> None:
    for value in allowed:
        SpoolPolicy.model_validate({field: value})
    for value in refused:
        with pytest.raises(ValidationError):
            SpoolPolicy.model_validate({field: value})


def test_unknown_policy_fields_are_refused_and_a_policy_does_not_change() -> None:
    with pytest.raises(ValidationError):
        SpoolPolicy.model_validate({"sla_minute": 60})
    with pytest.raises(ValidationError):
        SpoolPolicy().sla_minutes = 1  # type: ignore[misc]


def test_a_policy_comes_back_from_its_json() -> None:
    policy = SpoolPolicy(in_progress_suffixes=(".busy",), sla_minutes=5, verify_delivered="checksum")
    assert SpoolPolicy.model_validate(policy.as_json()) == policy

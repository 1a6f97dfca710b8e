"""The checks after the writes: each on a world where it passes, and with exactly one fact wrong."""

from datetime import timedelta
from typing import Any

import pytest

from guards.check import CheckOutcome, Severity
from guards.spool.checks import (
    complete,
    feeds_present,
    final_audit,
    partner_bytes_match,
    sources_archived,
    sources_left_spool,
    untargeted_untouched,
)
from guards.spool.listing import Entry, EntryType, Listing
from tests.unit.spool.test_planning import target
from tests.unit.spool.worlds import file, sha

pytestmark = pytest.mark.fast

A, B = target(name="a.csv"), target(name="b.csv", sha256=sha("b.csv"))
LOOK = "Uploaded but not confirmed: look at the inbox by hand before the next run."


def inbox(*entries: Entry, incomplete: str = "") -> Listing:
    return Listing("/inbox", entries, incomplete)


def failed(outcome: CheckOutcome, severity: Severity = Severity.ERROR) -> str:
    assert not outcome.passed
    assert outcome.severity is severity
    return outcome.message


def passed(outcome: CheckOutcome) -> str:
    assert outcome.passed
    return outcome.message


def test_complete_says_how_many_rows_or_why_not() -> None:
    assert complete(inbox(file("a.csv"))) == CheckOutcome("complete", True, "All 1 row of the directory were seen.")
    assert failed(complete(inbox(incomplete="cut after 1,000 rows"))) == (
        "cut after 1,000 rows. Nothing is called missing and nothing is planned until a complete listing is seen."
    )


BOTH = frozenset({"a.csv", "b.csv"})


# -- bytes


def test_the_partners_bytes_match_by_size_and_digest() -> None:
    outcome = partner_bytes_match(A, found_size_bytes=100, found_sha256=sha("a.csv"))
    assert outcome.name == "partner_bytes_match"
    assert passed(outcome) == "'a.csv': the partner's 100 bytes have the planned SHA-256."


@pytest.mark.parametrize(
    ("size_bytes", "sha256", "found"),
    [
        (99, sha("a.csv"), f"99 bytes with SHA-256 {sha('a.csv')[:12]}"),
        (100, "f" * 64, "100 bytes with SHA-256 ffffffffffff"),
        (None, None, "unknown size with no SHA-256"),
        (100, None, "100 bytes with no SHA-256"),
        (None, sha("a.csv"), f"unknown size with SHA-256 {sha('a.csv')[:12]}"),
    ],
)
def test_other_bytes_at_the_partner_fail(size_bytes: int | None, sha256: str | None, found: str) -> None:
    assert failed(partner_bytes_match(A, found_size_bytes=size_bytes, found_sha256=sha256)) == (
        f"'a.csv': planned 100 bytes with SHA-256 {sha('a.csv')[:12]}, the partner has {found}. {LOOK}"
    )


# -- feeds present


def test_feeds_are_present_in_full_or_consumed() -> None:
    both = inbox(file("a.csv"), file("b.csv"))
    outcome = feeds_present([A, B], delivered=BOTH, partner=both, consumes_on_arrival=False)
    assert outcome.name == "feeds_present"
    assert passed(outcome) == "2 feeds at the partner in full size."
    assert passed(feeds_present([A, B], delivered=BOTH, partner=inbox(file("a.csv")), consumes_on_arrival=True)) == (
        "2 feeds at the partner in full size, 1 of them taken away by the partner."
    )


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ((), "not there"),
        ((file("a.csv", 99),), "99 bytes"),
        ((file("a.csv", None),), "unknown size"),
        ((file("a.csv", 100, kind=EntryType.DIRECTORY),), "a directory"),
    ],
)
def test_a_feed_that_is_not_there_in_full_fails(found: tuple[Entry, ...], shown: str) -> None:
    assert failed(feeds_present([A], delivered=BOTH, partner=inbox(*found), consumes_on_arrival=False)) == (
        f"1 of 1 feed not there in full: 'a.csv' ({shown}, planned 100 bytes). {LOOK}"
    )


def test_a_short_copy_at_a_consuming_partner_is_still_short() -> None:
    assert "99 bytes" in failed(feeds_present([A], delivered=BOTH, partner=inbox(file("a.csv", 99)), consumes_on_arrival=True))


def test_a_listing_that_may_be_cut_proves_no_presence_check() -> None:
    cut = inbox(file("a.csv"), incomplete="cut")
    assert failed(feeds_present([A], delivered=BOTH, partner=cut, consumes_on_arrival=True)) == (
        f"The partner's inbox could not be seen completely (cut). {LOOK}"
    )
    assert "completely (cut)" in failed(sources_left_spool([A], outbound=cut))
    assert "completely (cut)" in failed(
        sources_archived([A], archive=cut, archived_as={}, archive_sha256={"a.csv": sha("a.csv")})
    )
    for before, after in ((cut, inbox()), (inbox(), cut)):
        outcome = untargeted_untouched([A], before=before, after=after, consumes_on_arrival=True)
        assert "completely (cut)" in failed(outcome)


# -- sources


def test_sources_left_the_spool() -> None:
    outcome = sources_left_spool([A, B], outbound=Listing("/outbound", (file("c.csv"),)))
    assert outcome.name == "sources_left_spool"
    assert passed(outcome) == "2 sources left the spool."


def test_a_source_that_is_still_in_the_spool_fails() -> None:
    outcome = sources_left_spool([A, B], outbound=Listing("/outbound", (file("a.csv"), file("b.csv", 7))))
    assert failed(outcome) == "1 of 2 sources still in the spool: 'a.csv'. Report again."


@pytest.mark.parametrize("newer", [file("a.csv", 7), file("a.csv", age=timedelta())])
def test_a_source_that_changed_after_sending_was_rightly_left(newer: Entry) -> None:
    outcome = sources_left_spool([A], outbound=Listing("/outbound", (newer,)))
    assert failed(outcome, Severity.WARN) == (
        "1 source changed after sending and left in the spool: 'a.csv'. The next report judges it anew."
    )


def archived(**changes: Any) -> CheckOutcome:
    facts: dict[str, Any] = {
        "archive": Listing("/archive", (file("a.csv.20260302.aaaaaaaa"), file("b.csv"))),
        "archived_as": {"a.csv": "a.csv.20260302.aaaaaaaa"},
        "archive_sha256": {"a.csv.20260302.aaaaaaaa": sha("a.csv"), "b.csv": sha("b.csv")},
    }
    return sources_archived([A, B], **{**facts, **changes})


def test_sources_are_in_the_archive_under_the_name_they_got() -> None:
    assert archived().name == "sources_archived"
    assert passed(archived()) == "2 sources in the archive, size and SHA-256 as planned."


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"archived_as": {}}, "'a.csv' (not there, planned 100 bytes)"),
        ({"archive": Listing("/archive", (file("a.csv.20260302.aaaaaaaa", 1), file("b.csv")))}, "'a.csv' (1 byte, planned"),
        (
            {"archive": Listing("/archive", (file("a.csv.20260302.aaaaaaaa", kind=EntryType.LINK), file("b.csv")))},
            "'a.csv' (a link, planned",
        ),
        ({"archive_sha256": {"b.csv": sha("b.csv")}}, "'a.csv' (other bytes or not hashed)"),
        ({"archive_sha256": {"a.csv.20260302.aaaaaaaa": "f" * 64, "b.csv": sha("b.csv")}}, "'a.csv' (other bytes or not hashed)"),
    ],
)
def test_a_source_that_is_not_proven_in_the_archive_fails(changes: dict[str, Any], wrong: str) -> None:
    message = failed(archived(**changes))
    assert message.startswith(f"1 of 2 sources not proven in the archive: {wrong}")
    assert message.endswith("Look at the archive by hand.")


# -- what no plan held


def untouched(*after: Entry, consumes: bool = False, ours: frozenset[str] = frozenset()) -> CheckOutcome:
    before = inbox(file("a.csv", 50), file("x.csv", 1), file("y.csv", None))
    return untargeted_untouched([A], before=before, after=inbox(*after), consumes_on_arrival=consumes, ours=ours)


def test_other_partner_files_are_as_before_whatever_came_and_whatever_the_plan_replaced() -> None:
    outcome = untouched(file("a.csv", 100), file("x.csv", 1, age=timedelta()), file("y.csv", None), file("new.csv"))
    assert outcome.name == "untargeted_untouched"
    assert passed(outcome) == "2 partner files that no plan held: all as before."


def test_a_changed_file_that_no_plan_held_fails_whoever_did_it() -> None:
    for consumes in (False, True):
        assert failed(untouched(file("x.csv", 2), file("y.csv", None), consumes=consumes)) == (
            "1 changed and 0 vanished of 2 partner files that no plan held: 'x.csv' (1 byte, now 2 bytes). "
            "Ask the partner who did it before the next run."
        )
    assert "now a link" in failed(untouched(file("x.csv", 1, kind=EntryType.LINK), file("y.csv", None)))


def test_a_vanished_file_fails_unless_the_partner_takes_files_away() -> None:
    assert "0 changed and 1 vanished of 2 partner files that no plan held: 'y.csv'." in failed(untouched(file("x.csv", 1)))
    assert failed(untouched(file("x.csv", 1), consumes=True), Severity.WARN) == (
        "1 of 2 partner files vanished meanwhile: 'y.csv'. This partner takes files away."
    )


def test_our_own_stale_temporary_names_may_go() -> None:
    assert passed(untouched(file("x.csv", 1), ours=frozenset({"y.csv"}))) == "1 partner file that no plan held: all as before."


def test_many_names_are_cut_and_hostile_ones_quoted() -> None:
    before = inbox(*(file(f"x{number}\n.csv") for number in range(8)))
    outcome = untargeted_untouched([], before=before, after=inbox(), consumes_on_arrival=False)
    assert "'x4\\n.csv' and 3 more. Ask" in failed(outcome)
    assert "\n" not in outcome.message
    five = untargeted_untouched([], before=inbox(*before.entries[:5]), after=inbox(), consumes_on_arrival=False)
    assert "'x4\\n.csv'. Ask" in failed(five)


# -- the final audit

BOTH = {"a.csv": sha("a.csv"), "b.csv": sha("b.csv")}


def test_the_final_audit_hashes_both_sides_once_more() -> None:
    outcome = final_audit([A, B], archive_sha256=BOTH, partner_sha256=BOTH, consumed=frozenset())
    assert outcome.name == "final_audit"
    assert passed(outcome) == "2 feeds hashed once more: archive and partner as planned."
    consumed = final_audit([A, B], archive_sha256=BOTH, partner_sha256={"b.csv": sha("b.csv")}, consumed=frozenset({"a.csv"}))
    assert passed(consumed) == (
        "2 feeds hashed once more: archive and partner as planned (1 taken away by the partner: the archive's alone)."
    )


@pytest.mark.parametrize(
    ("archive", "partner", "sides"),
    [
        ({**BOTH, "a.csv": "f" * 64}, BOTH, "archive"),
        ({"b.csv": sha("b.csv")}, BOTH, "archive"),
        (BOTH, {**BOTH, "a.csv": "f" * 64}, "partner"),
        (BOTH, {"b.csv": sha("b.csv")}, "partner"),
        ({**BOTH, "a.csv": ""}, {**BOTH, "a.csv": ""}, "archive and partner"),
    ],
)
def test_other_bytes_on_either_side_fail_the_audit(archive: dict[str, str], partner: dict[str, str], sides: str) -> None:
    assert failed(final_audit([A, B], archive_sha256=archive, partner_sha256=partner, consumed=frozenset())) == (
        f"1 of 2 feeds with other bytes than planned, or none: 'a.csv' ({sides}). {LOOK}"
    )


def test_a_consumed_feed_still_needs_its_archived_source() -> None:
    outcome = final_audit([A], archive_sha256={}, partner_sha256={}, consumed=frozenset({"a.csv"}))
    assert "'a.csv' (archive)" in failed(outcome)


def test_absence_of_what_was_never_delivered_is_no_consumption() -> None:
    """A failed send to a partner that takes files away must not pass as taken."""
    message = failed(feeds_present([A, B], delivered=frozenset({"a.csv"}), partner=inbox(), consumes_on_arrival=True))
    assert message == (
        "1 of 2 feeds not delivered, or in doubt: 'b.csv' (not there, planned 100 bytes). "
        "The decision says what became of each; report again."
    )

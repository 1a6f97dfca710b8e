"""Every row of the verdict table, from a world that the questions were really asked of."""

from datetime import timedelta

import pytest

from guards.delivery.reservation import ReservationState
from guards.spool.listing import EntryType
from guards.spool.policy import SpoolPolicy
from guards.spool.verdict import SpoolVerdict
from tests.unit.spool.worlds import LATE, NOW, Rules, Truth, attempt, file, findings, planned

pytestmark = pytest.mark.fast

MEGABYTE = 1_048_576
CONSUMES = Rules(consumes_on_arrival=True)
CHECKSUM = Rules(policy=SpoolPolicy(verify_delivered="checksum"))
ARCHIVING = Rules(policy=SpoolPolicy(verify_delivered="checksum", archive_delivered=True))


def only(truth: Truth, rules: Rules | None = None) -> tuple[SpoolVerdict, str]:
    """Verdict and note of `a.csv`."""
    found = findings(truth, rules)["a.csv"]
    assert isinstance(found.verdict, SpoolVerdict)
    return found.verdict, found.note


def action(truth: Truth, rules: Rules | None = None) -> str:
    """What the plan would do about `a.csv`; "" when it holds no target for it."""
    return {target.subject: target.action for target in planned(truth, rules).targets}.get("a.csv", "")


# -- names, types, writers


@pytest.mark.parametrize("suffix", [".part", ".lock", ".tmp", ".writing"])
def test_a_name_with_an_in_progress_ending_is_a_writers_marker(suffix: str) -> None:
    found = findings(Truth(outbound=(file(f"a.csv{suffix}"),)))[f"a.csv{suffix}"]
    assert found.verdict is SpoolVerdict.WRITER_MARKER
    assert found.note == "A writer's marker, not a feed: its ending says that something is being written."


def test_a_markers_ending_wins_over_an_unsafe_name() -> None:
    """First match wins: row 1 before row 2."""
    assert findings(Truth(outbound=(file("a\n.part"),)))["a\n.part"].verdict is SpoolVerdict.WRITER_MARKER


def test_an_unsafe_name_says_what_is_unsafe_about_it() -> None:
    name = "a.csv\n-rw-r--r-- 1 forged.csv"
    found = findings(Truth(outbound=(file(name),)))[name]
    assert found.verdict is SpoolVerdict.NAME_UNSAFE
    assert found.note == "The name has a control character (U+000A). Nothing is done to it: rename or remove it by hand."


@pytest.mark.parametrize("kind", [EntryType.DIRECTORY, EntryType.LINK, EntryType.OTHER])
def test_a_directory_or_link_with_a_feeds_name_is_for_a_person(kind: EntryType) -> None:
    verdict, note = only(Truth(outbound=(file("a.csv", kind=kind),)))
    assert verdict is SpoolVerdict.TYPE_UNEXPECTED
    assert note == f"It has a feed's name but is a {kind.value}, not a file: look who made it."


@pytest.mark.parametrize("name", ["a.xml", ".a.csv", "-a.csv", "a.csv.gz", "README", "a b.csv", "a.CSV"])
def test_what_does_not_fully_match_is_not_deliverable(name: str) -> None:
    found = findings(Truth(outbound=(file(name),)))[name]
    assert found.verdict is SpoolVerdict.NOT_DELIVERABLE
    assert found.note == "Not a feed: the name does not match the deliverable pattern."


def test_a_directory_without_a_feeds_name_is_only_not_deliverable() -> None:
    assert findings(Truth(outbound=(file("done", kind=EntryType.DIRECTORY),)))["done"].verdict is SpoolVerdict.NOT_DELIVERABLE


def test_a_feed_with_a_marker_beside_it_is_still_being_written() -> None:
    verdict, note = only(Truth(outbound=(file("a.csv"), file("a.csv.part", age=timedelta(minutes=3)))))
    assert verdict is SpoolVerdict.WRITER_ACTIVE
    assert note == "It is still being written: marker .part, there for 3 min."


def test_a_marker_older_than_the_limit_means_a_dead_producer() -> None:
    truth = Truth(outbound=(file("a.csv"), file("a.csv.lock", age=timedelta(hours=25)), file("a.csv.part", age=timedelta())))
    verdict, note = only(truth)
    assert verdict is SpoolVerdict.WRITER_STUCK
    assert note == (
        "The writer's marker .lock and .part has been there for 1 d 1 h (limit 1 d): the producer probably died. "
        "Find out whether the feed is whole, then remove the marker."
    )


def test_a_marker_is_stuck_only_beyond_the_limit() -> None:
    at_limit = Truth(outbound=(file("a.csv"), file("a.csv.part", age=timedelta(minutes=1440))))
    beyond = Truth(outbound=(file("a.csv"), file("a.csv.part", age=timedelta(minutes=1440, seconds=1))))
    assert only(at_limit)[0] is SpoolVerdict.WRITER_ACTIVE
    assert only(beyond)[0] is SpoolVerdict.WRITER_STUCK


def test_a_marker_without_a_time_is_judged_by_when_it_was_first_seen() -> None:
    outbound = (file("a.csv"), file("a.csv.part", age=None))
    verdict, note = only(Truth(outbound=outbound))
    assert (verdict, note) == (SpoolVerdict.WRITER_ACTIVE, "It is still being written: marker .part.")
    assert only(Truth(outbound=outbound, first_seen={"a.csv.part": NOW - timedelta(days=2)}))[0] is SpoolVerdict.WRITER_STUCK


def test_a_markers_own_time_counts_however_long_ago_its_name_was_first_seen() -> None:
    """A nightly feed under one name has had a marker of that name every night."""
    outbound = (file("a.csv"), file("a.csv.part", age=timedelta(minutes=1)))
    truth = Truth(outbound=outbound, first_seen={"a.csv.part": NOW - timedelta(days=200)})
    assert only(truth)[0] is SpoolVerdict.WRITER_ACTIVE


def test_a_marker_from_the_future_is_young() -> None:
    verdict, note = only(Truth(outbound=(file("a.csv"), file("a.csv.part", age=-timedelta(hours=2)))))
    assert (verdict, note) == (SpoolVerdict.WRITER_ACTIVE, "It is still being written: marker .part, there for 0 s.")


# -- size and time


def test_an_empty_feed_is_a_producer_that_aborted() -> None:
    verdict, note = only(Truth(outbound=(file("a.csv", 0),)))
    assert verdict is SpoolVerdict.EMPTY_SOURCE
    assert note == "It is empty (0 bytes): the producer aborted. Have it made again."


def test_the_size_ceiling_is_inclusive() -> None:
    assert only(Truth(outbound=(file("a.csv", 64 * MEGABYTE),)))[0] is SpoolVerdict.MISSING
    verdict, note = only(Truth(outbound=(file("a.csv", 64 * MEGABYTE + 1),)))
    assert verdict is SpoolVerdict.TOO_LARGE
    assert note == (
        "It has 67,108,865 bytes, more than the limit of 67,108,864 bytes: raise max_file_megabytes or send it by hand."
    )


def test_an_unknown_size_is_asked_for_and_never_zero() -> None:
    listed = file("a.csv", None)
    answered = Truth(outbound=(listed,), source_answers={"a.csv": file("a.csv", 100)})
    assert only(answered)[0] is SpoolVerdict.MISSING
    verdict, note = only(Truth(outbound=(listed,)))
    assert verdict is SpoolVerdict.LISTING_INCOMPLETE
    assert note == "The spool would not say how large it is, and unknown is not zero."


def test_no_time_and_no_earlier_observation_leaves_the_age_unknown() -> None:
    verdict, note = only(Truth(outbound=(file("a.csv", age=None),)))
    assert verdict is SpoolVerdict.DATE_UNKNOWN
    assert note == "The spool gives no time for it and no earlier report saw it, so its age is unknown."


def test_a_missing_time_is_asked_for_before_it_is_called_unknown() -> None:
    truth = Truth(outbound=(file("a.csv", age=None),), source_answers={"a.csv": file("a.csv")})
    assert only(truth)[0] is SpoolVerdict.MISSING


def test_a_time_that_was_not_asked_for_yet_concludes_nothing() -> None:
    [found] = Rules().judge(Truth(outbound=(file("a.csv", age=None),)).listed())
    assert found.verdict is SpoolVerdict.LISTING_INCOMPLETE
    assert found.note == "The listing gives no time, and the spool was not asked for it."


def test_without_a_time_the_first_sight_of_ours_gives_the_age() -> None:
    outbound = (file("a.csv", age=None),)
    seen = lambda ago: Truth(outbound=outbound, first_seen={"a.csv": NOW - ago})  # noqa: E731
    assert only(seen(timedelta(minutes=59)))[0] is SpoolVerdict.WITHIN_SLA
    assert only(seen(timedelta(minutes=61)))[0] is SpoolVerdict.MISSING


def test_an_older_first_sight_makes_a_feed_older_and_a_younger_one_does_not_make_it_younger() -> None:
    touched = Truth(outbound=(file("a.csv", age=timedelta(minutes=1)),), first_seen={"a.csv": NOW - LATE})
    assert only(touched)[1] == "The partner has no copy; ours is 6 h 12 min old (limit 1 h)."
    assert only(Truth(outbound=(file("a.csv"),), first_seen={"a.csv": NOW}))[0] is SpoolVerdict.MISSING


def test_a_time_more_than_five_minutes_in_the_future_is_clock_skew() -> None:
    allowed = Truth(outbound=(file("a.csv", age=-timedelta(minutes=5)),))
    assert only(allowed)[0] is SpoolVerdict.WITHIN_SLA
    verdict, note = only(Truth(outbound=(file("a.csv", age=-timedelta(minutes=5, seconds=1)),)))
    assert verdict is SpoolVerdict.CLOCK_SKEW
    assert note == "Its time is 5 min in the future (allowed 5 min): the spool server's clock or time zone is wrong."


def test_clock_skew_is_seen_even_when_the_name_was_seen_before() -> None:
    truth = Truth(outbound=(file("a.csv", age=-timedelta(hours=9)),), first_seen={"a.csv": NOW - LATE})
    assert only(truth)[0] is SpoolVerdict.CLOCK_SKEW


def test_a_feed_is_late_from_the_minute_of_its_sla() -> None:
    verdict, note = only(Truth(outbound=(file("a.csv", age=timedelta(minutes=59, seconds=59)),)))
    assert (verdict, note) == (SpoolVerdict.WITHIN_SLA, "It is 59 min old and not late before 1 h.")
    assert only(Truth(outbound=(file("a.csv", age=timedelta(minutes=60)),)))[0] is SpoolVerdict.MISSING


def test_with_an_sla_of_zero_everything_is_late_at_once() -> None:
    rules = Rules(policy=SpoolPolicy(sla_minutes=0))
    assert only(Truth(outbound=(file("a.csv", age=-timedelta(minutes=1)),)), rules)[0] is SpoolVerdict.MISSING


# -- the ledger


@pytest.mark.parametrize("state", [ReservationState.SENDING, ReservationState.UNKNOWN])
def test_an_unresolved_attempt_of_these_bytes_is_resolved_by_observing(state: ReservationState) -> None:
    truth = Truth(outbound=(file("a.csv"),), attempts={"a.csv": (attempt(state, content="a.csv"),)})
    found = findings(truth)["a.csv"]
    assert found.verdict is SpoolVerdict.DELIVERY_UNKNOWN
    assert found.note == (
        "An attempt to send exactly these bytes began 3 h ago and was neither proven nor disproven: "
        "what the partner holds will decide, nothing is sent blindly."
    )
    assert found.facts["reservation_id"] == f"r-{state.value}"
    assert found.facts["ledger_state"] == state.value
    assert found.facts["action"] == "resolve"
    assert action(truth) == "resolve"


def test_a_live_attempt_is_left_to_the_run_that_makes_it() -> None:
    live = attempt(ReservationState.SENDING, content="a.csv", ago=timedelta(seconds=20), live=True)
    truth = Truth(outbound=(file("a.csv"),), attempts={"a.csv": (live,)})
    found = findings(truth)["a.csv"]
    assert found.verdict is SpoolVerdict.DELIVERY_UNKNOWN
    assert found.note == "A run is sending it right now (since 20 s): report again when it has ended."
    assert found.facts["reservation_id"] == "r-sending"
    assert found.facts["ledger_state"] == "sending"
    assert action(truth) == ""


def test_doubt_about_a_name_that_is_a_directory_at_the_partner_is_not_resolved_by_a_plan() -> None:
    """No observation of a directory proves bytes, and its requirement could never hold."""
    truth = Truth(
        outbound=(file("a.csv"),),
        partner=(file("a.csv", kind=EntryType.DIRECTORY),),
        attempts={"a.csv": (attempt(ReservationState.UNKNOWN, content="a.csv"),)},
    )
    assert only(truth) == (
        SpoolVerdict.DELIVERY_UNKNOWN,
        "An attempt to send exactly these bytes began 3 h ago and was neither proven nor disproven, and the partner holds a directory "
        "of this name: clear that up with the partner, then report again.",
    )
    assert findings(truth)["a.csv"].facts["reservation_id"] == "r-unknown"
    assert action(truth) == ""


def test_the_newest_unresolved_attempt_of_these_bytes_counts() -> None:
    attempts = (
        attempt(ReservationState.UNKNOWN, content="a.csv", ago=timedelta(hours=9)),
        attempt(ReservationState.SENDING, content="a.csv", ago=timedelta(hours=1), live=True),
        attempt(ReservationState.UNKNOWN, content="older bytes", ago=timedelta(minutes=1)),
    )
    assert "right now (since 1 h)" in only(Truth(outbound=(file("a.csv"),), attempts={"a.csv": attempts}))[1]


def test_an_unresolved_attempt_of_other_bytes_does_not_hold_up_these() -> None:
    truth = Truth(outbound=(file("a.csv"),), attempts={"a.csv": (attempt(ReservationState.UNKNOWN, content="yesterday's"),)})
    assert only(truth)[0] is SpoolVerdict.MISSING
    assert action(truth) == "send"


@pytest.mark.parametrize(
    "state",
    [
        ReservationState.PREPARED,
        ReservationState.KNOWN_FAILURE,
        ReservationState.ABANDONED,
        ReservationState.RESOLVED_NOT_SENT,
    ],
)
def test_an_attempt_that_provably_sent_nothing_does_not_matter(state: ReservationState) -> None:
    truth = Truth(outbound=(file("a.csv"),), attempts={"a.csv": (attempt(state, content="a.csv"),)})
    assert only(truth)[0] is SpoolVerdict.MISSING


def test_without_our_hash_the_ledger_cannot_be_compared_and_nothing_is_concluded() -> None:
    truth = Truth(
        outbound=(file("a.csv"),),
        attempts={"a.csv": (attempt(ReservationState.DELIVERED, content="a.csv"),)},
        source_content={"a.csv": ""},
    )
    verdict, note = only(truth)
    assert verdict is SpoolVerdict.LISTING_INCOMPLETE
    assert note == "The ledger holds an attempt to send this name, and ours was not hashed to tell if it is the same."
    assert action(truth) == ""


# -- the archive


@pytest.mark.parametrize(
    ("archived", "compared"),
    [
        (file("a.csv", 100), "of the same size (100 bytes)"),
        (file("a.csv", 7), "of a different size (7 bytes, ours has 100 bytes)"),
        (file("a.csv", None), "a file of unknown size"),
        (file("a.csv", 100, kind=EntryType.DIRECTORY), "a directory of 100 bytes"),
    ],
)
def test_a_name_that_the_archive_holds_is_for_a_person(archived: object, compared: str) -> None:
    truth = Truth(outbound=(file("a.csv"),), archive=(archived,))  # type: ignore[arg-type]
    verdict, note = only(truth)
    assert verdict is SpoolVerdict.ALREADY_ARCHIVED
    assert note == f"The archive already holds this name, {compared}: made twice, or put back. Decide which one counts."
    assert findings(truth)["a.csv"].facts["archived_size_bytes"] == archived.size_bytes  # type: ignore[attr-defined]


def test_doubt_in_the_ledger_comes_before_a_taken_archive_name() -> None:
    truth = Truth(
        outbound=(file("a.csv"),),
        archive=(file("a.csv"),),
        attempts={"a.csv": (attempt(ReservationState.UNKNOWN, content="a.csv"),)},
    )
    assert only(truth)[0] is SpoolVerdict.DELIVERY_UNKNOWN
    assert action(truth) == "resolve"


# -- absent at the partner


def test_a_feed_without_a_copy_at_the_partner_is_missing_and_sent() -> None:
    truth = Truth(outbound=(file("a.csv"),), partner=(file("b.csv"),))
    assert only(truth) == (SpoolVerdict.MISSING, "The partner has no copy; ours is 6 h 12 min old (limit 1 h).")
    assert action(truth) == "send"


def test_where_every_feed_is_late_at_once_no_limit_is_spoken_of() -> None:
    """ "(limit 0 s)" made people look for a setting that was wrong."""
    truth = Truth(outbound=(file("a.csv"),), partner=(file("b.csv"),))
    assert only(truth, Rules(policy=SpoolPolicy(sla_minutes=0)))[1] == "The partner has no copy; ours is 6 h 12 min old."


@pytest.mark.parametrize(
    ("state", "how"),
    [
        (ReservationState.DELIVERED, "by us"),
        (ReservationState.SENT_AUDITED, "by us"),
        (ReservationState.RESOLVED_SENT, "by a person's resolution"),
    ],
)
def test_what_the_ledger_proves_is_taken_at_a_consuming_partner_and_lost_at_any_other(state: ReservationState, how: str) -> None:
    """Sending it again would be the one thing that must never happen: the same bytes twice to one partner."""
    truth = Truth(outbound=(file("a.csv"),), attempts={"a.csv": (attempt(state, content="a.csv"),)})
    proof = f"he ledger proves that exactly these bytes were delivered {how} 3 h ago"
    assert only(truth, CONSUMES) == (
        SpoolVerdict.DELIVERED_CONSUMED,
        f"The partner has taken it: t{proof}, and this partner takes files away. Only the archiving is left.",
    )
    assert action(truth, CONSUMES) == "archive"
    assert only(truth) == (
        SpoolVerdict.LOST_AFTER_DELIVERY,
        f"T{proof}, but the partner has no copy any more, and it is not known to take files away. "
        "It is never sent twice: ask the partner.",
    )
    assert action(truth) == ""


def test_at_a_consuming_partner_absence_without_proof_is_missing() -> None:
    """The hand-off job's own deliveries are not in our ledger: the approver is told what this absence does not prove."""
    verdict, note = only(Truth(outbound=(file("a.csv"),)), CONSUMES)[:2]
    assert verdict is SpoolVerdict.MISSING
    assert "Ask the partner before you approve" in note
    assert "Ask the partner" not in only(Truth(outbound=(file("a.csv"),)))[1]


def test_proof_of_other_bytes_proves_nothing_for_these() -> None:
    truth = Truth(outbound=(file("a.csv"),), attempts={"a.csv": (attempt(ReservationState.DELIVERED, content="yesterday's"),)})
    assert only(truth, CONSUMES)[0] is SpoolVerdict.MISSING


def test_a_name_equal_after_normalising_may_be_the_feed_renamed() -> None:
    kelvin = "\N{KELVIN SIGN}.csv"
    found = findings(Truth(outbound=(file("K.csv"),), partner=(file(kelvin),)))["K.csv"]
    assert found.verdict is SpoolVerdict.POSSIBLE_ALIAS
    assert found.note == (
        "The partner has no copy under this exact name, but one whose name is equal after normalising: it may be this feed, renamed."
    )
    assert found.facts["alias"] == kelvin


def test_case_folding_counts_only_where_the_partner_ignores_case() -> None:
    truth = Truth(outbound=(file("a.csv"),), partner=(file("A.CSV"),))
    assert only(truth)[0] is SpoolVerdict.MISSING
    assert only(truth, Rules(case_sensitive=False))[0] is SpoolVerdict.POSSIBLE_ALIAS
    assert action(truth, Rules(case_sensitive=False)) == ""


def test_two_feeds_that_the_partner_cannot_tell_apart_are_not_sent_over_each_other() -> None:
    truth = Truth(outbound=(file("a.csv"), file("A.csv")))
    found = findings(truth, Rules(case_sensitive=False))
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(("a.csv", "A.csv"), SpoolVerdict.POSSIBLE_ALIAS)
    assert found["a.csv"].facts["alias"] == "A.csv"
    assert found["a.csv"].note == (
        "The partner has no copy, but the spool holds another feed whose name the partner cannot tell from this one: "
        "one would overwrite the other."
    )
    assert len(planned(truth).targets) == 2, "a partner that tells them apart gets both"


# -- a copy at the partner


def test_a_smaller_copy_at_the_partner_is_short_and_replaced_as_planned() -> None:
    truth = Truth(outbound=(file("a.csv", 1500),), partner=(file("a.csv", 500),))
    assert only(truth) == (
        SpoolVerdict.SHORT_DELIVERY,
        "The partner's copy has 500 bytes, ours 1,500 bytes: 1,000 bytes short; ours is 6 h 12 min old (limit 1 h). "
        "The partner may already have processed the short copy.",
    )
    [target] = planned(truth).targets
    assert target.as_json()["partner"] == {"size_bytes": 500, "modified_at": (NOW - LATE).isoformat()}


def test_a_short_copy_of_zero_bytes_is_short() -> None:
    assert only(Truth(outbound=(file("a.csv"),), partner=(file("a.csv", 0),)))[0] is SpoolVerdict.SHORT_DELIVERY


LOOKS_TWICE = Rules(policy=SpoolPolicy(stable_seconds=10))


@pytest.mark.parametrize(
    ("second", "now"),
    [
        (file("a.csv", 70), "at 70 bytes"),
        (file("a.csv", 50, age=timedelta(seconds=1)), "at 50 bytes"),
        (None, "gone"),
    ],
)
def test_a_short_copy_that_changes_between_two_looks_is_still_arriving(second: object, now: str) -> None:
    truth = Truth(outbound=(file("a.csv"),), partner=(file("a.csv", 50),), second_answers={"a.csv": second})  # type: ignore[dict-item]
    assert only(truth, LOOKS_TWICE) == (
        SpoolVerdict.SHORT_GROWING,
        f"The partner's copy changed between two looks (50 bytes, then {now}): it is still arriving.",
    )
    assert action(truth, LOOKS_TWICE) == ""


def test_a_short_copy_that_is_the_same_twice_is_short() -> None:
    same = Truth(outbound=(file("a.csv"),), partner=(file("a.csv", 50),))
    assert action(same, LOOKS_TWICE) == "send"
    other_words = Truth(
        outbound=(file("a.csv"),),
        partner=(file("a.csv", 50),),
        second_answers={"a.csv": file("a.csv", 50, kind=EntryType.OTHER)},
    )
    assert only(other_words, LOOKS_TWICE)[0] is SpoolVerdict.SHORT_DELIVERY, "only size and time tell of growth"


def test_a_larger_copy_at_the_partner_has_diverged() -> None:
    assert only(Truth(outbound=(file("a.csv"),), partner=(file("a.csv", 101),))) == (
        SpoolVerdict.DIVERGED,
        "The partner's copy has 101 bytes, ours 100 bytes: theirs is larger, so it is another file or ours was cut. "
        "Compare them by hand.",
    )


@pytest.mark.parametrize("kind", [EntryType.DIRECTORY, EntryType.LINK])
def test_something_else_of_the_feeds_name_at_the_partner_has_diverged(kind: EntryType) -> None:
    assert only(Truth(outbound=(file("a.csv"),), partner=(file("a.csv", kind=kind),))) == (
        SpoolVerdict.DIVERGED,
        f"The partner holds a {kind.value} of this name, not a file: clear it up with the partner.",
    )


def test_a_partners_size_that_the_listing_lacks_is_asked_for() -> None:
    listed = (file("a.csv", None),)
    answered = Truth(outbound=(file("a.csv"),), partner=listed, partner_answers={"a.csv": file("a.csv", 40)})
    assert only(answered)[0] is SpoolVerdict.SHORT_DELIVERY
    assert findings(answered)["a.csv"].facts["partner_size_bytes"] == 40
    for answer in (file("a.csv", None), None):
        assert only(Truth(outbound=(file("a.csv"),), partner=listed, partner_answers={"a.csv": answer})) == (
            SpoolVerdict.LISTING_INCOMPLETE,
            "The partner holds this name but would not say how large its copy is.",
        )


@pytest.mark.parametrize("size_bytes", [99, 101])
@pytest.mark.parametrize("rules", [Rules(), CONSUMES])
def test_a_proven_delivery_of_which_the_partner_holds_another_size_is_never_sent_again(size_bytes: int, rules: Rules) -> None:
    truth = Truth(
        outbound=(file("a.csv"),),
        partner=(file("a.csv", size_bytes),),
        attempts={"a.csv": (attempt(ReservationState.DELIVERED, content="a.csv"),)},
    )
    assert only(truth, rules) == (
        SpoolVerdict.LOST_AFTER_DELIVERY,
        f"The partner's copy has {size_bytes} bytes, ours 100 bytes, although the ledger proves that exactly these bytes were "
        "delivered by us 3 h ago: it was changed there since. It is never sent twice: ask the partner.",
    )
    assert action(truth, rules) == ""


# -- equal sizes


def test_equal_sizes_alone_prove_no_bytes_and_archive_nothing() -> None:
    truth = Truth(outbound=(file("a.csv"),), partner=(file("a.csv"),))
    assert only(truth) == (
        SpoolVerdict.DELIVERED_SIZE_ONLY,
        "The partner's copy has the same size (100 bytes); its bytes were not compared.",
    )
    assert action(truth) == ""


@pytest.mark.parametrize("held", [99, 100])
def test_a_person_who_resolved_an_attempt_is_named_as_its_proof(held: int) -> None:
    truth = Truth(
        outbound=(file("a.csv"),),
        partner=(file("a.csv", held),),
        attempts={"a.csv": (attempt(ReservationState.RESOLVED_SENT, content="a.csv"),)},
    )
    assert "he ledger proves that exactly these bytes were delivered by a person's resolution 3 h ago" in only(truth)[1]


def test_equal_sizes_and_the_ledgers_proof_leave_only_the_archiving() -> None:
    truth = Truth(
        outbound=(file("a.csv"),),
        partner=(file("a.csv"),),
        attempts={"a.csv": (attempt(ReservationState.DELIVERED, content="a.csv"),)},
    )
    assert only(truth) == (
        SpoolVerdict.DELIVERED_VERIFIED,
        "The ledger proves that exactly these bytes were delivered by us 3 h ago, and the partner's copy has the same size "
        "(100 bytes). Only the archiving is left.",
    )
    assert action(truth) == "archive"
    assert action(truth, CHECKSUM) == "archive"


def test_in_checksum_mode_equal_bytes_are_verified_and_archived_only_when_enabled() -> None:
    truth = Truth(outbound=(file("a.csv"),), partner=(file("a.csv"),))
    assert only(truth, CHECKSUM) == (
        SpoolVerdict.DELIVERED_VERIFIED,
        "Delivered: the partner's copy has the same 100 bytes and the same SHA-256. "
        "Somebody else sent it, so it is not archived (archive_delivered is off).",
    )
    assert action(truth, CHECKSUM) == ""
    assert only(truth, ARCHIVING) == (
        SpoolVerdict.DELIVERED_VERIFIED,
        "Delivered: the partner's copy has the same 100 bytes and the same SHA-256.",
    )
    assert action(truth, ARCHIVING) == "archive"
    assert findings(truth, ARCHIVING)["a.csv"].facts["partner_sha256"] == findings(truth, ARCHIVING)["a.csv"].facts["sha256"]


def test_in_checksum_mode_equal_sizes_with_other_bytes_are_a_mismatch_even_against_the_ledger() -> None:
    truth = Truth(
        outbound=(file("a.csv"),),
        partner=(file("a.csv"),),
        partner_content={"a.csv": "tampered"},
        attempts={"a.csv": (attempt(ReservationState.DELIVERED, content="a.csv"),)},
    )
    found = findings(truth, ARCHIVING)["a.csv"]
    assert found.verdict is SpoolVerdict.CONTENT_MISMATCH
    assert found.note == "The partner's copy has the same size (100 bytes) but other bytes: compare them by hand."
    assert found.facts["partner_sha256"] != found.facts["sha256"]
    assert action(truth, ARCHIVING) == ""


@pytest.mark.parametrize("unreadable", [{"source_content": {"a.csv": ""}}, {"partner_content": {"a.csv": ""}}])
def test_in_checksum_mode_a_copy_that_cannot_be_read_is_not_verified(unreadable: dict[str, dict[str, str]]) -> None:
    truth = Truth(outbound=(file("a.csv"),), partner=(file("a.csv"),), **unreadable)  # type: ignore[arg-type]
    assert only(truth, ARCHIVING) == (
        SpoolVerdict.DELIVERED_SIZE_ONLY,
        "The partner's copy has the same size (100 bytes); its bytes were not compared. One of the copies could not be hashed.",
    )
    assert action(truth, ARCHIVING) == ""


def test_before_the_hashes_are_taken_equal_sizes_are_only_that() -> None:
    [found] = CHECKSUM.judge(Truth(outbound=(file("a.csv"),), partner=(file("a.csv"),)).listed())
    assert found.verdict is SpoolVerdict.DELIVERED_SIZE_ONLY
    assert found.note == "The partner's copy has the same size (100 bytes); its bytes were not compared."


# -- incomplete listings


INCOMPLETE = [
    {"outbound_incomplete": "cut after 1,000 rows"},
    {"archive_incomplete": "cut after 1,000 rows"},
    {"partner_incomplete": "cut after 1,000 rows"},
]
PLACES = ["outbound spool", "archive", "partner inbox"]


@pytest.mark.parametrize(("cut", "place"), list(zip(INCOMPLETE, PLACES, strict=True)))
def test_a_listing_that_may_be_cut_proves_no_absence(cut: dict[str, str], place: str) -> None:
    """A 226 after a connection that a firewall closed: the list looked whole, and half the partner's files looked missing."""
    absent = Truth(outbound=(file("a.csv"),), **cut)  # type: ignore[arg-type]
    assert only(absent) == (
        SpoolVerdict.LISTING_INCOMPLETE,
        f"It looks absent at the partner, but that is not proven: {place}: cut after 1,000 rows. Nothing is sent.",
    )
    short = Truth(outbound=(file("a.csv"),), partner=(file("a.csv", 50),), **cut)  # type: ignore[arg-type]
    assert only(short) == (
        SpoolVerdict.LISTING_INCOMPLETE,
        f"It looks short at the partner (50 bytes of 100 bytes), but that is not proven: {place}: cut after 1,000 rows. "
        "Nothing is sent.",
    )
    consumed = Truth(
        outbound=(file("a.csv"),),
        attempts={"a.csv": (attempt(ReservationState.DELIVERED, content="a.csv"),)},
        **cut,  # type: ignore[arg-type]
    )
    aliased = Truth(outbound=(file("a.csv"),), partner=(file("A.csv"),), **cut)  # type: ignore[arg-type]
    for truth, rules in ((consumed, CONSUMES), (consumed, Rules()), (aliased, Rules(case_sensitive=False))):
        assert only(truth, rules)[0] is SpoolVerdict.LISTING_INCOMPLETE


@pytest.mark.parametrize("cut", INCOMPLETE)
def test_what_was_seen_stays_seen_in_an_incomplete_listing_but_nothing_is_planned(cut: dict[str, str]) -> None:
    proven = {"a.csv": (attempt(ReservationState.DELIVERED, content="a.csv"),)}
    doubt = {"a.csv": (attempt(ReservationState.UNKNOWN, content="a.csv"),)}
    for truth, verdict in (
        (Truth(outbound=(file("a.csv"),), partner=(file("a.csv"),), attempts=proven, **cut), SpoolVerdict.DELIVERED_VERIFIED),  # type: ignore[arg-type]
        (Truth(outbound=(file("a.csv"),), attempts=doubt, **cut), SpoolVerdict.DELIVERY_UNKNOWN),  # type: ignore[arg-type]
        (Truth(outbound=(file("a.csv"),), partner=(file("a.csv", 101),), **cut), SpoolVerdict.DIVERGED),  # type: ignore[arg-type]
        (Truth(outbound=(file("a.csv"),), archive=(file("a.csv"),), **cut), SpoolVerdict.ALREADY_ARCHIVED),  # type: ignore[arg-type]
    ):
        assert only(truth)[0] is verdict
        plan = planned(truth)
        assert plan.targets == ()
        assert plan.observation.endswith("cut after 1,000 rows")


@pytest.mark.parametrize("place", ["outbound", "archive", "partner"])
def test_a_listing_that_reaches_the_limit_counts_as_incomplete(place: str) -> None:
    rules = Rules(policy=SpoolPolicy(listing_limit=3))
    rows = tuple(file(f"x{number}.xml") for number in range(3))
    outbound = (file("a.csv"), *rows[:2]) if place == "outbound" else (file("a.csv"),)
    full = Truth(**{"outbound": outbound, place: outbound if place == "outbound" else rows})  # type: ignore[arg-type]
    assert only(full, rules)[0] is SpoolVerdict.LISTING_INCOMPLETE
    assert planned(full, rules).observation.endswith("3 rows reach the listing limit of 3")
    assert only(full, Rules(policy=SpoolPolicy(listing_limit=4)))[0] is SpoolVerdict.MISSING


@pytest.mark.parametrize("place", ["outbound", "archive", "partner"])
def test_a_name_that_is_listed_twice_makes_the_listing_incomplete(place: str) -> None:
    """A newline in a name can forge a row; the forged row was a second `a.csv`, and both would have become targets."""
    twice = (file("z.csv", 1), file("z.csv", 2))
    truth = Truth(**{"outbound": (file("a.csv"),), place: (file("a.csv"), *twice) if place == "outbound" else twice})  # type: ignore[arg-type]
    assert only(truth)[0] is SpoolVerdict.LISTING_INCOMPLETE
    plan = planned(truth)
    assert plan.observation.endswith("1 row with a name that another row has too, so rows may be forged")
    assert plan.targets == ()
    assert len(plan.findings) == len(truth.outbound)


def test_findings_show_the_facts_with_unknown_as_null() -> None:
    truth = Truth(outbound=(file("a.csv", 1500),), partner=(file("a.csv", 500, age=None),))
    assert findings(truth)["a.csv"].facts == {
        "type": "file",
        "size_bytes": 1500,
        "modified_at": (NOW - LATE).isoformat(),
        "age_seconds": 22320,
        "partner_size_bytes": 500,
        "partner_modified_at": None,
        "sha256": planned(truth).targets[0].as_json()["sha256"],
        "action": "send",
    }
    [unknown] = Rules().judge(Truth(outbound=(file("a.csv", None, age=None),)).listed())
    assert unknown.facts == {
        "type": "file",
        "size_bytes": None,
        "modified_at": None,
        "age_seconds": None,
        "partner_size_bytes": None,
        "partner_modified_at": None,
    }

"""The judge: one finding for every outbound entry. The table of the spec from top to bottom; the first row that fits wins.

Nothing is concluded from an incomplete listing, and nothing becomes a target that its own answer has not confirmed. A rule that
needs a fact which was not asked for yet says so (`Ruling.asks`), and gives the verdict that holds while it is unknown.
"""

from datetime import timedelta
from typing import Final

from guards.canonical import Json
from guards.delivery.reservation import ReservationState
from guards.finding import Finding
from guards.spool.candidates import give_places
from guards.spool.case import BYTES_PER_MEGABYTE, Bench, Case, is_file
from guards.spool.listing import Entry
from guards.spool.names import is_deliverable, is_marker, unsafe_reason
from guards.spool.notes import duration, size
from guards.spool.policy import SpoolPolicy
from guards.spool.ruling import Ask, Judged, Ruling, SpoolAction, unanswered_confirmations
from guards.spool.verdict import SpoolVerdict
from guards.spool.world import SpoolWorld

CLOCK_SKEW_ALLOWED: Final = timedelta(minutes=5)

_TAKEN: Final = (
    " This partner takes files away, so somebody else may have delivered it already: only our own deliveries are known. "
    "Ask the partner before you approve."
)


def judge(world: SpoolWorld, *, policy: SpoolPolicy, consumes_on_arrival: bool, case_sensitive: bool) -> tuple[Finding, ...]:
    """One finding per outbound entry, by name: the order of the listing does not matter."""
    bench = Bench(world=world, policy=policy, consumes_on_arrival=consumes_on_arrival, case_sensitive=case_sensitive)
    return tuple(finding(one) for one in assess(bench))


def assess(bench: Bench) -> list[Judged]:
    """Every outbound entry judged, by name, and the places of the plan given."""
    judged = []
    for entry in sorted(bench.world.outbound, key=lambda entry: entry.name):
        case = Case(entry, bench)
        ruling = rule(case)
        judged.append(Judged(case=case, ruling=ruling, asks=ruling.asks))
    if not bench.incomplete:
        give_places(bench, judged)
    return judged


def finding(one: Judged) -> Finding:
    facts = {**one.case.facts(), **one.ruling.facts}
    if one.action and one.case.sha256:
        facts["action"] = one.action.value
    return Finding(subject=one.case.name, verdict=one.ruling.verdict, note=one.ruling.note, facts=facts)


def rule(case: Case) -> Ruling:
    """Rows 1 to 19. The ceiling (row 20) and the confirmation need all entries: `guards.spool.candidates`."""
    return (
        _by_name(case)
        or _by_writer(case)
        or _by_size(case)
        or _by_time(case)
        or _by_ledger(case)
        or _by_archive(case)
        or (_partner_without(case) if case.partner_row is None else _partner_with(case, case.partner_row))
    )


def _by_name(case: Case) -> Ruling | None:
    name, policy = case.name, case.bench.policy
    if is_marker(name, policy):
        return Ruling(
            SpoolVerdict.WRITER_MARKER, "A writer's marker, not a feed: its ending says that something is being written."
        )
    if reason := unsafe_reason(name):
        return Ruling(SpoolVerdict.NAME_UNSAFE, f"The name has {reason}. Nothing is done to it: rename or remove it by hand.")
    if not is_deliverable(name, policy):
        return Ruling(SpoolVerdict.NOT_DELIVERABLE, "Not a feed: the name does not match the deliverable pattern.")
    if not is_file(case.entry):
        return Ruling(
            SpoolVerdict.TYPE_UNEXPECTED, f"It has a feed's name but is a {case.entry.type.value}, not a file: look who made it."
        )
    return None


def _by_writer(case: Case) -> Ruling | None:
    markers = case.markers
    if not markers:
        return None
    shown = " and ".join(marker.name.removeprefix(case.name) for marker in markers)
    ages = [age for marker in markers if (age := _marker_age(case, marker)) is not None]
    limit = timedelta(minutes=case.bench.policy.writer_stuck_minutes)
    if ages and max(ages) > limit:
        return Ruling(
            SpoolVerdict.WRITER_STUCK,
            f"The writer's marker {shown} has been there for {duration(max(ages))} (limit {duration(limit)}): "
            "the producer probably died. Find out whether the feed is whole, then remove the marker.",
        )
    since = f", there for {duration(max(ages))}" if ages else ""
    return Ruling(SpoolVerdict.WRITER_ACTIVE, f"It is still being written: marker {shown}{since}.")


def _marker_age(case: Case, marker: Entry) -> timedelta | None:
    """By its own time, else by when we first saw it; None when neither is known."""
    since = marker.modified_at or case.bench.world.first_seen.get(marker.name)
    return None if since is None else max(case.bench.world.observed_at - since, timedelta())


def _by_size(case: Case) -> Ruling | None:
    if case.size_bytes is None:
        asks = Ask.CONFIRM_SOURCE if case.source_unasked else Ask.NOTHING
        return _unknown("The spool would not say how large it is, and unknown is not zero.", case, asks)
    if case.size_bytes == 0:
        return Ruling(SpoolVerdict.EMPTY_SOURCE, "It is empty (0 bytes): the producer aborted. Have it made again.")
    ceiling = case.bench.policy.max_file_megabytes * BYTES_PER_MEGABYTE
    if case.size_bytes > ceiling:
        return Ruling(
            SpoolVerdict.TOO_LARGE,
            f"It has {size(case.size_bytes)}, more than the limit of {size(ceiling)}: raise max_file_megabytes or send it by hand.",
        )
    return None


def _by_time(case: Case) -> Ruling | None:
    if case.modified_at is None and case.source_unasked:
        return _unknown("The listing gives no time, and the spool was not asked for it.", case, Ask.CONFIRM_SOURCE)
    if case.since is None:
        return Ruling(
            SpoolVerdict.DATE_UNKNOWN, "The spool gives no time for it and no earlier report saw it, so its age is unknown."
        )
    now = case.bench.world.observed_at
    if case.modified_at is not None and case.modified_at - now > CLOCK_SKEW_ALLOWED:
        return Ruling(
            SpoolVerdict.CLOCK_SKEW,
            f"Its time is {duration(case.modified_at - now)} in the future (allowed {duration(CLOCK_SKEW_ALLOWED)}): "
            "the spool server's clock or time zone is wrong.",
        )
    limit = timedelta(minutes=case.bench.policy.sla_minutes)
    if case.age < limit:
        return Ruling(SpoolVerdict.WITHIN_SLA, f"It is {duration(case.age)} old and not late before {duration(limit)}.")
    return None


def _by_ledger(case: Case) -> Ruling | None:
    if not case.telling_attempts:
        return None
    if not case.sha256:
        asks = Ask.NOTHING if case.name in case.bench.world.source_sha256 else Ask.HASH_SOURCE
        return _unknown(
            "The ledger holds an attempt to send this name, and ours was not hashed to tell if it is the same.", case, asks
        )
    attempt = case.in_doubt
    if attempt is None:
        return None
    started = duration(case.bench.world.observed_at - attempt.since)
    facts: dict[str, Json] = {"reservation_id": attempt.reservation_id, "ledger_state": attempt.state.value}
    if attempt.live:
        return Ruling(
            SpoolVerdict.DELIVERY_UNKNOWN,
            f"A run is sending it right now (since {started}): report again when it has ended.",
            facts=facts,
        )
    row = case.partner_row
    if row is not None and not is_file(row):
        return Ruling(
            SpoolVerdict.DELIVERY_UNKNOWN,
            f"An attempt to send exactly these bytes began {started} ago and was neither proven nor disproven, and the partner holds "
            f"a {row.type.value} of this name: clear that up with the partner, then report again.",
            facts=facts,
        )
    return Ruling(
        SpoolVerdict.DELIVERY_UNKNOWN,
        f"An attempt to send exactly these bytes began {started} ago and was neither proven nor disproven: "
        "what the partner holds will decide, nothing is sent blindly.",
        action=SpoolAction.RESOLVE,
        facts=facts,
    )


def _by_archive(case: Case) -> Ruling | None:
    archived = case.bench.world.archive.get(case.name)
    if archived is None:
        return None
    if archived.size_bytes is None or not is_file(archived):
        compared = f"a {archived.type.value} of {size(archived.size_bytes)}"
    elif archived.size_bytes == case.size_bytes:
        compared = f"of the same size ({size(archived.size_bytes)})"
    else:
        compared = f"of a different size ({size(archived.size_bytes)}, ours has {size(case.size_bytes)})"
    return Ruling(
        SpoolVerdict.ALREADY_ARCHIVED,
        f"The archive already holds this name, {compared}: made twice, or put back. Decide which one counts.",
        facts={"archived_size_bytes": archived.size_bytes},
    )


def _partner_without(case: Case) -> Ruling:
    bench = case.bench
    if bench.incomplete:
        return _blocked("absent at the partner", case)
    attempt = case.proven
    if attempt is not None:
        proof = _proof(attempt.state, bench.world.observed_at - attempt.since)
        if bench.consumes_on_arrival:
            return Ruling(
                SpoolVerdict.DELIVERED_CONSUMED,
                f"The partner has taken it: {_lower(proof)}, and this partner takes files away. Only the archiving is left.",
                action=SpoolAction.ARCHIVE,
            )
        return Ruling(
            SpoolVerdict.LOST_AFTER_DELIVERY,
            f"{proof}, but the partner has no copy any more, and it is not known to take files away. "
            "It is never sent twice: ask the partner.",
        )
    if alias := bench.partner_aliases.other_than(case.name):
        return Ruling(
            SpoolVerdict.POSSIBLE_ALIAS,
            "The partner has no copy under this exact name, but one whose name is equal after normalising: "
            "it may be this feed, renamed.",
            facts={"alias": alias},
        )
    if alias := bench.outbound_aliases.other_than(case.name):
        return Ruling(
            SpoolVerdict.POSSIBLE_ALIAS,
            "The partner has no copy, but the spool holds another feed whose name the partner cannot tell from this one: "
            "one would overwrite the other.",
            facts={"alias": alias},
        )
    return Ruling(
        SpoolVerdict.MISSING,
        f"The partner has no copy; ours is {_age_and_limit(case)}.{_TAKEN if bench.consumes_on_arrival else ''}",
        action=SpoolAction.SEND,
    )


def _partner_with(case: Case, row: Entry) -> Ruling:
    if not is_file(row):
        return Ruling(
            SpoolVerdict.DIVERGED, f"The partner holds a {row.type.value} of this name, not a file: clear it up with the partner."
        )
    ours, theirs = case.size_bytes, case.partner_size
    assert ours is not None  # _by_size comes first
    if theirs is None:
        asks = Ask.CONFIRM_PARTNER if case.partner_unasked else Ask.NOTHING
        return _unknown("The partner holds this name but would not say how large its copy is.", case, asks)
    sizes = f"The partner's copy has {size(theirs)}, ours {size(ours)}"
    if theirs == ours:
        return _equal_size(case)
    if (attempt := case.proven) is not None:
        return Ruling(
            SpoolVerdict.LOST_AFTER_DELIVERY,
            f"{sizes}, although {_lower(_proof(attempt.state, case.bench.world.observed_at - attempt.since))}: "
            "it was changed there since. It is never sent twice: ask the partner.",
        )
    if theirs > ours:
        return Ruling(
            SpoolVerdict.DIVERGED, f"{sizes}: theirs is larger, so it is another file or ours was cut. Compare them by hand."
        )
    if case.bench.incomplete:
        return _blocked(f"short at the partner ({size(theirs)} of {size(ours)})", case)
    return Ruling(
        SpoolVerdict.SHORT_DELIVERY,
        f"{sizes}: {size(ours - theirs)} short; ours is {_age_and_limit(case)}. The partner may already have processed the short copy.",
        action=SpoolAction.SEND,
    )


def _equal_size(case: Case) -> Ruling:
    """Row 17 before row 19: equal bytes are more than equal sizes, and only they allow archiving."""
    policy, size_shown = case.bench.policy, size(case.size_bytes)
    asks = Ask.NOTHING
    if policy.verify_delivered == "checksum":
        asks = _unanswered_hashes(case)
        if asks and (policy.archive_delivered or case.telling_attempts):
            asks |= unanswered_confirmations(case)
        if case.sha256 and case.partner_sha256:
            if case.sha256 != case.partner_sha256:
                return Ruling(
                    SpoolVerdict.CONTENT_MISMATCH,
                    f"The partner's copy has the same size ({size_shown}) but other bytes: compare them by hand.",
                    facts={"partner_sha256": case.partner_sha256},
                )
            if case.proven is None:
                return Ruling(
                    SpoolVerdict.DELIVERED_VERIFIED,
                    f"Delivered: the partner's copy has the same {size_shown} and the same SHA-256."
                    + (
                        ""
                        if policy.archive_delivered
                        else " Somebody else sent it, so it is not archived (archive_delivered is off)."
                    ),
                    action=SpoolAction.ARCHIVE if policy.archive_delivered else None,
                    facts={"partner_sha256": case.partner_sha256},
                )
    attempt = case.proven
    if attempt is not None:
        proof = _proof(attempt.state, case.bench.world.observed_at - attempt.since)
        return Ruling(
            SpoolVerdict.DELIVERED_VERIFIED,
            f"{proof}, and the partner's copy has the same size ({size_shown}). Only the archiving is left.",
            action=SpoolAction.ARCHIVE,
            asks=asks,
        )
    unhashed = " One of the copies could not be hashed." if policy.verify_delivered == "checksum" and not asks else ""
    return Ruling(
        SpoolVerdict.DELIVERED_SIZE_ONLY,
        f"The partner's copy has the same size ({size_shown}); its bytes were not compared.{unhashed}",
        asks=asks,
    )


def _unanswered_hashes(case: Case) -> Ask:
    world = case.bench.world
    asks = Ask.NOTHING
    if case.name not in world.source_sha256:
        asks |= Ask.HASH_SOURCE
    if case.name not in world.partner_sha256:
        asks |= Ask.HASH_PARTNER
    return asks


def _unknown(why: str, case: Case, asks: Ask) -> Ruling:
    """A fact is missing. Once it is known the entry may be a candidate: its confirmations are asked for in the same round."""
    if asks:
        asks |= unanswered_confirmations(case)
    return Ruling(SpoolVerdict.LISTING_INCOMPLETE, why, asks=asks)


def _blocked(what: str, case: Case) -> Ruling:
    return Ruling(
        SpoolVerdict.LISTING_INCOMPLETE, f"It looks {what}, but that is not proven: {case.bench.incomplete}. Nothing is sent."
    )


def _proof(state: ReservationState, ago: timedelta) -> str:
    how = "by a person's resolution" if state is ReservationState.RESOLVED_SENT else "by us"
    return f"The ledger proves that exactly these bytes were delivered {how} {duration(ago)} ago"


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _age_and_limit(case: Case) -> str:
    """Without a limit there is none to speak of: every feed is late at once."""
    limit = timedelta(minutes=case.bench.policy.sla_minutes)
    return f"{duration(case.age)} old (limit {duration(limit)})" if limit else f"{duration(case.age)} old"

"""From rulings to targets: each candidate is confirmed by its own answers, then the oldest take the places that the policy allows.

Gaps come before archiving alone, so that tidying up never delays a feed that a partner waits for. A candidate whose own answer
disagrees with its row takes no place: the next one does.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from guards.spool.case import Bench, Case, is_file
from guards.spool.notes import count, size
from guards.spool.ruling import Ask, Judged, Ruling, unanswered_confirmations
from guards.spool.verdict import SpoolVerdict

SPARE_CONFIRMATIONS: Final = 16
"""So many candidates beyond the ceiling are confirmed in the first round too: a few that disagree cost no second one, and a
spool of 20,000 missing feeds is not asked about 20,000 times."""


def give_places(bench: Bench, judged: Iterable[Judged]) -> None:
    """Changes the candidates among `judged`: confirmed ones get an `action`, the others a verdict or a note that says why not."""
    candidates = sorted((one for one in judged if _is_candidate(one)), key=_turn)
    for one in _asked_now(bench, candidates):
        one.asks |= _unanswered(one)
    places = bench.policy.max_files_per_run
    confirmed: list[Judged] = []
    for one in candidates:
        if _unanswered(one):
            if len(confirmed) < places:
                _unconfirmed(one)
            else:
                _over_ceiling(one)
        elif (disagreement := _disagreement(one.case, one.ruling)) is not None:
            one.ruling = disagreement
        else:
            confirmed.append(one)
    _seat(bench, confirmed)


def _seat(bench: Bench, confirmed: list[Judged]) -> None:
    """One that cannot be read takes no place, or a few of them would hold up everything behind them for ever. Nobody beyond twice the
    ceiling is hashed to fill such a gap."""
    places = bench.policy.max_files_per_run
    eligible, rest = confirmed[: 2 * places], confirmed[2 * places :]
    readable = [one for one in eligible if not _is_unreadable(one)]
    hashed_now = eligible if len(readable) < len(eligible) else eligible[:places]
    for one in hashed_now:
        if one.case.name not in bench.world.source_sha256:
            one.asks |= Ask.HASH_SOURCE
    for one in eligible:
        if _is_unreadable(one):
            note = f"{one.ruling.note} The spool's copy could not be read to take its SHA-256, so no plan holds it."
            one.ruling = replace(one.ruling, note=note, action=None)
    for one in readable[:places]:
        one.action = one.ruling.action
    for one in (*readable[places:], *rest):
        _over_ceiling(one)


def _is_unreadable(one: Judged) -> bool:
    return one.case.name in one.case.bench.world.source_sha256 and not one.case.sha256


def _is_candidate(one: Judged) -> bool:
    return one.ruling.action is not None and not one.ruling.asks


def _turn(one: Judged) -> tuple[bool, object, str]:
    return (not one.ruling.verdict.is_gap, one.case.since, one.case.name)


def _asked_now(bench: Bench, candidates: list[Judged]) -> Iterable[Judged]:
    """The first round asks a window about the ceiling; if too few of it hold, the second asks all the rest. No third is needed."""
    second_looks = [one for one in candidates if _unanswered(one) is Ask.SECOND_LOOK]
    window = candidates[: bench.policy.max_files_per_run + SPARE_CONFIRMATIONS]
    if any(_unanswered(one) for one in window):
        return [*window, *second_looks]
    good = sum(1 for one in candidates if not _unanswered(one) and _disagreement(one.case, one.ruling) is None)
    return candidates if good < bench.policy.max_files_per_run else second_looks


def _unanswered(one: Judged) -> Ask:
    case, world = one.case, one.case.bench.world
    asks = unanswered_confirmations(case)
    looks_twice = one.ruling.verdict is SpoolVerdict.SHORT_DELIVERY and case.bench.policy.stable_seconds > 0
    if looks_twice and case.name not in world.partner_second_look:
        asks |= Ask.SECOND_LOOK
    return asks


def _disagreement(case: Case, ruling: Ruling) -> Ruling | None:
    """What the servers' own answers say against the rows; None when they agree. Only asked when all are there."""
    against = _source_disagrees(case) or _partner_disagrees(case)
    if against:
        return replace(ruling, verdict=SpoolVerdict.LISTING_INCOMPLETE, note=against, action=None)
    return _still_arriving(case, ruling) if ruling.verdict is SpoolVerdict.SHORT_DELIVERY else None


def _still_arriving(case: Case, ruling: Ruling) -> Ruling | None:
    """Row 14: the partner's short copy changed between its answer and the second look."""
    world = case.bench.world
    first = world.partner_confirmed[case.name]
    second = world.partner_second_look.get(case.name, first)
    if first is None or second == first:
        return None
    if second is not None and (second.size_bytes, second.modified_at) == (first.size_bytes, first.modified_at):
        return None
    now = "gone" if second is None else f"at {size(second.size_bytes)}"
    return replace(
        ruling,
        verdict=SpoolVerdict.SHORT_GROWING,
        note=f"The partner's copy changed between two looks ({size(first.size_bytes)}, then {now}): it is still arriving.",
        action=None,
    )


def _source_disagrees(case: Case) -> str:
    answer, row = case.answer, case.entry
    if answer is None:
        return "Row and answer disagree: the spool's listing has it, but asked for by name it is not there."
    if not is_file(answer):
        return f"Row and answer disagree: the spool's listing has a file, but asked for by name it is a {answer.type.value}."
    if answer.size_bytes is None or (row.size_bytes is not None and row.size_bytes != answer.size_bytes):
        return (
            f"Row and answer disagree: the spool's listing says {size(row.size_bytes)}, "
            f"asked for by name it says {size(answer.size_bytes)}. It may be changing right now."
        )
    return ""


def _partner_disagrees(case: Case) -> str:
    row, answer = case.partner_row, case.bench.world.partner_confirmed.get(case.name)
    if row is None:
        if answer is None:
            return ""
        return (
            "Row and answer disagree: the partner's listing does not have it, "
            f"but asked for by name there is a {answer.type.value} of {size(answer.size_bytes)}."
        )
    if answer is None:
        return f"Row and answer disagree: the partner's listing has it with {size(row.size_bytes)}, but asked for by name it is not there."
    if answer.type is not row.type:
        return f"Row and answer disagree: the partner's listing has a {row.type.value}, asked for by name it is a {answer.type.value}."
    if row.size_bytes is not None and row.size_bytes != answer.size_bytes:
        return (
            f"Row and answer disagree: the partner's listing says {size(row.size_bytes)}, "
            f"asked for by name it says {size(answer.size_bytes)}. It may be arriving right now."
        )
    return ""


def _unconfirmed(one: Judged) -> None:
    one.ruling = replace(
        one.ruling,
        verdict=SpoolVerdict.LISTING_INCOMPLETE,
        note=f"Not confirmed by the servers' own answers yet. By the listings: {one.ruling.note}",
        action=None,
    )


def _over_ceiling(one: Judged) -> None:
    """A gap waits for the next run. What is delivered already stays what it is: only its archiving waits."""
    limit = one.case.bench.policy.max_files_per_run
    waits = f"beyond the {count(limit, 'feed')} of one plan (max_files_per_run), the oldest first: the next run's."
    if one.ruling.verdict.is_gap:
        one.ruling = replace(
            one.ruling,
            verdict=SpoolVerdict.OVER_CEILING,
            note=f"{one.ruling.note} It is {waits}",
            action=None,
            facts={**one.ruling.facts, "would_be": one.ruling.verdict.value},
        )
    else:
        one.ruling = replace(one.ruling, note=f"{one.ruling.note} Archiving it is {waits}", action=None)

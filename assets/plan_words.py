"""What a plan says, in sentences and rows: the same words for the UI, Slack and the command line. Nothing here is escaped yet.

Guard-agnostic: the guard lends its nouns and verbs through `Wording`, its verdicts answer for themselves.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from guards.decision import Decision
from guards.finding import Finding
from guards.plan import Plan
from guards.text import count_words, duration_words, size_words

STATE_WORDS: Final = {
    "nothing_to_do": "nothing to do",
    "waiting": "waiting for approval",
    "approved": "approved, not applied yet",
    "declined": "declined",
    "expired": "the approval expired",
    "used": "the approval was used",
    "superseded": "superseded by a newer plan",
    "incomplete": "not everything could be observed",
}
ASKS_FOR_A_DECISION: Final = frozenset({"waiting", "expired"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A guard's own words: "3 feeds never reached the partner"."""

    noun: str
    nouns: str
    gap: str
    """Verb phrase after the count of gaps: "never reached the partner"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPage:
    """All that the pages of one plan are made of. `state` is the state store's word for it (a `PlanState`)."""

    plan: Plan[Any]
    state: str
    wording: Wording
    link: str = ""
    """The filled-in Launchpad link; "" when the Launchpad may not decide (`approve_in_ui = false`)."""
    decision: Decision | None = None
    oldest_gap_minutes: int | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    """More numbers with fixed names, after the common ones: they become plots."""
    done: str = ""
    """What this run has just written and proven, one sentence; "" in a report."""


@dataclass(frozen=True, slots=True)
class Row:
    """One gap as people read it."""

    subject: str
    verdict: str
    action: str
    why: str


def rows(plan: Plan[Any]) -> tuple[Row, ...]:
    """All gaps: what the plan would write first, in its order, then what needs a person, then the rest."""
    actions = {target.subject: f"{target.action}" for target in plan.targets}  # plain text: Dagster serialises no foreign enum
    order = {subject: place for place, subject in enumerate(actions)}

    def place(finding: Finding) -> tuple[int, int]:
        rank = 0 if finding.subject in order else 1 if finding.verdict.needs_person else 2
        return rank, order.get(finding.subject, 0)

    return tuple(
        Row(finding.subject, finding.verdict.value, _action(finding, actions), finding.note)
        for finding in sorted(plan.gaps, key=place)
    )


def headline(page: PlanPage) -> str:
    """ "4 feeds never reached the partner (the oldest is 6 h 12 min old)"; or that none did not."""
    gaps = len(page.plan.gaps)
    if not gaps:
        return f"Of {count_words(len(page.plan.findings), 'entry', 'entries')} seen, none is a gap"
    age = page.oldest_gap_minutes
    oldest = "" if age is None else f" ({'the oldest is ' if gaps > 1 else ''}{duration_words(age)} old)"
    return f"{count_words(gaps, page.wording.noun, page.wording.nouns)} {page.wording.gap}{oldest}"


def breakdown(plan: Plan[Any]) -> str:
    """ "2 missing, 1 short delivery", most frequent first."""
    counted = Counter(finding.verdict.value for finding in plan.gaps)
    return ", ".join(f"{number:,} {verdict.replace('_', ' ')}" for verdict, number in counted.most_common())


def proposal(page: PlanPage) -> str:
    """What approving it would do, and what it leaves to others."""
    plan, wording = page.plan, page.wording
    persons = sum(finding.verdict.needs_person for finding in plan.gaps)
    person = (
        f"{count_words(persons, wording.noun, wording.nouns)} {'needs' if persons == 1 else 'need'} a person" if persons else ""
    )
    if not plan.targets:
        return f"Nothing would be written{f'; {person}' if person else ''}."
    actions = Counter(target.action for target in plan.targets)
    verbs = " and ".join(f"{verb} {count_words(number, wording.noun, wording.nouns)}" for verb, number in actions.items())
    return f"Plan {plan.short} would {verbs} ({size_words(plan.outstanding_bytes)}){f'; {person}' if person else ''}."


def next_step(page: PlanPage) -> str:
    """One sentence without link or command: who has to do what now."""
    decision = page.decision
    match page.state:
        case "waiting":
            return "Nothing is written until somebody approves exactly this plan."
        case "expired":
            return "The approval expired before it was used: approve again."
        case "approved" if decision is not None:
            return f"Approved by {decision.decided_by} until {decision.valid_until:%Y-%m-%d %H:%M} UTC: apply it."
        case "declined" if decision is not None:
            return f"Declined by {decision.decided_by}{f': {decision.comment}' if decision.comment else ''}."
        case "used":
            return "Its approval was used. Report again, and approve what is still open."
        case "superseded":
            return "A newer report made another plan: decide on that one."
        case "incomplete":
            return f"Nothing can be approved: {page.plan.observation or 'the observation was incomplete'}. Report again."
        case "nothing_to_do":
            return "There is nothing to approve."
        case _:
            return f"{STATE_WORDS.get(page.state, page.state)}."


def command(page: PlanPage) -> str:
    """What to type next; "" when nothing is to be typed."""
    target, short = f"{page.plan.guard}/{page.plan.watch}", page.plan.short
    if page.state in ASKS_FOR_A_DECISION:
        return f"opsguard approve {short} --by YOU"
    if page.state == "approved":
        return f"opsguard apply {short}"
    return f"opsguard report {target}" if page.state in {"used", "superseded", "incomplete", "declined"} else ""


def _action(finding: Finding, actions: Mapping[str, str]) -> str:
    if finding.subject in actions:
        return actions[finding.subject]
    return "person" if finding.verdict.needs_person else "later"

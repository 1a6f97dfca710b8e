"""The one flow of every guard, driven through the tiny one: plan, gate, decision, apply, check. No word of any real guard."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from guards.decision import Decision, DecisionKind, governing
from guards.gate import Flags, Lease, NotAuthorized
from guards.plan import Plan
from guards.refusal import RefusalCode, Refused
from tests.unit.tiny_guard import Applied, FillUp, ShelfVerdict, Shelves, Shop, Writer, apply, make_plan

pytestmark = pytest.mark.fast

NOW = datetime(2026, 3, 2, 5, 30, tzinfo=UTC)
PAR = 10
WRITE = Flags(dry_run=False, auto_remediate=True)
LEASE = Lease(scope="shelves/main", holder="run-1", fence=7, expires_at=NOW + timedelta(minutes=5))


def shop() -> Shop:
    return Shop(tea=10, salt=4, rice=0, soap=12, oil=None)


def report(place: Shop) -> Plan[Shelves]:
    return make_plan(place.observe(), watch="main", par=PAR)


def approve(plan: Plan[Shelves]) -> Decision:
    return Decision(
        decision_id=1,
        plan_digest=plan.digest,
        kind=DecisionKind.APPROVED,
        decided_by="ada",
        comment="",
        decided_at=NOW,
        valid_until=NOW + timedelta(hours=12),
    )


def run(
    place: Shop,
    plan: Plan[Shelves],
    decision: Decision | None,
    *,
    flags: Flags = WRITE,
    lease: Lease | None = LEASE,
    par: int = PAR,
) -> Applied | Refused:
    return apply(place, plan, par=par, flags=flags, decision=decision, lease=lease, now=NOW)


def code(outcome: Applied | Refused) -> RefusalCode:
    assert isinstance(outcome, Refused)
    return outcome.code


def test_every_shelf_gets_a_finding_that_says_why() -> None:
    plan = report(shop())
    assert [(one.subject, one.verdict, one.note) for one in plan.findings] == [
        ("oil", ShelfVerdict.UNREADABLE, "It could not be counted: go and look."),
        ("rice", ShelfVerdict.LOW, "It holds 0 of 10: nobody filled it."),
        ("salt", ShelfVerdict.LOW, "It holds 4 of 10: nobody filled it."),
        ("soap", ShelfVerdict.OVERFULL, "It holds 12, more than its par of 10: somebody filled it twice."),
        ("tea", ShelfVerdict.FULL, "It holds 10."),
    ]
    assert plan.targets == (FillUp("rice", 0, add=10), FillUp("salt", 4, add=6))
    assert plan.counts == {"unreadable": 1, "low": 2, "overfull": 1, "full": 1}
    assert [gap.subject for gap in plan.gaps] == ["oil", "rice", "salt", "soap"]
    assert [one.verdict.needs_person for one in plan.findings] == [True, False, False, True, False]
    assert [one.action for one in plan.targets] == ["fill", "fill"]
    assert plan.outstanding_bytes == 0


def test_an_approved_plan_is_written_and_proven_and_nothing_else_is() -> None:
    place = shop()
    plan = report(place)
    outcome = run(place, plan, approve(plan))
    assert isinstance(outcome, Applied)
    assert [(one.name, one.passed) for one in outcome.checks] == [("shelves_full", True), ("others_untouched", True)]
    assert place.observe() == {"tea": 10, "salt": 10, "rice": 10, "soap": 12, "oil": None}
    assert report(place).targets == (), "a second report has nothing left to do"


@pytest.mark.parametrize(
    ("refusal", "changes"),
    [
        (RefusalCode.DRY_RUN, {"flags": Flags(auto_remediate=True)}),
        (RefusalCode.REMEDIATION_DISABLED, {"flags": Flags(dry_run=False)}),
        (RefusalCode.BUSY, {"lease": None}),
        (RefusalCode.POLICY_CHANGED, {"par": 11}),
    ],
)
def test_a_refusal_writes_nothing(refusal: RefusalCode, changes: dict[str, object]) -> None:
    place = shop()
    before, plan = place.observe(), report(place)
    assert code(run(place, plan, approve(plan), **changes)) is refusal  # type: ignore[arg-type]
    assert place.observe() == before


def test_no_answer_is_a_refusal_and_so_are_a_no_an_old_yes_and_a_used_one() -> None:
    place = shop()
    before, plan = place.observe(), report(place)
    yes = approve(plan)
    for decision, refusal in (
        (None, RefusalCode.NOT_APPROVED),
        (replace(yes, kind=DecisionKind.DECLINED), RefusalCode.DECLINED),
        (replace(yes, valid_until=NOW), RefusalCode.EXPIRED),
        (replace(yes, used_by="run-0", used_at=NOW), RefusalCode.ALREADY_USED),
    ):
        assert code(run(place, plan, decision)) is refusal
    assert place.observe() == before


def test_one_shelf_that_changed_since_the_approval_stops_the_whole_plan() -> None:
    place = shop()
    plan = report(place)
    place.somebody_puts("salt", 9)
    refused = run(place, plan, approve(plan))
    assert refused == Refused(
        RefusalCode.STALE,
        f"plan {plan.short} is stale, nothing was written. salt: expected 4 counters, found 9 counters. Report again",
    )
    assert place.observe()["rice"] == 0


def test_a_shelf_that_became_low_after_the_approval_is_not_filled() -> None:
    place = shop()
    plan = report(place)
    place.somebody_puts("tea", 1)
    assert isinstance(run(place, plan, approve(plan)), Applied)
    assert place.observe()["tea"] == 1


def test_an_approval_of_yesterdays_plan_is_none_for_todays() -> None:
    place = shop()
    yesterday = approve(report(place))
    place.somebody_puts("tea", 1)
    assert code(run(place, report(place), yesterday)) is RefusalCode.NOT_APPROVED


def test_a_shop_in_which_nothing_is_seen_is_not_observed() -> None:
    place = shop()
    plan = report(place)
    assert code(run(Shop(), plan, approve(plan))) is RefusalCode.OBSERVATION_INCOMPLETE
    nothing = report(Shop())
    assert code(run(place, nothing, approve(nothing))) is RefusalCode.OBSERVATION_INCOMPLETE


def test_a_plan_without_targets_has_nothing_to_do() -> None:
    place = Shop(tea=10)
    plan = report(place)
    assert code(run(place, plan, approve(plan))) is RefusalCode.NOTHING_TO_DO


def test_of_two_answers_the_no_counts() -> None:
    place = shop()
    plan = report(place)
    yes = approve(plan)
    no = replace(yes, decision_id=2, kind=DecisionKind.DECLINED, decided_by="grace")
    assert code(run(place, plan, governing([yes, no]))) is RefusalCode.DECLINED


def test_the_check_finds_what_a_writer_did_not_do_and_what_it_should_not_have_done() -> None:
    from tests.unit.tiny_guard import check

    place = shop()
    plan = report(place)
    before = place.observe()
    full, others = check(plan, par=PAR, before=before, after={**before, "rice": 10, "tea": 9})
    assert (full.passed, full.message) == (False, "1 of 2 filled shelves are not at par ['salt']")
    assert (others.passed, others.message) == (False, "1 other shelves changed ['tea']")


def test_no_writer_opens_without_the_gates_own_authorization() -> None:
    place = shop()
    for forged in (None, "yes", object()):
        with pytest.raises(NotAuthorized):
            Writer({}, forged, watch="main")  # type: ignore[arg-type]
        with pytest.raises(NotAuthorized):
            place.writer(forged, watch="main")  # type: ignore[arg-type]

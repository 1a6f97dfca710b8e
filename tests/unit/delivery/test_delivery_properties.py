"""Whatever the world looks like: a target is free, open, enabled and complete, and a plan says of every slot exactly one thing."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.delivery.bodies import Body, NoBody, NoTemplate
from guards.delivery.evidence import CheckIns, EvidenceUnreadable
from guards.delivery.lapse import lapse
from guards.delivery.outcome import Reason
from guards.delivery.planning import DeliveryTarget, load_target, make_plan
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Kind
from guards.delivery.templates import VARIABLES, render
from guards.delivery.verdict import DeliveryVerdict as V
from guards.delivery.world import DeliveryWorld, Endpoint
from guards.requirement import mismatches
from tests.unit.delivery.owing import BODY, CLOSES, DUE, checked_in, contradicted, customer, held, owed, world

pytestmark = pytest.mark.fast

MOMENTS = st.sampled_from([DUE - timedelta(seconds=1), DUE, DUE + timedelta(hours=1), CLOSES - timedelta(seconds=1), CLOSES])
BODIES = st.sampled_from([BODY, Body("another"), NoBody("gone"), NoTemplate("changed"), None])
EVIDENCE = st.sampled_from([CheckIns(), checked_in(), EvidenceUnreadable("line 3")])
KINDS = st.sampled_from([Kind.DAILY, Kind.WEEKLY, Kind.REMINDER])


@st.composite
def worlds(draw: st.DrawFn) -> DeliveryWorld:
    slots = [
        owed(customer(f"acme-{number}", enabled=draw(st.booleans())), draw(KINDS)) for number in range(draw(st.integers(0, 4)))
    ]
    holds = []
    for one in slots:
        if draw(st.booleans()):
            state = draw(st.sampled_from(S))
            reservation = held(one, state, reason=draw(st.sampled_from([None, *Reason])), live=draw(st.booleans()))
            holds.append(contradicted(reservation) if draw(st.booleans()) else reservation)
    altered = {one.slot: "row 7" for one in slots if draw(st.integers(0, 9)) == 0}
    endpoint = draw(st.sampled_from([None, Endpoint(missing="no slack")]))
    made = world(
        *slots,
        now=draw(MOMENTS),
        holds=holds,
        altered=altered,
        body=draw(BODIES),
        check_ins=draw(EVIDENCE),
        endpoint=endpoint,
    )
    return made if draw(st.booleans()) else replace(made, known_since={})


@given(worlds(), st.integers(1, 3))
def test_a_target_is_free_open_enabled_and_complete(seen: DeliveryWorld, most: int) -> None:
    plan = make_plan(seen, scope={}, policy=DeliveryPolicy(max_messages_per_run=most))

    assert len(plan.targets) <= most
    assert mismatches(plan.targets, seen) == ()
    for target in plan.targets:
        assert isinstance(target, DeliveryTarget)
        assert lapse(target, seen) is None
        reservation = seen.held.get(target.slot)
        assert reservation is None or reservation.state is S.PREPARED
        assert load_target(target.as_json()) == target


@given(worlds())
def test_every_slot_has_one_finding_and_only_due_ones_are_targets(seen: DeliveryWorld) -> None:
    plan = make_plan(seen, scope={}, policy=DeliveryPolicy())

    subjects = [finding.subject for finding in plan.findings]
    assert len(subjects) == len(set(subjects))
    assert {target.subject for target in plan.targets} <= {
        finding.subject for finding in plan.findings if finding.verdict is V.DUE
    }
    assert all(finding.note.endswith((".", "`.")) for finding in plan.findings)


@given(worlds())
def test_what_may_have_gone_out_is_never_a_target_and_never_called_sent_without_proof(seen: DeliveryWorld) -> None:
    plan = make_plan(seen, scope={}, policy=DeliveryPolicy())

    verdicts = {finding.subject: finding.verdict for finding in plan.findings}
    for slot, reservation in seen.held.items():
        if slot in seen.altered or reservation.state is S.UNKNOWN:
            assert verdicts[slot.key] is V.IN_DOUBT
        elif verdicts.get(slot.key) is V.SENT:
            assert reservation.state.is_proven_sent


@given(st.text(), st.text())
def test_rendering_changes_nothing_but_the_marks(before: str, value: str) -> None:
    """What is filled in may look like a mark, a format or a backslash, and is text all the same."""
    plain = before.replace("{{", "").replace("}}", "").replace("{", "").replace("}", "")
    filled = dict.fromkeys(VARIABLES, value)

    assert render(f"{plain}{{{{ period }}}}{plain}", filled) == f"{plain}{value}{plain}"

"""Plans: the due slots with their pins, bounded, in one order, and back again from what the state store keeps."""

from dataclasses import replace
from datetime import timedelta

import pytest

from guards.delivery.planning import DeliveryTarget, load_plan, load_target, make_plan
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.reservation import ReservationState as S
from guards.delivery.standing import StandingApproval
from guards.delivery.verdict import DeliveryVerdict as V
from tests.unit.delivery.owing import BODY, DUE, NOW, POLICY, customer, held, owed, pins, reminder, world

pytestmark = pytest.mark.fast

SCOPE = {"registry_sha256": "a1" * 32}
TEMPLATED = replace(BODY, template="missing-checkin-v1", template_sha256="e5" * 32)


def test_what_is_due_becomes_a_target_with_its_pins() -> None:
    one = owed()

    plan = make_plan(world(one), scope=SCOPE, policy=POLICY)

    (target,) = plan.targets
    assert isinstance(target, DeliveryTarget)
    assert (target.subject, target.action, target.size_bytes) == ("acme-1:2026-11-30:daily", "send", 33)
    assert target.pins_sha256 == pins(one).digest
    assert (plan.guard, plan.watch, plan.observation) == ("delivery", "customers", "")


def test_what_is_not_due_is_reported_and_not_planned() -> None:
    early, sent = owed(customer("beta-2"), due_at=NOW + timedelta(hours=1)), owed()

    plan = make_plan(world(sent, early, holds=[held(sent, S.DELIVERED)]), scope=SCOPE, policy=POLICY)

    assert plan.targets == ()
    assert plan.counts == {"sent": 1, "not_yet": 1}


def test_a_known_failure_is_never_a_target_by_itself() -> None:
    """A rejected message was sent again by the next report, three times, before anybody had looked."""
    one = reminder()

    assert make_plan(world(one, holds=[held(one, S.KNOWN_FAILURE)]), scope=SCOPE, policy=POLICY).targets == ()


def test_two_reports_of_an_unchanged_world_have_one_digest_whatever_the_time() -> None:
    one = owed()

    first = make_plan(world(one), scope=SCOPE, policy=POLICY)
    second = make_plan(world(one, now=NOW + timedelta(hours=2)), scope=SCOPE, policy=POLICY)

    assert first.digest == second.digest


def test_what_goes_beyond_one_run_is_said_and_waits_for_the_next_plan() -> None:
    slots = [owed(customer(f"acme-{number}")) for number in range(3)]

    plan = make_plan(world(*slots), scope=SCOPE, policy=DeliveryPolicy(max_messages_per_run=2))

    assert [target.subject for target in plan.targets] == ["acme-0:2026-11-30:daily", "acme-1:2026-11-30:daily"]
    assert plan.findings[2].verdict is V.DUE
    assert "which holds 2 messages" in plan.findings[2].note


def test_with_only_standing_what_no_standing_approval_names_waits_for_a_person() -> None:
    standing = StandingApproval(
        id=1,
        watch="customers",
        customers=("acme-1",),
        kinds=("daily",),
        approved_by="Kim",
        comment="",
        until=NOW + timedelta(days=1),
        recorded_at=DUE - timedelta(days=1),
    )
    seen = world(owed(), owed(customer("beta-2")), standing=(standing,))

    plan = make_plan(seen, scope=SCOPE, policy=DeliveryPolicy(only_standing=True))

    assert [target.subject for target in plan.targets] == ["acme-1:2026-11-30:daily"]
    assert "no live standing approval" in plan.findings[1].note


def test_with_only_standing_what_a_person_declined_is_left_out_and_says_who() -> None:
    one = owed()

    plan = make_plan(world(one, declined={one.slot: "Lee"}), scope=SCOPE, policy=DeliveryPolicy(only_standing=True))

    assert plan.targets == ()
    assert "Lee declined a plan with it" in plan.findings[0].note


def test_an_incomplete_observation_has_findings_and_no_targets() -> None:
    plan = make_plan(world(owed(), incomplete="the ledger was not read"), scope=SCOPE, policy=POLICY)

    assert (plan.targets, plan.observation) == ((), "the ledger was not read")
    assert len(plan.findings) == 1


def test_what_would_be_due_at_another_moment_is_shown_and_never_planned() -> None:
    plan = make_plan(world(owed(), is_hypothetical=True), scope=SCOPE, policy=POLICY)

    assert plan.targets == ()
    assert "only shown, never sent" in plan.observation
    assert plan.findings[0].verdict is V.DUE


@pytest.mark.parametrize("one", [owed(), reminder()])
def test_a_stored_plan_is_the_same_plan_again(one: object) -> None:
    made = make_plan(world(one, body=TEMPLATED), scope=SCOPE, policy=POLICY)  # type: ignore[arg-type]

    back = load_plan(watch="customers", scope=SCOPE, policy=POLICY.as_json(), targets=[t.as_json() for t in made.targets])

    assert back.digest == made.digest
    assert back.targets == made.targets


@pytest.mark.parametrize(
    "changed",
    [
        {"extra": 1},
        {"slot": "acme-1"},
        {"slot": 7},
        {"action": "resend"},
        {"size_bytes": 0},
        {"size_bytes": True},
        {"size_bytes": "33"},
        {"body_sha256": "AB" * 32},
        {"template": "daily-v1"},
        {"local_date": "31 February"},
        {"due_at": "2026-11-30T09:00:00+09:00"},
        {"due_at": "2026-11-30 00:00:00+00:00"},
        {"provider": "pigeon"},
    ],
)
def test_a_stored_target_that_no_plan_could_hold_is_refused(changed: dict[str, object]) -> None:
    (target,) = make_plan(world(owed()), scope=SCOPE, policy=POLICY).targets

    with pytest.raises(ValueError):
        load_target({**target.as_json(), **changed})  # type: ignore[dict-item]


def test_a_stored_target_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError):
        load_target(["acme-1:2026-11-30:daily"])

"""Standing approvals cover what they name, while they live, and nothing by default."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from guards.delivery.slot import Slot
from guards.delivery.standing import StandingApproval, covering, covers, uncovered

pytestmark = pytest.mark.fast

NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
DAILY, WEEKLY = Slot("acme-1", "2026-11-30", "daily"), Slot("acme-1", "2026-W49", "weekly")
KIM = StandingApproval(
    id=1,
    watch="customers",
    customers=("acme-1", "beta-2"),
    kinds=("daily",),
    approved_by="Kim",
    comment="agreed with sales",
    until=NOW + timedelta(days=30),
    recorded_at=NOW - timedelta(days=1),
)


def test_a_named_customer_and_kind_are_covered() -> None:
    assert covers([KIM], [DAILY], watch="customers", now=NOW)


@pytest.mark.parametrize(
    "slot", [WEEKLY, Slot("acme-12", "2026-11-30", "daily"), Slot("gamma-3", "2026-11-30", "daily")], ids=lambda slot: slot.key
)
def test_another_kind_or_customer_is_not_however_alike_its_name(slot: Slot) -> None:
    assert uncovered([KIM], [DAILY, slot], watch="customers", now=NOW) == (slot,)
    assert not covers([KIM], [DAILY, slot], watch="customers", now=NOW)


@pytest.mark.parametrize(
    "ended",
    [
        replace(KIM, until=NOW),
        replace(KIM, revoked_at=NOW - timedelta(seconds=1), revoked_by="Lee"),
        replace(KIM, recorded_at=NOW + timedelta(seconds=1)),
        replace(KIM, watch="others"),
    ],
    ids=["ended", "revoked", "of the future", "of another watch"],
)
def test_what_is_not_live_here_and_now_covers_nothing(ended: StandingApproval) -> None:
    assert uncovered([ended], [DAILY], watch="customers", now=NOW) == (DAILY,)
    assert covering([ended], [DAILY], watch="customers", now=NOW) == ()


def test_several_approvals_cover_a_plan_together_and_are_named_oldest_first() -> None:
    weekly = replace(KIM, id=2, kinds=("weekly",), approved_by="Lee")
    idle = replace(KIM, id=3, customers=("gamma-3",))

    assert covers([weekly, KIM], [DAILY, WEEKLY], watch="customers", now=NOW)
    assert covering([idle, weekly, KIM], [DAILY, WEEKLY], watch="customers", now=NOW) == (KIM, weekly)


def test_a_declined_slot_is_not_covered_and_the_others_still_are() -> None:
    other = Slot("beta-2", "2026-11-30", "daily")

    assert uncovered([KIM], [DAILY, other], watch="customers", now=NOW, declined={DAILY}) == (DAILY,)
    assert not covers([KIM], [DAILY, other], watch="customers", now=NOW, declined={DAILY})
    assert covers([KIM], [other], watch="customers", now=NOW, declined={DAILY})


def test_nothing_at_all_is_not_covered() -> None:
    assert not covers([KIM], [], watch="customers", now=NOW)

"""What time, a check-in or another run ends: such a target is left out, and the others go on."""

from dataclasses import replace
from datetime import timedelta

import pytest

from guards.delivery.evidence import EvidenceUnreadable
from guards.delivery.lapse import Lapsed, lapse
from guards.delivery.planning import DeliveryTarget, make_plan
from guards.delivery.reservation import ReservationState as S
from guards.delivery.schedule import Owed
from guards.delivery.world import DeliveryWorld
from tests.unit.delivery.owing import CLOSES, DUE, POLICY, checked_in, held, owed, reminder, world

pytestmark = pytest.mark.fast

ONE, ASKED = owed(), reminder()


def target(one: Owed = ONE) -> DeliveryTarget:
    (made,) = make_plan(world(one), scope={}, policy=POLICY).targets
    assert isinstance(made, DeliveryTarget)
    return made


@pytest.mark.parametrize("seen", [world(ONE), world(ONE, holds=[held(ONE, S.PREPARED)]), world(ONE, check_ins=checked_in())])
def test_what_is_still_owed_has_not_lapsed(seen: DeliveryWorld) -> None:
    assert lapse(target(), seen) is None


@pytest.mark.parametrize(
    ("seen", "how"),
    [
        (world(ONE, holds=[held(ONE, S.DELIVERED)], now=CLOSES), Lapsed.TAKEN),
        (world(ONE, altered={ONE.slot: "row 7"}), Lapsed.TAKEN),
        (world(ONE, now=CLOSES), Lapsed.CLOSED),
        (world(ONE, now=DUE - timedelta(seconds=1)), Lapsed.CLOSED),
    ],
)
def test_what_ended_by_itself_says_how(seen: DeliveryWorld, how: Lapsed) -> None:
    found = lapse(target(), seen)

    assert found is not None
    assert found.how is how
    assert found.why


def test_a_reminder_ends_with_its_check_in_and_not_with_evidence_that_cannot_be_read() -> None:
    made = target(ASKED)

    arrived = lapse(made, world(ASKED, check_ins=checked_in()))

    assert arrived is not None
    assert arrived.how is Lapsed.SUPPRESSED
    assert lapse(made, replace(world(ASKED), check_ins=EvidenceUnreadable("x"))) is None
    assert lapse(made, world(ASKED)) is None

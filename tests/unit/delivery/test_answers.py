"""Every call on a slot in every state answers what is written down in `answers.txt`, word for word."""

from dataclasses import fields
from pathlib import Path

import pytest

from guards.delivery.entry import Reservation, may_be_replaced, thin
from guards.delivery.reservation import ReservationState as S
from tests.unit.delivery.answers import CALLS, answers, contradicted, situations

pytestmark = pytest.mark.fast
WRITTEN = Path(__file__).with_name("answers.txt")


def test_every_call_in_every_state_answers_as_written_down():
    """What changes on purpose: python -m tests.unit.delivery.answers > tests/unit/delivery/answers.txt, and read the difference."""
    assert "\n".join(answers()).strip().splitlines() == WRITTEN.read_text().splitlines()


def test_no_call_is_written_down_that_is_not_made():
    blocks = WRITTEN.read_text().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == list(CALLS)


LEFT_OUT = {"key": "", "note": "", "opened_under": {}, "evidence": {}, "approval": {}, "is_live": False, "lease_expires_at": None}


@pytest.mark.parametrize("held", [held for _, held in situations() if held is not None])
def test_a_thin_reservation_keeps_what_later_entries_are_judged_by(held: Reservation) -> None:
    kept = thin(held)
    for name in {each.name for each in fields(Reservation)} - {"pins", "late", "receipt"}:
        assert getattr(kept, name) == LEFT_OUT.get(name, getattr(held, name)), name
    assert kept.pins == held.pins.thin()
    assert kept.receipt == (held.receipt if held.state is S.DELIVERED else {}), "an audit has to repeat it"
    assert [said.get("state") for said in kept.late] == [said.get("state") for said in held.late]
    for one, other in ((kept, held), (thin(contradicted(held)), contradicted(held))):
        assert (one.is_contradicted, may_be_replaced(one)) == (other.is_contradicted, may_be_replaced(other))

"""What the pages of guard `delivery` say first: the ledger's health in words, what became of each message, how far the calendar reaches."""

import pytest

from assets.delivery_checks import STATE_WORDS, health_words, ledger_metadata
from assets.delivery_days import days_ahead
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.reservation import ReservationState
from guards.delivery.row import GENESIS, Head
from guards.delivery.slot import Slot
from jobs.delivery.outcomes import MOST_ROWS, in_doubt, outcomes_table
from resources.delivery.sent import Outcome, Sent
from resources.ledger.interface import Health

pytestmark = pytest.mark.fast

HEAD = Head(7, GENESIS)


def sent(outcome: Outcome, customer: str = "acme-1", message: str = "sent") -> Sent:
    return Sent(Slot(customer, "2026-11-30", "daily"), outcome, message, 12, "0" * 64, "1" * 32)


def test_every_state_has_words_and_a_number() -> None:
    assert set(STATE_WORDS) == set(ReservationState)
    made = ledger_metadata(Health("file 1", HEAD, {}))
    assert {f"state_{state.value}" for state in ReservationState} <= set(made)


def test_a_healthy_ledger_is_one_sentence() -> None:
    assert health_words(Health("file 1", HEAD, {"delivered": 3})) == "**3 messages**: 3 sent."
    assert health_words(Health("file 1", HEAD, {})) == "**0 messages**."


def test_trouble_says_where_to_read_what_to_do() -> None:
    stale = (Slot("acme-1", "2026-11-30", "daily"),)

    said = health_words(Health("file 1", HEAD, {"unknown": 2, "sending": 1}, stale_sending=stale, recovery="a <b>copy</b>"))

    assert "**3 messages**: 1 under way, 2 in doubt." in said
    assert "no\\_stale\\_sending" in said
    assert "plan\\_needs\\_a\\_decision" in said
    assert "Nothing is sent: a \\<b\\>copy" in said


def test_what_went_wrong_stands_above_what_was_sent() -> None:
    """Five hundred rows of "sent" had the one in doubt below them."""
    rows = outcomes_table([*[sent(Outcome.SENT)] * (MOST_ROWS + 5), sent(Outcome.UNKNOWN, "bolt-2", "hung up\n<b>")]).records

    assert rows[0].data["slot"] == "bolt-2:2026-11-30:daily"
    assert rows[0].data["said"] == "hung up\\n<b>"
    assert rows[-1].data["slot"] == "and 6 more"
    assert len(rows) == MOST_ROWS + 1


def test_a_run_that_leaves_doubt_says_the_whole_command() -> None:
    said = in_doubt([sent(Outcome.UNKNOWN)])

    assert '`opsguard ledger resolve acme-1:2026-11-30:daily --sent --by YOU --comment "WHAT YOU FOUND" --yes`' in said


@pytest.mark.parametrize(("hours", "days"), [(0, 0), (1, 1), (24, 1), (25, 2), (744, 31)])
def test_the_calendar_reaches_as_far_as_a_report_looks(hours: int, days: int) -> None:
    assert days_ahead(DeliveryPolicy(look_ahead_hours=hours)) == days

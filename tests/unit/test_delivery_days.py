"""Which day of the calendar a message belongs to, and what is said about a day."""

from datetime import UTC, date, datetime

import pytest

from assets.delivery_days import MOST_ROWS, day_metadata
from assets.delivery_report import by_day
from guards.delivery.verdict import DeliveryVerdict
from guards.finding import Finding

pytestmark = pytest.mark.fast


def finding(subject: str, due_at: datetime | None, verdict: DeliveryVerdict = DeliveryVerdict.DUE) -> Finding:
    return Finding(subject, verdict, "why", {} if due_at is None else {"due_at": due_at.isoformat()})


def test_a_message_belongs_to_the_date_on_which_it_was_due_in_the_registrys_zone() -> None:
    """Half past three in the afternoon UTC is the next day in Seoul: a partition in UTC showed half of two days."""
    late = datetime(2026, 11, 30, 15, 30, tzinfo=UTC)
    early = datetime(2026, 11, 30, 14, 30, tzinfo=UTC)

    days = by_day((finding("a", late), finding("b", early), finding("stray", None)), "Asia/Seoul")

    assert {day: [one.subject for one in found] for day, found in days.items()} == {
        date(2026, 11, 30): ["b"],
        date(2026, 12, 1): ["a"],
    }


def test_a_day_has_a_number_for_every_verdict_and_a_bounded_table() -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    found = tuple(finding(f"acme-{number}:2026-11-30:daily", at) for number in range(MOST_ROWS + 3))

    made = day_metadata((*found, finding("x", at, DeliveryVerdict.MISSED)))

    assert (made["slots"], made["due"], made["missed"], made["in_doubt"]) == (MOST_ROWS + 4, MOST_ROWS + 3, 1, 0)
    assert {verdict.value for verdict in DeliveryVerdict} <= set(made)
    assert len(made["messages"].records) == MOST_ROWS + 1


def test_a_hostile_name_stays_on_its_line() -> None:
    made = day_metadata((finding("acme\n\x1b[31m", datetime(2026, 11, 30, tzinfo=UTC)),))

    (row,) = made["messages"].records
    assert row.data["slot"].isprintable()

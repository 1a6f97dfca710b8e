"""The closed set of verdicts answers every question about itself."""

import pytest

from guards.delivery.verdict import DeliveryVerdict as V

pytestmark = pytest.mark.fast


def test_each_verdict_says_whether_it_is_a_gap_may_be_repaired_and_needs_a_person() -> None:
    """A new member without an answer fails here, and in the type checker."""
    answers = {verdict: (verdict.is_gap, verdict.is_repairable, verdict.needs_person) for verdict in V}

    assert answers == {
        V.DUE: (True, True, False),
        V.NOT_YET: (False, False, False),
        V.SENT: (False, False, False),
        V.SENDING: (False, False, False),
        V.IN_DOUBT: (True, False, True),
        V.FAILED: (True, False, True),
        V.MISSED: (True, False, False),
        V.BODY_MISSING: (True, False, True),
        V.TEMPLATE_UNAPPROVED: (True, False, True),
        V.SUPPRESSED: (False, False, False),
        V.EVIDENCE_UNREADABLE: (True, False, True),
        V.CUSTOMER_DISABLED: (False, False, False),
        V.PIN_CONFLICT: (True, False, True),
    }

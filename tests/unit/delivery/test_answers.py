"""Every call on a slot in every state answers what is written down in `answers.txt`, word for word."""

from pathlib import Path

import pytest

from tests.unit.delivery.answers import CALLS, answers

pytestmark = pytest.mark.fast
WRITTEN = Path(__file__).with_name("answers.txt")


def test_every_call_in_every_state_answers_as_written_down():
    """What changes on purpose: python -m tests.unit.delivery.answers > tests/unit/delivery/answers.txt, and read the difference."""
    assert "\n".join(answers()).strip().splitlines() == WRITTEN.read_text().splitlines()


def test_no_call_is_written_down_that_is_not_made():
    blocks = WRITTEN.read_text().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == list(CALLS)

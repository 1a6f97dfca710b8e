"""Attempts are bounded, each on a fresh connection, and only for what may pass by itself."""

import pytest

from resources.errors import NotObserved, Transient, Unreachable
from resources.file_servers.connect import PATIENCE, Patience, retrying, shown

pytestmark = pytest.mark.fast


class Step:
    """Raises its errors one after the other, then answers 7."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts = 0
        self.dropped = 0

    def __call__(self) -> int:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        return 7

    def drop(self) -> None:
        self.dropped += 1


def test_what_passes_by_itself_is_tried_again_on_a_fresh_connection() -> None:
    step, pauses = Step(Transient("source: a"), Transient("source: b")), list[float]()
    assert retrying(step, side="source", before_again=step.drop, pause=pauses.append) == 7
    assert (step.attempts, step.dropped, pauses) == (3, 2, [0.5, 2.0])


def test_attempts_are_bounded_and_the_last_error_says_how_many() -> None:
    step, pauses = Step(*[Transient("source: cut")] * 9), list[float]()
    with pytest.raises(Transient, match=r"source: cut \(tried 3 times\)"):
        retrying(step, side="source", before_again=step.drop, pause=pauses.append)
    assert (step.attempts, step.dropped, len(pauses)) == (3, 3, 2)


@pytest.mark.parametrize("error", [Unreachable("x"), NotObserved("x"), ValueError("x")])
def test_what_does_not_pass_is_raised_at_once(error: Exception) -> None:
    step, pauses = Step(error), list[float]()
    with pytest.raises(type(error)):
        retrying(step, side="source", pause=pauses.append)
    assert (step.attempts, pauses) == (1, [])


def test_one_attempt_is_one_attempt() -> None:
    step = Step(Transient("x"))
    with pytest.raises(Transient):
        retrying(step, side="source", patience=Patience(attempts=1))
    assert step.attempts == 1


def test_all_pauses_of_a_step_fit_into_a_sensors_tick() -> None:
    assert sum(PATIENCE.pause_after(attempt) for attempt in range(1, PATIENCE.attempts)) < 10


def test_what_a_server_says_is_one_harmless_bounded_line() -> None:
    line = shown("a\r\n\x1b[2J\u202e" + "x" * 1000)
    assert line.isprintable()
    assert len(line) <= 200

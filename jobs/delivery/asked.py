"""Whether a run has asked for a grant: from then on an error does not mean that nothing was sent."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from guards.text import count_words
from resources.delivery.steps import Moment, Step
from resources.errors import OpsGuardError, OutcomeUnknown


class Asked:
    """Watches one run's steps. `subjects`: whose grants were asked for, in order."""

    def __init__(self) -> None:
        self.subjects: list[str] = []

    def __call__(self, step: Step, moment: Moment, subject: str) -> None:
        if (step, moment) == (Step.GRANT, Moment.BEFORE):
            self.subjects.append(subject)

    @contextmanager
    def proving_nothing_by_errors(self) -> Iterator[None]:
        """After the first grant whatever ends the run is `OutcomeUnknown`, exit code 4; before it an error stays what it is."""
        try:
            yield
        except dg.Failure:
            raise
        except Exception as error:
            if not self.subjects or (isinstance(error, OpsGuardError) and error.exit_code == OutcomeUnknown.exit_code):
                raise
            said = str(error) if isinstance(error, OpsGuardError) else type(error).__name__
            raise OutcomeUnknown(
                f"{count_words(len(self.subjects), 'message')} sent or may have been sent, the last one {self.subjects[-1]}, and then: {said}. "
                "Run the same command again: it looks first, and sends nothing twice"
            ) from error

"""A broken world ends a run with its sentence and the exit code that the command line gives for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import dagster as dg

from resources.errors import OpsGuardError, Unreachable

INCOMPLETE: Final = "observation_incomplete"


@contextmanager
def failing_with_exit_code(*, what: str = "") -> Iterator[None]:
    """`what` goes before the sentence on the run's page when something could not be observed: `observation_incomplete`."""
    try:
        yield
    except OpsGuardError as error:
        raise dg.Failure(
            f"{what}: {error}" if what and isinstance(error, Unreachable) else str(error),
            metadata={"exit_code": error.exit_code, "error": str(error)},
            allow_retries=False,
        ) from error

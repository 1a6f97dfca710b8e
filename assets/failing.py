"""A broken world ends a run with its sentence and the exit code that the command line gives for it."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from resources.errors import OpsGuardError


@contextmanager
def failing_with_exit_code(*, what: str = "") -> Iterator[None]:
    """`what` goes before the sentence on the run's page, for example `observation_incomplete`."""
    try:
        yield
    except OpsGuardError as error:
        raise dg.Failure(
            f"{what}: {error}" if what else str(error),
            metadata={"exit_code": error.exit_code, "error": str(error)},
            allow_retries=False,
        ) from error


INCOMPLETE = "observation_incomplete"

"""What a run in the terminal says while it runs: warnings and errors, escaped. The run's page in the UI has every line."""

import logging
import os
import sys
from typing import Final

import dagster as dg

from guards.text import terminal

LEVEL_VARIABLE: Final = "OPSGUARD_LOG_LEVEL"


class Escaped(logging.Formatter):
    """Log lines hold file names too. Line breaks of tracebacks are kept."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(terminal(text) for text in super().format(record).split("\n"))


@dg.logger(description="Warnings and errors of a run, on the terminal's stderr.")
def console_log(_: dg.InitLoggerContext) -> logging.Logger:
    """OPSGUARD_LOG_LEVEL=DEBUG shows all of Dagster's events."""
    log = logging.Logger("dagster.console", level=_level())  # noqa: LOG001 - Dagster wants one of the run's own
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Escaped("%(levelname)s %(message)s"))
    log.addHandler(handler)
    return log


def _level() -> int:
    return logging.getLevelNamesMapping().get(os.environ.get(LEVEL_VARIABLE, "").upper(), logging.WARNING)

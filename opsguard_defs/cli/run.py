"""Runs one command and turns whatever happens into an exit code and one sentence on stderr."""

import contextlib
import errno
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from opsguard_defs.cli.exits import BROKEN_PIPE, INTERRUPTED, Exit
from opsguard_defs.cli.output import emit, say, shown
from opsguard_defs.cli.words import error_code
from resources.errors import OpsGuardError

COMPLETION: Final = "_OPSGUARD_COMPLETE"
"""Set by the shell when it asks for completions."""


def _for_operators(record: logging.LogRecord) -> bool:
    """Dagster's own warnings are for those who write definitions (its retries of the database come by the root logger, which nothing of
    ours uses); paramiko logs a traceback for what we say in a sentence.
    """
    floor = {"dagster": logging.ERROR, "root": logging.ERROR, "paramiko": logging.CRITICAL}.get(
        record.name.partition(".")[0], logging.NOTSET
    )
    return record.levelno >= floor or _is_debugging()


class _Escaped(logging.Formatter):
    """Log lines hold file names too."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(shown(text, sys.stderr) for text in super().format(record).split("\n"))


def run(arguments: Sequence[str]) -> int:
    """The exit code for `opsguard ARGUMENTS...`. Never raises, never shows a traceback without --debug."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    logs = logging.StreamHandler(sys.stderr)
    logs.setFormatter(_Escaped("%(levelname)s %(name)s: %(message)s"))
    logs.addFilter(_for_operators)
    logging.basicConfig(handlers=[logs], level=logging.WARNING)
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as ended:
        # Completion ends this way; otherwise only Typer and Rich do, with 1, when whoever read our output has gone.
        return _broken_pipe() if ended.code == 1 and COMPLETION not in os.environ else int(ended.code or 0)
    except BrokenPipeError:
        return _broken_pipe()
    except KeyboardInterrupt:
        say("stopped by the keyboard")
        return INTERRUPTED
    except OpsGuardError as error:
        say(str(error))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the outermost place: nobody above could say anything
        return _foreign(error)


def _invoke(arguments: Sequence[str]) -> int:
    from typer.main import get_command

    from opsguard_defs.cli.app import app

    try:
        result = get_command(app).main(args=list(arguments), prog_name="opsguard", standalone_mode=False)
    except Exception as error:
        show = getattr(error, "show", None)
        if isinstance(error, OpsGuardError) and _wants_json(arguments):
            _emit_error(error_code(error), str(error))
        if show is None:
            if type(error).__name__ == "Abort":
                raise KeyboardInterrupt from None
            raise
        show(file=sys.stderr)
        if _wants_json(arguments):
            _emit_error("usage", error.format_message() if hasattr(error, "format_message") else str(error))
        return Exit.USAGE
    return result if isinstance(result, int) else Exit.DONE


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments


def _emit_error(code: str, message: str) -> None:
    """A script that reads stdout gets an object where no result can be had."""
    emit({"error": {"code": code, "message": message}})
    sys.stdout.flush()


def _broken_pipe() -> int:
    """Whoever read our output has gone: that is their decision, not an error. Nothing more may be flushed to it."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(quiet, stream.fileno())
    return BROKEN_PIPE


def _foreign(error: Exception) -> int:
    """An error that is not of our own tree: say what it most likely means, else where the details are."""
    if isinstance(error, OSError):
        if error.errno == errno.EPIPE:
            return _broken_pipe()
        if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM} and error.filename:
            say(f"cannot write {error.filename} ({error.strerror}): give OPSGUARD_HOME a directory that you may write")
            return Exit.USAGE
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            say(f"the disk is full ({error.filename or 'while writing'}): make room, then run the same command again")
            return Exit.NOT_OBSERVED
    if type(error).__module__.startswith("sqlalchemy") and type(error).__name__ in {"OperationalError", "InterfaceError"}:
        first = str(getattr(error, "orig", error)).strip().splitlines()[:1]
        say(f"the state database could not be reached or answered no: {''.join(first)}. `opsguard doctor` looks closer")
        _debug_traceback()
        return Exit.NOT_OBSERVED
    if _debug_traceback():
        return Exit.UNEXPECTED
    say(f"unexpected {type(error).__name__}: {str(error)[:300]}")
    say(f"this is a fault in opsguard; details are in {_log_traceback()} (or run again with OPSGUARD_DEBUG=1)")
    return Exit.UNEXPECTED


def _debug_traceback() -> bool:
    if not _is_debugging():
        return False
    traceback.print_exc(file=sys.stderr)
    return True


def _is_debugging() -> bool:
    return os.environ.get("OPSGUARD_DEBUG", "") not in {"", "0"}


def _log_traceback() -> Path:
    from opsguard_defs.settings.load import home_path

    with _log_file(home_path() / "log") as file:
        file.write(traceback.format_exc())
        return Path(file.name)


def _log_file(directory: Path) -> IO[str]:
    """A new file that only its owner may read; in the temporary directory when the home cannot be written."""
    name = f"opsguard-error-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.NamedTemporaryFile(
            "w", prefix=name, suffix=".log", dir=directory, delete=False, encoding="utf-8", errors="backslashreplace"
        )
    except OSError:
        return tempfile.NamedTemporaryFile(
            "w", prefix=name, suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        )

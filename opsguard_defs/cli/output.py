"""What commands print. Results go to stdout, everything else to stderr; nothing from outside reaches a terminal unescaped."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from guards.text import terminal

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH: Final = 160
"""Columns of a table when nobody says how wide the reader is."""


def say(text: str) -> None:
    """Sentences for the operator, on stderr; line breaks of our own are kept, all else that could act is escaped."""
    for line in text.split("\n"):
        print(shown(line, sys.stderr), file=sys.stderr)
    sys.stderr.flush()


def line(text: str = "") -> None:
    """One line of the result, on stdout."""
    print(shown(text, sys.stdout))


def emit(value: Mapping[str, Any]) -> None:
    """One JSON object on one line, on stdout. ASCII only: whatever a name holds, a reader gets exactly that back."""
    print(json.dumps(value, ensure_ascii=True, default=_plain))


def program() -> str:
    """How this program is typed here: by its name where the shell finds that, else as it was started."""
    if shutil.which("opsguard"):
        return "opsguard"
    started = Path(sys.argv[0]).absolute()
    if started.name == "opsguard":
        return shlex.quote(_from_here(started))
    return f"{shlex.quote(_from_here(Path(sys.executable)))} -m opsguard_defs"


def _from_here(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str = "",
    right: Iterable[str] = (),
    most_columns: int = _PIPE_WIDTH,
) -> None:
    """A table on stdout; `right` names columns of numbers. `most_columns`: how wide it may get where nobody says how wide it is read."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=Text(shown(title, sys.stdout)) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    numeric = frozenset(right)
    texts = [[Text(shown(str(cell), sys.stdout)) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        last = index == len(columns) - 1
        made.add_column(
            column,
            justify="right" if column in numeric else "left",
            overflow="fold",
            no_wrap=not last and column in numeric,
        )
    for text in texts:
        made.add_row(*text)
    console(most_columns).print(made)


def console(most_columns: int = _PIPE_WIDTH) -> "Console":
    """Rich respects NO_COLOR by itself; markup is off, since all text here may come from outside."""
    from rich.console import Console

    wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else most_columns
    return Console(file=sys.stdout, width=wide, markup=False, emoji=False, highlight=False, soft_wrap=False)


def shown(text: str, stream: Any) -> str:
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    return terminal(text, ascii_only=not encoding.startswith("utf"))


def _plain(value: object) -> object:
    """What JSON has no form for: times as ISO 8601, tuples and mappings by their content, the rest as its text."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple | set | frozenset) else str(value)

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
_FEW_WORDS: Final = 24
_EDGES: Final = 2
_BETWEEN: Final = 3


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
    """A table on stdout; `right` names columns of numbers. `most_columns`: how wide it may get where nobody says how wide it is read.

    Where that is too narrow, each row is a paragraph: names and commands that a reader copies are not folded.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [[str(cell) for cell in row] for row in rows]
    out = console(most_columns)
    if _is_narrow(columns, rows, out.width):
        _paragraphs(columns, rows, title)
        return
    made = Table(
        title=Text(shown(title, sys.stdout)) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    numeric = frozenset(right)
    texts = [[Text(shown(cell, sys.stdout)) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        last = index == len(columns) - 1
        made.add_column(
            column,
            justify="right" if column in numeric else "left",
            overflow="fold",
            no_wrap=not last,
        )
    for text in texts:
        made.add_row(*text)
    out.print(made)


def _is_narrow(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """The last column would get less than it needs and less than a few words."""
    from rich.cells import cell_len

    needed = (
        [max(map(cell_len, [column, *cells])) for column, cells in zip(columns, zip(*rows, strict=True), strict=True)]
        if rows
        else []
    )
    rest = width - _EDGES - sum(each + _BETWEEN for each in needed[:-1])
    return bool(needed) and rest < min(needed[-1], _FEW_WORDS)


def _paragraphs(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str) -> None:
    if title:
        line(title)
    for row in rows:
        first = next(index for index, column in enumerate(columns) if column)
        line("  ".join(cell for cell in row[: first + 1] if cell))
        for column, cell in zip(columns[first + 1 :], row[first + 1 :], strict=True):
            if cell:
                line(f"  {column}: {cell}" if column else f"  {cell}")


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

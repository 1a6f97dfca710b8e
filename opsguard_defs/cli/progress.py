"""Progress on stderr: a bar on a terminal, nothing in a pipe or a log."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from guards.text import terminal
from resources.progress import Progress, silent


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """The bar goes away when the block ends: what stays is the result."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(file=sys.stderr, markup=False), transient=True) as bars:
        task = bars.add_task(terminal(label), total=None)

        def step(what: str, done: int, of: int) -> None:
            bars.update(task, description=terminal(f"{label}: {what}", limit=60), completed=done, total=of or None)

        yield step
